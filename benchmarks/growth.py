"""What a row costs as a job grows: with keys, size of state, timers, partitions, calls in flight.

Each point is a query of its own: a run that fills the state, one over a few rows, whose cost is
that of starting, and some over many. CPU of the JVM and of the Python workers together.
"""

from __future__ import annotations

import argparse
import asyncio
import os
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
from pyspark.sql import functions as F

import pillarbox as pb

from . import measure, report
from .keyed import contestants, stream
from .keyed.pillarbox_functions import RunningCount

FEW, SCHEMA = 100, "k bigint, v bigint"
FAR_MS = 10**15  # no timer is due while this runs
CALLS_A_SECOND = 5_000
Transform = Callable[[DataFrame], DataFrame]


class Sized(pb.KeyedProcessFunction):
    """A value of so many bytes, read and written for each row."""

    def __init__(self, size: int) -> None:
        self.rest = b"x" * (size - 8)

    def open(self, ctx: Any) -> None:
        self.state = ctx.value_state("value", "binary")

    def process(self, row: Row, ctx: Any) -> Iterator[Any]:
        old = self.state.value()
        self.state.update(row.v.to_bytes(8, "big") + self.rest)
        yield row.k, 0 if old is None else old[7], 0


class Timed(pb.KeyedProcessFunction):
    """A timer a key, which each row puts off."""

    def open(self, ctx: Any) -> None:
        self.due = ctx.value_state("due", "bigint")

    def process(self, row: Row, ctx: Any) -> Iterator[Any]:
        due = self.due.value()
        if due is not None:
            ctx.timers.delete_processing_time(due)
        self.due.update(FAR_MS + row.v)
        ctx.timers.register_processing_time(FAR_MS + row.v)
        yield row.k, 0, 0

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        raise AssertionError("no timer is due")


def keyed(function: pb.KeyedProcessFunction, backend: str = "rocksdb") -> Transform:
    returns = "k bigint, n bigint, total bigint"
    return lambda df: pb.process_keyed(df, function, by="k", returns=returns, backend=backend)


