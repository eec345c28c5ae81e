"""What a call by key costs beside its waiting: rows a second of a task, and CPU time a row.

Calls sleep for 1 ms, 100 at a time, in one task: of `process_keyed_async` with and without state,
and with a limit that holds nothing back; and of `async_io`, alone and with one call of a key at a
time. Many keys have a row or two each. Of one key alone every row waits for the one before it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb

from .measure import Usage, run, session, usage

FREE = pb.Limit(concurrency=1_000_000)
ONE_A_KEY = pb.Limit(concurrency=1, scope="key")


class Stateless(pb.AsyncKeyedProcessFunction):
    async def process(self, row: Any, ctx: Any) -> Any:
        await asyncio.sleep(0.001)
        return ctx.key, row.id


class Counts(pb.AsyncKeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    async def process(self, row: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        await asyncio.sleep(0.001)
        self.n.update(n)
        return ctx.key, row.id


class CountsAtOnce(Counts):
    """Waits for nothing, as a function does that has its answer in the state."""

    async def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        return ctx.key, row.id


async def short(row: Any) -> int:
    await asyncio.sleep(0.001)
    answer: int = row.id
    return answer


def keyed(function: Any, **options: Any) -> Callable[[DataFrame, int], DataFrame]:
    returns = "k bigint, answer bigint"
    return lambda df, capacity: df.transform(
        pb.process_keyed_async, function, by="k", returns=returns, capacity=capacity, **options
    )


def plain(**options: Any) -> Callable[[DataFrame, int], DataFrame]:
    return lambda df, capacity: pb.async_io(
        df, short, returns="answer bigint", ordered=False, capacity=capacity, **options
    )


WAYS = {
    "process_keyed_async, no state": keyed(Stateless()),
    "process_keyed_async, a count": keyed(Counts()),
    "process_keyed_async, a count, a limit": keyed(Counts(), limit=FREE),
    "process_keyed_async, at once": keyed(CountsAtOnce()),
    "async_io": plain(),
    "async_io, by key, one call of a key": plain(by="k", limit=ONE_A_KEY),
}


def main() -> None:
    options = arguments()
    spark = session(1, ["jvm"])
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    ways = {name: way for name, way in WAYS.items() if any(part in name for part in options.only)}
    try:
        for keys, rows, capacity in options.sizes:
            found: dict[str, list[Usage]] = {}
            for repeat in range(-1, options.repeats):
                turn = list(ways.items())
                for name, way in reversed(turn) if repeat % 2 else turn:
                    used = measured(spark, way, keys, rows, capacity)
                    if repeat >= 0:  # the first round warms up
                        found.setdefault(name, []).append(used)
            print(table(found, keys, rows, capacity))
    finally:
        spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed_calls", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[""], help="ways whose name has one of these")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat")
    options = parser.parse_args()
    options.sizes = [(50_000, 100_000, 100), (1, 1_000, 100)]
    if options.quick:
        options.sizes, options.repeats = [(1_000, 2_000, 100)], 1
    return options


def measured(spark: SparkSession, way: Any, keys: int, rows: int, capacity: int) -> Usage:
    df = spark.range(0, rows, 1, 1).selectExpr(f"id % {keys} AS k", "id")
    with usage() as found:
        run(way(df, capacity), rows, rows * (rows - 1) / 2)
    return found


def table(found: dict[str, list[Usage]], keys: int, rows: int, capacity: int) -> str:
    lines = [
        f"## {rows:,} rows of {keys:,} keys, {capacity} at a time\n",
        "| how | rows/s of a task | lowest - highest | CPU µs a row: worker | JVM |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, runs in found.items():
        speeds = sorted(rows / used.seconds for used in runs)
        worker, jvm = (
            statistics.median(used.cpu_of[kind] for used in runs) / rows * 1e6
            for kind in ("worker", "jvm")
        )
        lines.append(
            f"| {name} | {statistics.median(speeds):,.0f} | {speeds[0]:,.0f} - {speeds[-1]:,.0f} "
            f"| {worker:.1f} | {jvm:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
