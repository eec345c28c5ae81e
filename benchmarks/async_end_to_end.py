"""How close to the perfect schedule each way of making slow calls comes, start-up left out.

Latencies are log-normal (median 20 ms, p99 400 ms, seeded) and the same for everyone, in the same
two partitions, with 100 calls in flight in each. The perfect schedule is simulated from the very
same latencies. Repeats are interleaved: everyone meets the machine's good and bad moments.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame

from . import pyflink_peer, report
from .contestants import by_key, gather, ours, window
from .measure import run, session
from .schedule import TASKS, latencies, perfect_seconds, write

PYFLINK = "PyFlink AsyncDataStream, unordered"
ROWS_A_KEY = 10
FEW = 2 * TASKS
START_UPS = 5
LARGE = 100_000
LEFT_OUT_IF_LARGE = ("asyncio.gather per 1,000, mapInPandas", PYFLINK)
Contest = dict[str, Callable[[DataFrame], DataFrame]]


def main() -> None:
    options = arguments()
    spark = session(TASKS, options.engines)
    try:
        with tempfile.TemporaryDirectory(prefix="async-bench-") as name:
            bench = Bench(spark, Path(name), options)
            sizes = {
                rows: bench.size(rows, repeats)
                for rows, repeats in zip(options.rows, options.repeats, strict=True)
            }
            keyed = bench.by_key(options.rows[0], options.repeats[0])
    finally:
        spark.stop()
    page = document(sizes, keyed, bench.remarks, options)
    print(page)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "async.md").write_text(page)
        report.bars(options.output / "async.png", sizes)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.async_end_to_end", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--repeats", type=int, nargs="+", default=[5, 1], help="one for each size")
    parser.add_argument("--capacity", type=int, default=100, help="calls in flight in each task")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--engines", nargs="*", default=["jvm", "python"])
    parser.add_argument("--no-pyflink", action="store_true")
    parser.add_argument("--only", nargs="+", default=[""], help="ways whose name has one of these")
    parser.add_argument("--output", type=Path, help="folder to write async.md and async.png to")
    parser.add_argument("--quick", action="store_true", help="2,000 rows once, without PyFlink")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.repeats, options.no_pyflink = [2_000], [1], True
    if len(options.rows) != len(options.repeats):
        parser.error("--repeats needs one number for each of --rows")
    return options


class Bench:
    """Runs every contestant on one size after the other."""

    def __init__(self, spark, folder: Path, options: argparse.Namespace) -> None:  # type: ignore[no-untyped-def]
        self.spark, self.folder, self.options = spark, folder, options
        self.remarks: list[str] = []
        self.is_large = False
        self.few = folder / "few"
        write(self.few, np.zeros(FEW))

    def contest(self) -> Contest:
        capacity = self.options.capacity
        own = {f"pb.async_io, engine {e}": ours(e, capacity) for e in self.options.engines}
        all_ways = own | {
            "pb.async_io, in order": ours("jvm", capacity, ordered=True),
            "sliding window by hand, mapInPandas": window(capacity),
            "asyncio.gather per 1,000, mapInPandas": gather(1_000, capacity),
            "asyncio.gather per 10,000, mapInPandas": gather(10_000, capacity),
        }
        return {who: way for who, way in all_ways.items() if self.takes_part(who)}

    def takes_part(self, who: str) -> bool:
        if self.is_large and who in LEFT_OUT_IF_LARGE:
            return False
        return any(part in who for part in self.options.only)

    def size(self, rows: int, repeats: int) -> list[report.Line]:
        self.is_large = rows >= LARGE
        seconds = latencies(rows, self.options.seed)
        many = self.folder / f"rows-{rows}"
        write(many, seconds)
        perfect = perfect_seconds(seconds, self.options.capacity)
        print(f"\n{rows:,} calls; the perfect schedule takes {perfect:.2f} s", flush=True)
        self.warm_up()
        times: dict[str, list[float]] = {}
        for repeat in range(repeats):
            for who, took in self.round(many):
                times.setdefault(who, []).append(took)
                print(f"  {repeat + 1}/{repeats} {who}: {took:.2f} s", flush=True)
        return [report.Line(who, rows, perfect, taken) for who, taken in times.items()]

    def by_key(self, rows: int, repeats: int) -> dict[str, list[float]]:
        """The seconds of each way whose calls of one key never overlap, start-up included."""
        many = self.read(self.folder / f"rows-{rows}")
        total = latencies(rows, self.options.seed).sum()
        times: dict[str, list[float]] = {}
        for repeat in range(-1, repeats):  # the first warms up
            for who, transform in by_key(rows // ROWS_A_KEY, self.options.capacity).items():
                took = run(transform(many), rows, total)
                print(f"  {repeat + 1}/{repeats} {who}: {took:.2f} s", flush=True)
                if repeat >= 0:
                    times.setdefault(who, []).append(took)
        return times

    def warm_up(self) -> None:
        """Every way once over a few rows: the JVM compiles, Python workers start."""
        for transform in self.contest().values():
            for _ in range(START_UPS):
                run(transform(self.read(self.few)), FEW, 0)

    def round(self, many: Path):  # type: ignore[no-untyped-def]
        """Each contestant once, in turn: its name and its seconds."""
        for who, transform in self.contest().items():
            yield who, self.seconds(transform, many)
        if self.takes_part(PYFLINK) and not self.options.no_pyflink:
            try:
                files = (self.few / "seconds.npy", many / "seconds.npy")
                yield PYFLINK, pyflink_peer.seconds(self.options.capacity, *files)
            except pyflink_peer.Unavailable as reason:
                self.options.no_pyflink = True
                self.remarks.append(f"PyFlink was not measured: {reason}")
                print(f"  {self.remarks[-1]}", flush=True)

    def seconds(self, transform: Callable[[DataFrame], DataFrame], many: Path) -> float:
        few = transform(self.read(self.few))
        # The shortest: one that was slow by chance would be a gift to the run it is taken from.
        start_up = min(run(few, FEW, 0) for _ in range(START_UPS))
        seconds = np.load(many / "seconds.npy")
        return run(transform(self.read(many)), len(seconds), seconds.sum()) - start_up

    def read(self, folder: Path) -> DataFrame:
        frame: DataFrame = self.spark.read.parquet(*map(str, sorted(folder.glob("*.parquet"))))
        found = frame.rdd.getNumPartitions()
        if found != TASKS:
            raise RuntimeError(f"{folder.name} was read as {found} partitions, {TASKS} expected")
        return frame


def document(
    sizes: dict[int, list[report.Line]],
    keyed: dict[str, list[float]],
    remarks: list[str],
    options: argparse.Namespace,
) -> str:
    parts = ["![Speed of each way, of the perfect schedule](async.png)"]
    for rows, lines in sizes.items():
        parts.append(f"## {rows:,} calls\n\n{report.table(lines)}".rstrip())
    lines = "".join(
        f"| {who} | {statistics.median(times):.2f} | {min(times):.2f} - {max(times):.2f} |\n"
        for who, times in keyed.items()
    )
    parts.append(
        f"## {options.rows[0]:,} calls, those of one of {options.rows[0] // ROWS_A_KEY:,} keys in "
        f"turn\n\n| how | seconds | fastest - slowest |\n|---|--:|--:|\n{lines}"
    )
    conditions = [
        f"Each call sleeps a log-normal time (median 20 ms, p99 400 ms, seed {options.seed}); "
        f"{TASKS} tasks with {options.capacity} calls in flight in each; results are dropped by a "
        "no-op sink. Start-up is left out by subtracting the shortest of five runs of four rows. "
        "The perfect schedule is simulated from the same latencies in the same partitions: a call "
        "begins the moment a slot is free, at no cost. asyncio.gather is held to the same capacity "
        "by a semaphore. Medians of interleaved repeats. PyFlink runs with bundles of "
        f"{pyflink_peer.BUNDLE:,} rows, faster here than its default.",
        f"From {LARGE:,} rows on, only the ways that come near the schedule take part. asyncio "
        "rounds the timers of its loop up to whole milliseconds: half a millisecond a call, which "
        "all ways but the perfect schedule lose.",
        "Calls by key are the same, behind a shuffle. They take their start-up and the wait of a "
        "key's rows for each other, which the perfect schedule doesn't have; "
        "`pb.process_keyed_async` also keeps a count of each key's rows.",
        *remarks,
    ]
    return report.page(
        "Async I/O, end to end",
        "How near do the ways of calling a service for each row come to a perfect schedule?",
        parts,
        "\n\n".join(conditions),
        "python -m benchmarks.async_end_to_end --output docs/benchmarks",
    )


if __name__ == "__main__":
    main()
