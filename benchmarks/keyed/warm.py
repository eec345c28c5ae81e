"""What a micro-batch of a hundred rows takes that has been warm for a while: of Spark alone, and of
each of our operators.

``python -m benchmarks.keyed.warm``, and a part of ``benchmarks.keyed.batches``. The rows are made
by Spark's own source for tests, in two partitions; the sink drops them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

import pillarbox as pb

from .. import report
from . import contestants, stream
from . import pillarbox_functions as ours

ROWS, KEYS, PARTITIONS = 100, 20, 2
SKIPPED, MEASURED = 15, 45
STEPS = ("queryPlanning", "addBatch", "walCommit", "commitOffsets")


async def at_once(row: Row) -> int:
    return 1


def called(df: DataFrame, **options: Any) -> DataFrame:
    return pb.async_io(df, at_once, returns="answer long", inputs=["v"], ordered=False, **options)


@dataclass(frozen=True)
class Way:
    who: str
    transform: Callable[[DataFrame], DataFrame]
    peer: str = ""
    aim: float | None = None  # at most so many ms more than the peer


IDENTITY, SHUFFLED = "a projection", "a shuffle by key"
WAYS = [
    Way(IDENTITY, lambda df: df),
    Way("`mapInArrow`, identity", lambda df: contestants.identity(df), IDENTITY),
    Way("`async_io`", called, IDENTITY, 10),
    Way("`async_io`, carry_over=True", lambda df: called(df, carry_over=True), IDENTITY),
    Way(SHUFFLED, lambda df: df.repartition(PARTITIONS, "k")),
    Way(
        "`mapInArrow`, identity, behind it",
        lambda df: contestants.identity(df.repartition(PARTITIONS, "k")),
        SHUFFLED,
    ),
    Way("`pb.scan`", contestants.scan, SHUFFLED),
    Way("`pb.process_keyed`", contestants.keyed(ours.RunningCount), SHUFFLED, 25),
    Way("`pb.process_keyed_arrow`", contestants.keyed(ours.RunningCountColumns), SHUFFLED),
    Way("`groupBy().agg()`", contestants.aggregate, SHUFFLED),
]


@dataclass(frozen=True)
class Took:
    """Milliseconds of a micro-batch, and of its steps by Spark's names."""

    whole: float
    steps: dict[str, float]


def run(spark: SparkSession, way: Way) -> Took:
    source = spark.readStream.format("rate-micro-batch")
    rows = source.options(rowsPerBatch=ROWS, numPartitions=PARTITIONS).load()
    made = way.transform(rows.selectExpr(f"value % {KEYS} k", "value v"))
    with tempfile.TemporaryDirectory(prefix="keyed-bench-") as folder:
        sink = made.writeStream.format("noop").outputMode("update")
        query = sink.option("checkpointLocation", folder).start()
        try:
            while len(query.recentProgress) < SKIPPED + MEASURED:
                if query.exception() is not None:
                    raise RuntimeError(f"{way.who}: {query.exception()}")
                time.sleep(0.2)
            progress = query.recentProgress[SKIPPED:]
        finally:
            query.stop()
    found = [p["durationMs"] for p in progress if p["numInputRows"] == ROWS]
    steps = {step: statistics.median(p.get(step, 0) for p in found) for step in STEPS}
    return Took(statistics.median(p["triggerExecution"] for p in found), steps)


def table(spark: SparkSession, repeats: int) -> str:
    """Each way in turn, once to warm up and then `repeats` times."""
    rounds = [{way.who: run(spark, way) for way in WAYS} for _ in range(repeats + 1)][1:]
    steps = " | ".join(f"`{step}`" for step in STEPS)
    lines = [
        f"| how | micro-batch, ms | beside its peer | aim | {steps} |",
        "|---|--:|--:|--:|" + "--:|" * len(STEPS),
    ]
    for way in WAYS:
        of = [took[way.who] for took in rounds]
        whole = statistics.median(took.whole for took in of)
        more = aim = ""
        if way.peer:
            found = [took[way.who].whole - took[way.peer].whole for took in rounds]
            more = f"{statistics.median(found):+.0f} ({min(found):+.0f} to {max(found):+.0f})"
            if way.aim is not None:
                aim = report.aim_of(statistics.median(found), way.aim)
        cells = [f"{statistics.median(took.steps[step] for took in of):.0f}" for step in STEPS]
        lines.append(f"| {way.who} | {whole:.0f} | {more} | {aim} | {' | '.join(cells)} |")
    return "\n".join(lines)


CONDITIONS = (
    f"The warm micro-batch: {ROWS} rows with {KEYS} keys in {PARTITIONS} partitions, made by "
    f"Spark's `rate-micro-batch`; medians of {MEASURED} micro-batches behind {SKIPPED} that warm "
    "up, of each way in turn, again and again; beside the peer of the same round, a projection or "
    "a shuffle by key, with the least and greatest in brackets. The steps are Spark's: tasks and "
    "all that is before them run in `addBatch`, and its logs are written in the last two. Spark "
    "writes these alike for all ways, so what they differ by is noise. By a trace a "
    "task of `async_io` uses CPU on its thread for a quarter of its time, and its worker has the "
    "answers an eighth of it after the calls; the rest is the worker's lease and beginning, and "
    "that five threads on two cores wait for each other at each message."
)


if __name__ == "__main__":
    print(table(stream.session(), 3))
