"""What a keyed stream costs with Spark's default of 200 partitions: CPU of tasks with a few rows.

``python -m benchmarks.keyed.partitions``. Small micro-batches go through each way in turn. CPU is
that of the JVM and of the Python workers, as such tasks hardly ever wait. Then three queries run
in one JVM with a small heap, for its memory and its open files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from .. import measure, report
from . import contestants, data, jvm_peer, stream
from .restarts import in_process

ROWS, BATCHES, ROWS_A_KEY = 20_000, 10, 10
STATELESS = "a stage without state"
PEERS = (contestants.AGGREGATE, contestants.TWS_JVM)
OURS = (contestants.SCAN, contestants.ROW, contestants.COLUMNS)
PROFILE = (
    "A task of a Python function costs more than one of scan on both sides. A worker keeps the "
    "opened function, its schemas and codecs for the next task. Of its time with the row form a "
    "profile shows two fifths in Arrow (rows, keys and state into Python and back), a fifth in the "
    "socket (three frames each way), a quarter in what begins and ends a task (Spark's preamble, "
    "the spec, signals, the collection of garbage), and less than a tenth in the function and its "
    "state. Of what the JVM takes more, on the threads of tasks, two fifths are the session's "
    "beginning (a worker from Spark's pool, the function, schemas, Arrow's readers and writers), "
    "and a tenth each the frames and the session's end; the rest is spread over what scan does, "
    "too. Of what scan costs more than a stage without state, on the threads of tasks, a profile "
    "shows nearly half in the opening of a partition's database and its column families, which "
    "its first micro-batch does, and a quarter in the commit. Spark's reading of the task takes as "
    "long without state."
)


def shuffled(df: DataFrame) -> DataFrame:
    return df.repartition(int(str(df.sparkSession.conf.get(stream.PARTITIONS))), "k")


def stateless(df: DataFrame) -> DataFrame:
    return shuffled(df).selectExpr("k", "v + 1 AS n", "v AS total")


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    STATELESS: stateless,
    contestants.SCAN: contestants.scan,
    contestants.ROW: contestants.keyed(contestants.ours.RunningCount),
    contestants.COLUMNS: contestants.keyed(contestants.ours.RunningCountColumns),
    contestants.IDENTITY: lambda df: contestants.identity(shuffled(df)),
    contestants.AGGREGATE: contestants.aggregate,
    contestants.TWS_JVM: jvm_peer.running_count(False),
}


@dataclass
class Result:
    """CPU seconds of the runs of one way."""

    who: str
    jvm: list[float] = field(default_factory=list)
    python: list[float] = field(default_factory=list)

    @property
    def cpu(self) -> list[float]:
        return [jvm + python for jvm, python in zip(self.jvm, self.python, strict=True)]


@dataclass(frozen=True)
class Memory:
    """Of a JVM with so many queries open at a time: resident bytes, and open files."""

    queries: int
    resident: int
    files: int


def main() -> None:
    options = arguments()
    if options.child:
        print(json.dumps(vars(memory(Path(options.child), options.queries, options.partitions))))
        return
    results = {
        who: Result(who) for who in WAYS if any(one in who for one in options.only.split(","))
    }
    spark = stream.session()
    spark.conf.set(stream.PARTITIONS, options.partitions)
    with tempfile.TemporaryDirectory(prefix="keyed-bench-") as name:
        rows = data.write(
            Path(name) / "rows", options.rows, options.rows // ROWS_A_KEY, files=BATCHES
        )
        for repeat in range(-options.warm_up, options.repeats):
            for who in in_turn(list(results), repeat):
                # Spark's own operators take minutes.
                if who not in PEERS or repeat == 0:
                    one_run(spark, rows, results[who], counts=repeat >= 0)
        spark.stop()
        memories = [in_child(rows, queries, options) for queries in (0, 1, 3)]
    page = document([result for result in results.values() if result.cpu], memories, options)
    print(page)
    if options.output:
        (options.output / "keyed-partitions.md").write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed.partitions", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"in {BATCHES} micro-batches")
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds that don't count")
    parser.add_argument("--only", default="", help="ways whose name has one of these, by commas")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--queries", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help="folder to write keyed-partitions.md to")
    return parser.parse_args()


def in_turn(ways: list[str], repeat: int) -> list[str]:
    """Each way is behind another one each time, since it may have left work for the JVM."""
    return ways if repeat % 2 else ways[::-1]


def one_run(spark: SparkSession, rows: data.Rows, result: Result, counts: bool) -> None:
    frame = WAYS[result.who](stream.read(spark, rows.folder, files_a_batch=1))
    with measure.usage() as used:
        ran = stream.run(frame, no_data_batches=False)
    batches = [progress["numInputRows"] for progress in ran.progress]
    if batches != [rows.rows // BATCHES] * BATCHES:
        raise RuntimeError(f"{result.who} saw micro-batches of {batches} rows")
    if counts:
        result.jvm.append(used.cpu_of["jvm"])
        result.python.append(used.cpu_of["worker"])
    print(f"  {result.who}: {used.cpu_of}, {used.seconds:.1f} s", flush=True)


def in_child(rows: data.Rows, queries: int, options: argparse.Namespace) -> Memory:
    command = [sys.executable, "-m", __spec__.name, "--child", str(rows.folder)]
    command += ["--queries", str(queries), "--partitions", str(options.partitions)]
    found = Memory(**json.loads(in_process(command).splitlines()[-1]))
    print(f"  {found}", flush=True)
    return found


def memory(rows: Path, queries: int, partitions: int) -> Memory:
    """Run queries at once, all of whose state stays open."""
    spark = stream.session(memory="1g")
    spark.conf.set(stream.PARTITIONS, partitions)
    # What tidies up state in the background may still write.
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with folder as name, measure.usage() as used:
        frames = [
            WAYS[who](stream.read(spark, rows, files_a_batch=BATCHES // 2))
            for who in OURS[:queries]
        ]
        running = [stream.start(df, Path(name) / str(n)) for n, df in enumerate(frames)]
        for query in running:
            query.awaitTermination()
        if not running:
            spark.range(1_000_000).repartition(partitions).count()
        files = measure.jvm_files()
    return Memory(queries, used.peak_bytes["jvm"], files)


def document(results: list[Result], memories: list[Memory], options: argparse.Namespace) -> str:
    tasks = BATCHES * options.partitions
    base = {result.who: result for result in results}.get(STATELESS)
    lines = [row(result, base, tasks) for result in results]
    table = (
        "| how | CPU, s | lowest - highest | of it Python | more than without state, ms a task |\n"
        "|---|--:|--:|--:|--:|\n" + "\n".join(lines)
    )
    conditions = (
        f"{options.rows:,} rows of {options.rows // ROWS_A_KEY:,} keys in {BATCHES} micro-batches, "
        f"{options.partitions} partitions, so {tasks:,} tasks behind the shuffle with "
        f"{options.rows / tasks:.0f} rows each; local[{data.TASKS}], RocksDB, checkpoint on the "
        f"local disk. CPU seconds of the JVM and of the Python processes for a whole query, by "
        f"/proc: {options.warm_up} rounds to warm up, the median of {options.repeats} that follow, "
        "in turn and both ways round"
        + (", but Spark's own operators once" if any(r.who in PEERS for r in results) else "")
        + f".\n\n{PROFILE}\n\n"
        "Memory: a JVM of its own with a heap of 1 GiB, at its highest; scan, row and column form "
        "at a time, two micro-batches each, with the state of all open at the end."
    )
    return report.page(
        "Keyed streams with 200 partitions",
        "What does a task with a few rows cost, where Spark's default makes 200 of a micro-batch?",
        [table, aims(results, tasks), "## Memory and open files", memory_table(memories)],
        conditions,
        "python -m benchmarks.keyed.partitions --output docs/benchmarks",
    )


def aims(results: list[Result], tasks: int) -> str:
    """Scan beside a stage without state, and Python functions beside scan."""
    cpu = {result.who: statistics.median(result.cpu) for result in results}
    scan, lines = contestants.SCAN, ["| what | found | aim |", "|---|--:|--:|"]
    if {scan, STATELESS} <= cpu.keys():
        more = (cpu[scan] - cpu[STATELESS]) / tasks * 1_000
        verdict = report.aim_of(more, 3, unit=" ms")
        lines.append(f"| {scan}: more than without state, a task | {more:.1f} ms | {verdict} |")
    for who in OURS[1:]:
        if {scan, who} <= cpu.keys():
            ratio = cpu[who] / cpu[scan]
            lines.append(f"| {who}: CPU of {scan}'s | {ratio:.2f} | {report.aim_of(ratio, 1.3)} |")
    return "\n".join(lines)


def memory_table(memories: list[Memory]) -> str:
    lines = [f"| {one.queries} | {one.resident >> 20:,} | {one.files:,} |" for one in memories]
    head = "| queries with state at a time | resident memory of the JVM, MiB | its open files |\n"
    return head + "|--:|--:|--:|\n" + "\n".join(lines)


def row(result: Result, base: Result | None, tasks: int) -> str:
    median, python = statistics.median(result.cpu), statistics.median(result.python)
    more = (median - statistics.median(base.cpu)) / tasks * 1_000 if base else 0.0
    return (
        f"| {result.who} | {median:.1f} | {min(result.cpu):.1f} - {max(result.cpu):.1f} "
        f"| {python:.1f} | {more:.1f} |"
    )


if __name__ == "__main__":
    main()
