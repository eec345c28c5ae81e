"""Two checkouts of Pillarbox beside each other, by the CPU time that a million rows take.

``python -m benchmarks.compare BEFORE AFTER [--only TTL] [--output FILE]``, from the root of the
repository. BEFORE and AFTER are folders of checkouts that have their jar (``make jar``) and an
environment `.venv` with the package. The contestants are this checkout's, so that both sides run
the same functions over the same rows. For each case both sides start a process, warm up, and then
run by turns, a few seconds each: other work on the machine, which takes caches and pipelines away,
meets them alike. The CPU time is that of the JVM, with its compiler and its garbage collector, and
of the Python workers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

import pillarbox as pb

from .keyed import contestants, data, stream
from .keyed.contestants import keyed, ours
from .measure import usage

ROOT = Path(__file__).resolve().parents[1]
WAYS = {
    "rows": lambda backend: keyed(ours.RunningCount, backend=backend),
    "rows, TTL": lambda backend: keyed(ours.RunningCountTtl, backend=backend),
    "rows, a timer a key": lambda backend: keyed(ours.RunningCountTimer, backend=backend),
    "rows, map of ten": lambda backend: keyed(ours.MapOfTen, backend=backend),
    "columns": lambda backend: keyed(ours.RunningCountColumns, backend=backend),
    "scan": lambda backend: lambda df: contestants.scan(df, backend=backend),
}
KEYED = {
    f"{mode}, {way}": (mode.split(",")[0], make(mode.rpartition(" ")[2]))
    for mode in ("stream, rocksdb", "stream, heap", "batch, heap")
    for way, make in WAYS.items()
}
CALLS = {f"no-op calls, engine {engine}": engine for engine in ("jvm", "python")}
STREAMED_CALLS = "stream, no-op calls"


async def no_op(row: Row) -> int:
    return row.id  # type: ignore[no-any-return]


async def no_op_of_stream(row: Row) -> int:
    return row.v  # type: ignore[no-any-return]


def main() -> None:
    options = arguments()
    if options.child:
        serve(options.child, options.rows, options.data)
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    chosen = [
        case
        for case in [*KEYED, *CALLS, STREAMED_CALLS]
        if any(part in case for part in options.only)
    ]
    lines = []
    with tempfile.TemporaryDirectory(prefix="compare-bench-") as folder:
        options.data = Path(folder) / "rows"
        data.write(options.data, options.rows, options.rows // 10)
        for case in chosen:
            pairs = [pair for _ in range(options.rounds) for pair in one_round(case, options)]
            lines.append(line(case, pairs))
            print(lines[-1], f"load {os.getloadavg()[0]:.1f}", flush=True)
    if options.output:
        options.output.write_text(document(lines, options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.compare", description=__doc__)
    parser.add_argument("sides", type=Path, nargs="*", help="the checkouts BEFORE and AFTER")
    parser.add_argument("--rows", type=int, default=1_000_000, help="ten rows a key; or calls")
    parser.add_argument("--rounds", type=int, default=2, help="times that processes are started")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of runs in a round")
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose name has one of these")
    parser.add_argument("--output", type=Path, help="file to write the page to")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.child and len(options.sides) != 2:
        parser.error("two checkouts are compared")
    return options


Pair = tuple[float, ...]


def one_round(case: str, options: argparse.Namespace) -> list[Pair]:
    """CPU seconds a million rows before and after, of the pairs of runs in fresh processes."""
    children = [start(side, case, options) for side in options.sides]
    try:
        for child in [*children, *children]:  # to warm up
            ask(child)
        pairs = []
        for number in range(options.repeats):
            order = children if number % 2 == 0 else children[::-1]
            pairs.append(tuple(map(ask, order))[:: 1 if number % 2 == 0 else -1])
        return pairs
    finally:
        for child in children:
            child.communicate()


def start(side: Path, case: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    """A process with the package of that checkout and the contestants of this one."""
    python = side.resolve() / ".venv" / "bin" / "python"
    command = [python, "-m", "benchmarks.compare", "--child", case, "--data", options.data]
    return subprocess.Popen(
        [*command, "--rows", str(options.rows)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": str(python)},
    )


def ask(child: subprocess.Popen[str]) -> float:
    """Lets the process run its case once. Raises ValueError if it has failed."""
    assert child.stdin
    assert child.stdout
    child.stdin.write("\n")
    child.stdin.flush()
    return float(child.stdout.readline())


def serve(case: str, rows: int, folder: Path) -> None:
    """For each line that comes in runs the case and answers with its CPU time."""
    spark = stream.session()
    if case in CALLS:
        run = calls(spark, CALLS[case], rows)
    else:
        run = over(spark, folder, *KEYED.get(case, ("stream", streamed_calls)))
    for _ in sys.stdin:
        with usage() as found:
            run()
        print(found.cpu_seconds / rows * 1e6, flush=True)
    spark.stop()


def over(
    spark: SparkSession, folder: Path, mode: str, transform: contestants.Transform
) -> Callable[[], object]:
    if mode == "stream":
        return lambda: stream.run(transform(stream.read(spark, folder)))
    rows = spark.read.schema(data.SCHEMA).parquet(str(folder)).withWatermark("t", "0 seconds")
    return lambda: transform(rows).write.format("noop").mode("overwrite").save()


def calls(spark: SparkSession, engine: str, rows: int) -> Callable[[], object]:
    options = {"returns": "answer bigint", "ordered": False, "capacity": 1_000, "engine": engine}
    frame = pb.async_io(spark.range(0, rows, 1, 2), no_op, **options)
    return lambda: frame.write.format("noop").mode("overwrite").save()


def streamed_calls(rows: DataFrame) -> DataFrame:
    options = {"returns": "answer bigint", "ordered": False, "capacity": 1_000, "engine": "jvm"}
    return pb.async_io(rows, no_op_of_stream, **options)


def line(case: str, pairs: list[Pair]) -> str:
    """Minima, their ratio, and the ratios of pairs: the median and the middle half."""
    before, after = map(min, zip(*pairs, strict=True))
    low, middle, high = statistics.quantiles([new / old for old, new in pairs], method="inclusive")
    return (
        f"| {case} | {before:.2f} | {after:.2f} | {after / before:.2f} "
        f"| **{middle:.2f}** | {low:.2f} - {high:.2f} |"
    )


def document(lines: list[str], options: argparse.Namespace) -> str:
    commits = [
        subprocess.run(
            ["git", "-C", side, "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for side in options.sides
    ]
    made = f"Made by `python -m benchmarks.compare` on {date.today().isoformat()}"
    what = (
        "CPU seconds a million rows, of the JVM with its compiler and collector and of the Python "
        f"workers: {options.rows:,} rows, ten a key, two tasks. Before and after run by turns, "
        f"{options.repeats} times in each of {options.rounds} pairs of fresh processes. A ratio "
        "below 1 is a gain."
    )
    head = (
        "| case | before, least | after, least | of the least | after / before, median of pairs "
        "| middle half of pairs |\n|---|--:|--:|--:|--:|--:|"
    )
    title = "# CPU time before and after a change"
    commit = f"{made}: commit {commits[0]} before, {commits[1]} after, {os.cpu_count()} cores."
    return "\n\n".join([title, commit, what, "\n".join([head, *lines])]) + "\n"


if __name__ == "__main__":
    main()
