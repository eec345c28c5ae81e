"""What a journal costs: calls of 200 ms, a thousand a second in one task, with one and without.

Answers have about 400 bytes. The runs take turns. The second table has calls that return at once:
there everything that the journal does is in the way.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import Row, SparkSession

import pillarbox as pb

from . import report
from .measure import Usage, run, session, usage

CALL_SECONDS = 0.2
CAPACITY = 200
TEXT = "x" * 350


async def slow(row: Row) -> tuple[int, str]:
    await asyncio.sleep(CALL_SECONDS)
    return row.id, TEXT


async def no_op(row: Row) -> tuple[int, str]:
    return row.id, TEXT


def main() -> None:
    options = arguments()
    spark = session(1, ["jvm"])
    try:
        cost = Cost(spark, options.repeats)
        parts = [
            cost.table("A thousand calls a second", slow, options.seconds * 1000, CAPACITY),
            cost.table("Calls that return at once", no_op, options.calls, 1_000),
        ]
    finally:
        spark.stop()
    page = report.page(
        "Async I/O, the cost of a journal",
        "What does it cost to keep the answers of calls, and what does a kept answer save?",
        parts,
        f"One task, unordered; medians of {options.repeats}. The CPU time is that of the JVM and "
        "of the Python worker. The journal is on the local disk.",
        "python -m benchmarks.async_journal --output docs/benchmarks",
    )
    print(page)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "journal.md").write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.async_journal", description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="that calls of a run take")
    parser.add_argument("--calls", type=int, default=100_000, help="that return at once")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="folder to write journal.md to")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.calls, options.repeats = 2, 10_000, 1
    return options


class Cost:
    """What is measured in one warm session."""

    def __init__(self, spark: SparkSession, repeats: int) -> None:
        self.spark, self.repeats = spark, repeats

    def used(
        self, function: Callable[[Row], object], rows: int, capacity: int, journal: Path | None
    ) -> Usage:
        calls = pb.async_io(
            self.spark.range(0, rows, 1, 1),
            function,
            returns="answer bigint, text string",
            ordered=False,
            capacity=capacity,
            name="answers",
            journal=journal,
            engine="jvm",
        )
        with usage() as found:
            run(calls, rows, rows * (rows - 1) / 2)
        return found

    def table(self, title: str, function: Callable[[Row], object], rows: int, capacity: int) -> str:
        ways: dict[str, list[Usage]] = {"without": [], "with a journal": [], "all in it": []}
        self.used(function, min(rows, 10_000), capacity, None)
        for _ in range(self.repeats):
            with folder() as journal:
                ways["without"].append(self.used(function, rows, capacity, None))
                ways["with a journal"].append(self.used(function, rows, capacity, journal))
                ways["all in it"].append(self.used(function, rows, capacity, journal))
        base = median(ways["without"], rows)
        lines = [line(way, median(runs, rows), base) for way, runs in ways.items()]
        head = (
            f"## {title}\n\n{rows:,} calls, capacity {capacity:,}.\n\n"
            "| journal | calls/s of a task | beside none | CPU time of a call | beside none |\n"
            "|---|--:|--:|--:|--:|\n"
        )
        return head + "\n".join(lines)


def median(runs: list[Usage], rows: int) -> tuple[float, float]:
    """Calls a second, and microseconds of CPU time a call."""
    speed = statistics.median(rows / used.seconds for used in runs)
    return speed, statistics.median(used.cpu_seconds / rows * 1e6 for used in runs)


def line(way: str, found: tuple[float, float], base: tuple[float, float]) -> str:
    speed, cpu = found
    of_speed, of_cpu = speed / base[0], cpu / base[1]
    return f"| {way} | {speed:,.0f} | {of_speed:.0%} | {cpu:.1f} µs | {of_cpu:.0%} |"


@contextmanager
def folder() -> Iterator[Path]:
    """For one journal."""
    made = Path(tempfile.mkdtemp(prefix="pillarbox-journal"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


if __name__ == "__main__":
    main()