def wide(columns: int, inputs: list[str] | None) -> Transform:
    """A running count over rows with so many columns."""

    def transform(df: DataFrame) -> DataFrame:
        more = [(F.col("v") + n).alias(f"c{n}") for n in range(columns - len(df.columns))]
        returns = "k bigint, n bigint, total bigint"
        return pb.process_keyed(
            df.select("*", *more), RunningCount(), by="k", returns=returns, inputs=inputs
        )

    return transform


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a row, one of each repeat, and the bytes that its checkpoint grew by."""

    seconds: list[float]
    bytes: float

    def __str__(self) -> str:
        low, middle, high = (
            f"{one * 1e6:,.1f}"
            for one in (min(self.seconds), statistics.median(self.seconds), max(self.seconds))
        )
        return f"{middle} ({low} - {high})"


class Growth:
    """The points of all axes, in one session."""

    def __init__(self, spark: SparkSession, options: argparse.Namespace) -> None:
        self.spark, self.options = spark, options

    def cost(self, transform: Transform, keys: int, rows: int, hot: float = 0) -> Cost:
        """The cost of a row of random keys, over that of a start, with a state of `keys` keys.

        A share `hot` of the rows has one key.
        """
        with tempfile.TemporaryDirectory(prefix="growth-", ignore_cleanup_errors=True) as name:
            query = Query(self.spark, Path(name), transform)
            random = np.random.default_rng(7)
            query.run(np.arange(keys))
            # Beside the first run the snapshot of all keys is written.
            query.run(random.integers(0, keys, FEW))
            before, found = query.bytes(), []
            for _ in range(self.options.repeats):
                start = query.run(random.integers(0, keys, FEW))
                chosen = random.integers(0, keys, rows)
                used = query.run(np.where(random.random(rows) < hot, 0, chosen))
                found.append((used.cpu_seconds - start.cpu_seconds) / (rows - FEW))
            grown = (query.bytes() - before) / self.options.repeats / rows
        cost = Cost(found, grown)
        print(f"  {keys:,} keys, {rows:,} rows: {cost} µs, {grown:.0f} bytes", flush=True)
        return cost

    def keys(self) -> tuple[str, float]:
        """The table, and the bytes of a changed key in the checkpoint."""
        rows, lines, grown = self.options.rows, [], 0.0
        for keys in self.options.keys:
            ways = [contestants.scan, keyed(RunningCount()), keyed(RunningCount(), "heap")]
            costs = [self.cost(way, keys, rows) for way in ways]
            grown = costs[0].bytes
            lines.append((f"{keys:,}", *map(str, costs)))
        return table(
            KEYS, "keys | pb.scan, µs a row | pb.process_keyed | the same, heap", lines
        ), grown

    def sizes(self) -> str:
        found = [self.cost(keyed(Sized(size)), 20_000, 20_000) for size in self.options.sizes]
        lines = [
            (f"{size:,}", str(cost), f"{cost.bytes:,.0f}")
            for size, cost in zip(self.options.sizes, found, strict=True)
        ]
        return table(
            SIZES, "bytes of a value | pb.process_keyed, µs a row | checkpoint, bytes", lines
        )

    def skew(self) -> str:
        lines = []
        for hot in (0.0, 0.5, 0.9):
            cost = self.cost(keyed(RunningCount()), 100_000, self.options.rows, hot)
            lines.append((f"{hot:.0%}", str(cost)))
        return table(SKEW, "rows of one key | pb.process_keyed, µs a row", lines)

    def columns(self) -> str:
        """A function that reads two columns, of rows with ever more."""
        lines = []
        for number in self.options.columns:
            costs = [
                self.cost(wide(number, inputs), 100_000, self.options.rows)
                for inputs in (["k", "v"], None)
            ]
            lines.append((f"{number}", *map(str, costs)))
        return table(COLUMNS, 'columns | inputs=["k", "v"], µs a row | all columns', lines)

    def timers(self) -> str:
        lines = []
        for keys in self.options.timers:
            lines.append((f"{keys:,}", str(self.cost(keyed(Timed()), keys, self.options.rows))))
        return table(TIMERS, "timers that wait | pb.process_keyed, µs a row", lines)

    def partitions(self) -> str:
        """CPU of a micro-batch with 2,000 rows, over the start of a query."""
        lines = []
        for number in self.options.partitions:
            self.spark.conf.set(stream.PARTITIONS, number)
            costs = [self.batch(way) for way in (contestants.scan, keyed(RunningCount()))]
            lines.append((f"{number}", *costs))
        self.spark.conf.set(stream.PARTITIONS, stream.SETTINGS[stream.PARTITIONS])
        return table(PARTITIONS, "partitions | pb.scan, ms a batch | pb.process_keyed", lines)

    def batch(self, transform: Transform) -> str:
        with tempfile.TemporaryDirectory(prefix="growth-", ignore_cleanup_errors=True) as name:
            query = Query(self.spark, Path(name), transform)
            query.run(np.arange(2_000))
            found = []
            for _ in range(self.options.repeats):
                one = query.run(np.arange(2_000)).cpu_seconds
                eleven = query.run(*[np.arange(2_000)] * 11).cpu_seconds
                found.append((eleven - one) / 10 * 1e3)
        print(f"  a micro-batch: {found} ms", flush=True)
        return f"{statistics.median(found):,.0f} ({min(found):,.0f} - {max(found):,.0f})"

    def calls(self) -> str:
        lines = []
        for capacity in self.options.calls:
            rows = max(50_000, capacity)
            costs = [self.call(capacity, rows) for _ in range(self.options.repeats)]
            lines.append((f"{capacity:,}", str(Cost(costs, 0))))
            print(f"  {capacity:,} calls in flight: {lines[-1][-1]} µs", flush=True)
        return table(CALLS, "calls in flight | pb.async_io, µs a call", lines)

    def call(self, capacity: int, rows: int) -> float:
        seconds = capacity / CALLS_A_SECOND

        async def wait(row: Row) -> int:
            await asyncio.sleep(seconds)
            return row.id

        frame = pb.async_io(
            self.spark.range(0, rows, 1, 1), wait, returns="answer bigint",
            ordered=False, capacity=capacity,
        )  # fmt: skip
        with measure.usage() as used:
            measure.run(frame, rows, rows * (rows - 1) / 2)
        return used.cpu_seconds / rows


class Query:
    """A keyed query over a folder of files, which is run on and on."""

    def __init__(self, spark: SparkSession, folder: Path, transform: Transform) -> None:
        self._rows, self._checkpoint = folder / "rows", folder / "checkpoint"
        self._rows.mkdir()
        self._spark, self._transform, self._files = spark, transform, 0

    def run(self, *batches: Any) -> measure.Usage:
        """Run it over so many more micro-batches, of rows with these keys."""
        for keys in batches:
            file = self._rows / f"part-{self._files:05d}.parquet"
            pq.write_table(pa.table({"k": keys, "v": np.arange(len(keys))}), file)
            os.utime(file, (time.time() + self._files,) * 2)  # the order in which they are read
            self._files += 1
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frame = self._transform(reader.parquet(str(self._rows)))
        with measure.usage() as used:
            ran = stream.run(frame, checkpoint=self._checkpoint, no_data_batches=False)
        stream.check(ran, sum(map(len, batches)), None)
        return used

    def bytes(self) -> int:
        files = (self._checkpoint / "state").rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file())


def table(text: str, names: str, lines: list[Any]) -> str:
    """A part of the page. The first line of `text` is its title, `names` the columns by bars."""
    title, why = text.split("\n", 1)
    rule = "--:|" * (names.count("|") + 1)
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"## {title}\n", f"| {names} |", f"|{rule}", *rows, "", why])


KEYS = """Keys
A row finds its key by a hash, in the heap or in a cache in front of RocksDB. Past the cache each
row reads a block of RocksDB and decodes it, so the cost of a row grows with the share of keys that
the cache doesn't hold, and then no more but by the levels of the tree."""
SIZES = """Size of state
A value is copied between worker and JVM and written to the checkpoint once a micro-batch, so the
cost is a fixed one and one a byte."""
TIMERS = """Timers
A timer is a place in a heap of its partition: log(n) comparisons for each that is set or put
off."""
SKEW = """Skew
Rows of one key are in one task, which takes as long as it takes for them; a row costs no more, and
its state goes to the worker once a frame."""
COLUMNS = """Width of rows
What the function doesn't read, and no expression after it, is not sent to the worker; the shuffle
carries only what is read."""
PARTITIONS = """Partitions
A micro-batch of 2,000 rows has a fixed cost, and each task one: its plan, its worker's session and
a file of its version. Where tasks have few rows, it grows with their number, not with the rows."""
CALLS = """Calls in flight
A call is an object and a timer of asyncio; neither scheduling nor matching an answer to its row
looks at the others."""


