"""Calls that outlive a micro-batch: how long micro-batches take when one call in a hundred is slow.

* Files of rows, one a micro-batch, whose calls take 200 ms, and every hundredth 20 s. Beside a
  stream of ours without carry-over, `asyncio.gather` in `mapInPandas`, and a stream that calls
  nothing.
* Throughput over a whole stream that is limited by its capacity, beside the perfect schedule.
* Bytes of the files of state, beside those of the rows in them.
* The way of a row from the source to the sink, at ten rows a second; see `carry_latency`.

All run in one session, one after the other, on one slot or partition.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

import pillarbox as pb

from . import carry_latency, report
from .measure import SETTINGS, session

QUICK, SLOW, EVERY = 0.2, 20.0, 100
PAYLOAD = 400
SCHEMA = "id long, payload string"
Build = Callable[[DataFrame], DataFrame]


def seconds_of(number: int) -> float:
    return SLOW if number % EVERY == EVERY // 2 else QUICK


async def call(row: Row) -> int:
    await asyncio.sleep(seconds_of(row.id))
    return row.id


def gather(frames: Iterator[Any]) -> Iterator[Any]:
    async def all_of(ids: Any) -> list[int]:
        async def one(number: int) -> int:
            await asyncio.sleep(seconds_of(number))
            return number

        return list(await asyncio.gather(*map(one, ids)))

    for frame in frames:
        yield frame.assign(answer=asyncio.run(all_of(frame["id"])))


@dataclass(frozen=True)
class Files:
    """A stream of so many files of so many rows."""

    folder: Path
    files: int
    rows: int

    def write(self) -> Files:
        (self.folder / "in").mkdir(parents=True)
        for number in range(self.files):
            ids = np.arange(number * self.rows, (number + 1) * self.rows)
            table = pa.table({"id": ids, "payload": ["x" * PAYLOAD] * self.rows})
            pq.write_table(table, self.folder / "in" / f"{number:05}.parquet")
        return self

    def run(self, spark: SparkSession, build: Build, name: str) -> tuple[float, list[float]]:
        """Seconds of the whole stream, and of each micro-batch that had rows."""
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        built = build(rows.parquet(str(self.folder / "in")))
        seen: list[int] = []

        def count(batch: DataFrame, _: int) -> None:
            seen.append(batch.count())

        checkpoint = self.folder / name
        writer = built.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(count)
        started = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
        if sum(seen) != self.files * self.rows:
            raise RuntimeError(f"{name}: {self.files * self.rows} rows expected, found {sum(seen)}")
        progress = [p for p in query.recentProgress if p["numInputRows"] > 0]
        # The first micro-batch starts the worker and compiles.
        return seconds, [p["durationMs"]["triggerExecution"] / 1000 for p in progress[1:]]


def ours(**options: Any) -> Build:
    def build(df: DataFrame) -> DataFrame:
        chosen = {"ordered": False, "engine": "jvm", "inputs": ["id"], **options}
        return pb.async_io(df, call, returns="answer long", **chosen)

    return build


def carried(capacity: int) -> Build:
    return ours(carry_over=pb.CarryOver(slots=1, max_lag="10 minutes"), capacity=capacity)


CONTESTANTS: dict[str, Build] = {
    "no calls": lambda df: df.selectExpr("*", "id answer"),
    "`async_io`, carry_over=True": carried(1000),
    "`async_io`": ours(capacity=1000),
    "`asyncio.gather` in `mapInPandas`": lambda df: df.mapInPandas(
        gather, SCHEMA + ", answer long"
    ),
}


def batches(spark: SparkSession, folder: Path, options: argparse.Namespace) -> str:
    table = [
        "| stream | micro-batches | median | p99 | slowest | of carry-over's p99 |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    found = {}
    for number, (name, build) in enumerate(CONTESTANTS.items()):
        quick = "no calls" in name or "carry" in name
        files = Files(folder / str(number), options.batches if quick else options.slow, 500)
        _, found[name] = files.write().run(spark, build, "run")
    ours_p99 = p99(found["`async_io`, carry_over=True"])
    for name, times in found.items():
        cells = [statistics.median(times), p99(times), max(times)]
        shown = " | ".join(f"{cell:.2f} s" for cell in cells)
        table.append(f"| {name} | {len(times)} | {shown} | {p99(times) / ours_p99:.1f} |")
    return "\n".join(table)


def p99(times: list[float]) -> float:
    return float(np.percentile(times, 99))


def throughput(spark: SparkSession, folder: Path, options: argparse.Namespace) -> str:
    """From the start of the query to its end; the schedule has the tail of slow calls, too."""
    capacity, rows = 200, 2000
    files = Files(folder / "throughput", options.files, rows).write()
    lines = []
    perfect = perfect_seconds(options.files * rows, capacity)
    for repeat in range(options.repeats):
        seconds, _ = files.run(spark, carried(capacity), f"run-{repeat}")
        lines.append(perfect / seconds)
    ratios = ", ".join(f"{ratio:.1%}" for ratio in lines)
    return (
        f"{options.files * rows:,} rows in micro-batches of {rows:,}, capacity {capacity}, from "
        f"the start of the query to its end: the perfect schedule takes {perfect:.1f} s; of its "
        f"speed: {ratios}."
    )


def perfect_seconds(rows: int, capacity: int) -> float:
    free = [0.0] * capacity
    for number in range(rows):
        heapq.heapreplace(free, free[0] + seconds_of(number))
    return max(free)


def state(folder: Path) -> str:
    """A file has the results of a micro-batch, and the rows in flight."""
    files = (folder / "1" / "run" / "state" / "0" / "0").glob("*.carried")
    size, name = max((file.stat().st_size, file.name) for file in files)
    rows = 500 + 5 * 100
    content = rows * (PAYLOAD + 8 + 8)
    return (
        f"The largest file of state of the first of these streams, {name}, has {size:,} bytes; 500 "
        f"results and 500 rows in flight, the most that there may be, have {content:,} bytes of "
        "values."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.carry_over", description=__doc__)
    parser.add_argument("--batches", type=int, default=100, help="of streams that are quick")
    parser.add_argument("--slow", type=int, default=7, help="micro-batches of the others")
    parser.add_argument("--files", type=int, default=10, help="for the throughput")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument(
        "--seconds", type=int, default=40, help="of each stream of ten rows a second"
    )
    parser.add_argument("--output", type=Path, help="the folder of the page")
    options = parser.parse_args()
    SETTINGS["spark.sql.streaming.numRecentProgressUpdates"] = "1000"
    spark = session(2, ["jvm"])
    folder = Path(tempfile.mkdtemp())
    try:
        parts = [batches(spark, folder, options), throughput(spark, folder, options), state(folder)]
        parts += ["## From the source to the sink", carry_latency.table(spark, options.seconds)]
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    page = report.page(
        "Calls that outlive a micro-batch",
        "How long does a micro-batch take when one call in a hundred is slow?",
        parts,
        "Calls take 200 ms, every hundredth 20 s; 500 rows of 400 bytes a micro-batch, capacity "
        "1,000. The time of a micro-batch goes from its trigger to its end, without the first.\n\n"
        + carry_latency.CONDITIONS,
        "python -m benchmarks.carry_over --output docs/benchmarks",
    )
    print(page)
    if options.output:
        (options.output / "carry-over.md").write_text(page)


if __name__ == "__main__":
    main()
