"""What a micro-batch costs that has nothing to do, or next to nothing, a commit, and a key with
many timers.

``python -m benchmarks.keyed.batches``. Micro-batches are those of a stream of small files, and
files without rows, behind a large one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb

from .. import report
from . import contestants, data, jvm_peer, stream, warm

TIMERS_OF_A_KEY = (10_000, 20_000, 40_000, 80_000)
FILES_OF_A_KIND, SMALL_ROWS, SKIPPED = 16, 10, 6


def deduplicate(df: DataFrame) -> DataFrame:
    return df.dropDuplicates(["k"]).select("k")


SMALL: dict[str, Callable[[DataFrame], DataFrame]] = {
    contestants.SCAN: contestants.scan,
    contestants.ROW: contestants.keyed(contestants.ours.RunningCount),
    contestants.COLUMNS: contestants.keyed(contestants.ours.RunningCountColumns),
    contestants.AGGREGATE: contestants.aggregate,
    "dropDuplicates()": deduplicate,
    contestants.TWS_JVM: jvm_peer.running_count(False),
    contestants.TWS: contestants.with_state(contestants.theirs.RunningCount, "None"),
}


class SetsTimers(pb.KeyedProcessFunction):
    """A row sets n timers, the last one first."""

    def process(self, row: Any, ctx: Any) -> None:
        for at in range(row.n, 0, -1):
            ctx.timers.register_processing_time(at)

    def on_timer(self, timestamp: int, ctx: Any) -> int:
        return timestamp


@dataclass(frozen=True)
class Batches:
    """Milliseconds: medians of a micro-batch without rows and of a small one; the large commit."""

    who: str
    empty: float
    small: float
    commit: float


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="keyed-bench-") as name:
        small = small_batches(Path(name), options.keys, options.repeats)
    page = document(small, warm_batches(), hot_key(options.repeats), options)
    print(page)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "keyed-batches.md").write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed.batches", description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="of the first, large batch")
    parser.add_argument("--output", type=Path, help="folder to write keyed-batches.md to")
    parser.add_argument("--repeats", type=int, default=2, help="of the micro-batches, one warms up")
    return parser.parse_args()


def small_batches(folder: Path, keys: int, repeats: int) -> list[Batches]:
    """Each way, over a large file and then small and empty ones; the last repeat counts."""
    rows = folder / "small"
    data.write(rows, 2 * keys, keys, files=1)
    for number in range(1, 2 * FILES_OF_A_KIND + 1):
        one = folder / f"one-{number}"
        many = SMALL_ROWS if number <= FILES_OF_A_KIND else 0
        data.write(one, many, keys, seed=number, files=1, hour=number)
        file = (one / "part-00000.parquet").rename(rows / f"part-{number:05d}.parquet")
        os.utime(file, (time.time() + number,) * 2)  # the order in which the stream reads them
    spark = stream.session()
    found = [
        one_way(spark, rows, 2 * keys, who, transform)
        for who, transform in [*SMALL.items()] * repeats
    ]
    spark.stop()
    return found[-len(SMALL) :]


def one_way(
    spark: SparkSession,
    rows: Path,
    large: int,
    who: str,
    transform: Callable[[DataFrame], DataFrame],
) -> Batches:
    ran = stream.run(transform(stream.read(spark, rows, files_a_batch=1)), no_data_batches=False)
    counts = [progress["numInputRows"] for progress in ran.progress]
    if counts != [large] + [SMALL_ROWS] * FILES_OF_A_KIND + [0] * FILES_OF_A_KIND:
        raise RuntimeError(f"{who} saw micro-batches of {counts} rows")
    dropped = sum(p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in ran.progress)
    if dropped:
        raise RuntimeError(f"{who} dropped {dropped} rows as late")
    times = [progress["durationMs"]["triggerExecution"] for progress in ran.progress[1:]]
    small, empty = times[SKIPPED:FILES_OF_A_KIND], times[FILES_OF_A_KIND + SKIPPED :]
    commit = ran.progress[0]["stateOperators"][0]["commitTimeMs"]
    one = Batches(who, statistics.median(empty), statistics.median(small), commit)
    print(f"  {one}", flush=True)
    return one


def warm_batches() -> str:
    spark = stream.session()
    try:
        return warm.table(spark, repeats=3)
    finally:
        spark.stop()


def hot_key(repeats: int) -> list[tuple[int, float]]:
    """Numbers of timers that one row sets, and the seconds until all have fired."""
    spark = stream.session()
    found = [(timers, fire(spark, timers)) for timers in TIMERS_OF_A_KEY * repeats]
    spark.stop()
    return found[-len(TIMERS_OF_A_KEY) :]


def fire(spark: SparkSession, timers: int) -> float:
    row = spark.createDataFrame([(timers,)], "n bigint").coalesce(1)
    started = time.perf_counter()
    fired = pb.process_keyed(row, SetsTimers(), by="n", returns="at bigint").count()
    seconds = time.perf_counter() - started
    if fired != timers:
        raise RuntimeError(f"{fired} of {timers} timers have fired")
    print(f"  {timers:,} timers of a key: {seconds:.2f} s", flush=True)
    return seconds


def document(
    small: list[Batches],
    warmed: str,
    timers: list[tuple[int, float]],
    options: argparse.Namespace,
) -> str:
    lines = [f"| {b.who} | {b.empty:,.0f} | {b.small:,.0f} | {b.commit:,.0f} |" for b in small]
    fired = [f"| {count:,} | {seconds:.2f} |" for count, seconds in timers]
    parts = [
        "| how | micro-batch without rows, ms | with ten | commit of the large one |\n"
        "|---|--:|--:|--:|\n" + "\n".join(lines),
        "## A warm micro-batch of a hundred rows",
        warmed,
        "## Timers of one key",
        "| timers that one row sets | seconds until all have fired |\n|--:|--:|\n"
        + "\n".join(fired),
    ]
    conditions = [
        f"A first micro-batch with {options.keys:,} keys, then {FILES_OF_A_KIND} with "
        f"{SMALL_ROWS} rows and {FILES_OF_A_KIND} with none; two partitions, RocksDB, checkpoint "
        f"on the local disk. Medians (the first {SKIPPED} of a kind left out); the commit is that "
        "of the large one, over both partitions. State on a local disk is written without Hadoop's "
        "classes for it, which start a process for each question that a rename asks; on another "
        "file system that part of the difference does not exist.",
        warm.CONDITIONS,
    ]
    return report.page(
        "Micro-batches and commits",
        "What do a small micro-batch and a commit cost beside Spark's own operators?",
        parts,
        "\n\n".join(conditions),
        "python -m benchmarks.keyed.batches --output docs/benchmarks",
    )


if __name__ == "__main__":
    main()