def main() -> None:
    options = arguments()
    spark = stream.session(memory="10g")  # ten million keys on the heap
    try:
        growth = Growth(spark, options)
        keys, grown = growth.keys()
        parts = [keys, growth.sizes(), growth.timers(), growth.skew(), growth.columns()]
        parts += [growth.partitions(), growth.calls()]
    finally:
        spark.stop()
    page = report.page(
        "Growth",
        "How does the cost of a row grow with keys, size of state, timers, partitions, and calls?",
        [*parts, on_paper(grown)],
        f"{options.rows:,} rows a micro-batch in two partitions, RocksDB unless named otherwise; "
        f"medians of {options.repeats}, with the lowest and the highest. CPU time of the JVM and "
        "of the Python workers together, less that of a run over 100 rows.",
        "python -m benchmarks.growth --output docs/benchmarks",
    )
    print(page)
    if options.output:
        (options.output / "growth.md").write_text(page)


def on_paper(grown: float) -> str:
    """What 1,000 cores ask of network and checkpoint, from what was measured here."""
    rate = 100_000  # rows a second of a core
    per_second = rate * 1_000 * grown / 1e9
    return (
        "## A job of 1,000 cores, on paper\n\n"
        f"At {rate:,} rows a second and core, each of another key, the checkpoint takes "
        f"{grown:.0f} bytes a row, so {per_second:.1f} GB/s in all and {rate * grown / 1e6:.1f} "
        "MB/s a core; rows of a key that comes several times in a micro-batch count once. A "
        "micro-batch writes one file a partition, 1,000 with as many partitions as cores, and a "
        "snapshot of a partition now and then. The shuffle moves each row once, as Spark's own. "
        "The driver hears one message a task at its end; an executor whose calls have limits asks "
        "it once for several of them ([limits](limits.md)). Nothing else is shared."
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="of a run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="folder to write growth.md to")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat")
    options = parser.parse_args()
    options.keys = [10**3, 10**4, 10**5, 10**6, 10**7]
    options.sizes = [10, 100, 1_000, 10_000]
    options.timers = [10**3, 10**4, 10**5, 10**6]
    options.partitions, options.columns = [2, 20, 200], [2, 10, 50]
    options.calls = [10, 100, 1_000, 10_000, 100_000]
    if options.quick:
        options.rows, options.repeats = 20_000, 1
        options.keys, options.timers = [10**3, 10**4], [10**3, 10**4]
        options.partitions, options.calls = [2, 20], [1_000, 10_000]
    return options


if __name__ == "__main__":
    main()
