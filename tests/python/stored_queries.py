"""Queries whose checkpoints are kept, and gone on with by another Spark or another Pillarbox.

It runs with older releases of Pillarbox too, which make the checkpoints in ``golden/checkpoints``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, v bigint, t timestamp"
STEPS = 4  # of each query
FILES = 2  # of a step; each is a micro-batch
ROWS = 40
START = 1_767_225_600
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.pillarbox.state.snapshotEvery": "2",
}
# Of a query's states those that are compared when it has ended.
STATES = {
    "keyed": ("count", "recent", "last", "total", "pillarbox timers"),
    "scan": ("scan",),
    "jvm": ("count", "rows"),
    "carry": (),
    "journal": (),
}
COUNTING = "pillarbox.tests.Counting"  # of keyed/java_functions.py


class Case(NamedTuple):
    what: str
    backend: str = ""  # of keyed functions and scans
    format: str = ""  # Spark's, of checkpoints of state

    def __str__(self) -> str:
        return "-".join(part for part in self if part)


class Ledger(pb.KeyedProcessFunction):
    """All kinds of state, TTL in event time, and timers in it."""

    def open(self, ctx: Any) -> None:
        ttl = pb.StateTtl("30 seconds", time_domain="event_time")
        self.count = ctx.value_state("count", "bigint")
        self.recent = ctx.list_state("recent", "struct<v: bigint, at: timestamp>", ttl=ttl)
        self.last = ctx.map_state("last", "string", "bigint", ttl=ttl)
        self.total = ctx.reducing_state("total", "decimal(20,2)", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.recent.add((row.v, row.t))
        self.last.put(f"kind {row.v % 3}", row.v)
        self.total.add(row.v)
        ctx.timers.register_event_time(ctx.timestamp - ctx.timestamp % 1000 + 7000)
        yield self.row(ctx, "row")

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield self.row(ctx, f"timer {timestamp}")

    def row(self, ctx: Any, what: str) -> dict[str, Any]:
        told = [sorted(one.v for one in self.recent.get()), sorted(self.last.items())]
        told.append(str(self.total.get()))
        return {"k": ctx.key, "what": what, "n": self.count.value(), "told": json.dumps(told)}


async def slow(row: Any) -> str:
    """Every third call outlives the step that made it, or the micro-batch."""
    await asyncio.sleep(1.5 if row.v % 3 == 0 else 0.01)
    return f"{row.k} {row.v}"


def keyed(rows: DataFrame, backend: str) -> DataFrame:
    returns = "k string, what string, n bigint, told string"
    return pb.process_keyed(rows, Ledger(), by="k", returns=returns, backend=backend)


def jvm(rows: DataFrame, backend: str) -> DataFrame:
    function = pb.JvmFunction(COUNTING)
    returns, even = "k string, n bigint", {"even": "n bigint"}
    return pb.process_keyed(
        rows, function, by="k", returns=returns, side_outputs=even, backend=backend
    )


def scan(rows: DataFrame, backend: str) -> DataFrame:
    return pb.scan(rows, by="k", state={"total": ("0L", "total + v")}, backend=backend)


def carry(rows: DataFrame, backend: str) -> DataFrame:
    return pb.async_io(
        rows, slow, returns="told string", carry_over=pb.CarryOver(slots=2), timeout="60s"
    )


QUERIES = {"keyed": keyed, "jvm": jvm, "scan": scan, "carry": carry}


def add_files(folder: Path, step: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(step * FILES, (step + 1) * FILES):
        rows = []
        for i in range(number * ROWS, (number + 1) * ROWS):
            at = f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}Z"
            rows.append(json.dumps({"k": f"key {i * 7 % 11}", "v": i, "t": at}))
        hidden = folder / f".{number:04d}"
        hidden.write_text("\n".join(rows) + "\n")
        os.utime(hidden, (START + number, START + number))  # the order in which Spark takes them
        hidden.rename(folder / f"{number:04d}.json")


def ask_again(spark: SparkSession, folder: Path, step: int) -> None:
    """Calls that the journal answers, except in the first step."""

    async def ask(row: Any) -> str:
        return f"{row.id} was asked in step {step}"

    rows = spark.range(ROWS).transform(
        pb.async_io,
        ask,
        returns="told string",
        name="asked",
        journal=folder / "checkpoint",
        call_key="id",
    )
    save(folder, step, rows)


def save(folder: Path, number: int, rows: DataFrame) -> None:
    (folder / "out").mkdir(exist_ok=True)
    found = [json.dumps(row.asDict(recursive=True), default=str) for row in rows.collect()]
    (folder / "out" / f"{number:04d}").write_text("".join(f"{one}\n" for one in found))


def run_step(spark: SparkSession, folder: Path, case: Case, step: int, is_last: bool) -> None:
    """Adds files, and processes them in a run of the query; its rows go to files in ``out``."""
    if case.what == "journal":
        ask_again(spark, folder, step)
        return
    add_files(folder / "in", step)
    spark.conf.set(FORMAT, case.format)
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    rows = reader.json(str(folder / "in")).withWatermark("t", "2 seconds")
    query = (
        QUERIES[case.what](rows, case.backend)
        .writeStream.foreachBatch(lambda batch, number: save(folder, number, batch))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    try:
        if case.what == "carry" and not is_last:
            # Stopped with calls in flight and results that wait.
            while sum(progress["numInputRows"] > 0 for progress in query.recentProgress) < FILES:
                problem = query.exception()
                if problem is not None:
                    raise problem
                time.sleep(0.05)
        else:
            query.processAllAvailable()
    finally:
        query.stop()


def outcome(spark: SparkSession, folder: Path, case: Case) -> dict[str, list[str]]:
    """All rows that a query has put out, and each of its states, sorted."""
    batches = sorted((folder / "out").iterdir())
    found = {"rows": [row for batch in batches for row in batch.read_text().splitlines()]}
    for name in STATES[case.what]:
        state = pb.read_state(spark, str(folder / "checkpoint"), 0, name)
        stored = state.drop("partition_id").collect()
        found[name] = [json.dumps(row.asDict(recursive=True), default=str) for row in stored]
    return {name: sorted(rows) for name, rows in found.items()}
