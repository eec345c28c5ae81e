"""One step of a query that goes from one line of Spark to the next: ``python app.py '<JSON>'``.

Settings: ``folder`` (the query's input, checkpoint and output), ``step``, ``last``, ``what`` (a
function of `QUERIES`), ``backend``, ``format``. Adds files, processes them, and ends with what the
query keeps in its checkpoint. Prints nothing but errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb

SCHEMA = "k string, v bigint, t timestamp"
FILES = 2
ROWS = 40
START = 1_767_225_600
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Ledger(pb.KeyedProcessFunction):
    """All kinds of state, TTL in event time, and timers in it."""

    def open(self, ctx: pb.OpenContext) -> None:
        ttl = pb.StateTtl("30 seconds", time="event")
        self.count = ctx.value_state("count", "bigint")
        self.recent = ctx.list_state("recent", "struct<v: bigint, at: timestamp>", ttl=ttl)
        self.last = ctx.map_state("last", "string", "bigint", ttl=ttl)
        self.total = ctx.reducing_state("total", "decimal(20,2)", lambda a, b: a + b)

    def process(self, row: Any, ctx: pb.Context) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.recent.add((row.v, row.t))
        self.last.put(f"kind {row.v % 3}", row.v)
        self.total.add(row.v)
        ctx.timers.register_event_time(ctx.timestamp - ctx.timestamp % 1000 + 7000)
        yield self.row(ctx, "row")

    def on_timer(self, timestamp: int, ctx: pb.Context) -> Any:
        yield self.row(ctx, f"timer {timestamp}")

    def row(self, ctx: pb.Context, what: str) -> dict[str, Any]:
        told = [sorted(one.v for one in self.recent.get()), sorted(self.last.items())]
        return {"k": ctx.key, "what": what, "n": self.count.value(), "told": json.dumps(told)}


async def slow(row: Any) -> str:
    """Every third call outlives the step that made it, or the micro-batch."""
    await asyncio.sleep(1.5 if row.v % 3 == 0 else 0.01)
    return f"{row.k} {row.v}"


def keyed(rows: DataFrame, backend: str) -> DataFrame:
    returns = "k string, what string, n bigint, told string"
    return pb.process_keyed(
        rows, Ledger(), by="k", returns=returns, backend=backend, timers=backend
    )


def scan(rows: DataFrame, backend: str) -> DataFrame:
    return pb.scan(rows, by="k", state={"total": ("0L", "total + v")}, backend=backend)


def carry(rows: DataFrame, backend: str) -> DataFrame:
    return pb.async_io(rows, slow, returns="told string", carry_over=True, slots=2, timeout="60s")


QUERIES = {"keyed": keyed, "scan": scan, "carry": carry}


def add_files(folder: Path, step: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(step * FILES, (step + 1) * FILES):
        rows = []
        for i in range(number * ROWS, (number + 1) * ROWS):
            at = f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}Z"
            rows.append(json.dumps({"k": f"key {i * 7 % 11}", "v": i, "t": at}))
        hidden = folder / f".{number:04d}"
        hidden.write_text("\n".join(rows) + "\n")
        os.utime(hidden, (START + number, START + number))  # the order in which Spark takes them
        hidden.rename(folder / f"{number:04d}.json")


def main() -> None:
    settings = json.loads(sys.argv[1])
    folder = Path(settings["folder"])
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    options = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.checkpointFormatVersion": settings["format"],
        "spark.pillarbox.state.snapshotEvery": "2",
    }
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = pb.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    add_files(folder / "in", settings["step"])
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    rows = reader.json(str(folder / "in")).withWatermark("t", "2 seconds")
    (folder / "out").mkdir(exist_ok=True)

    def write(batch: DataFrame, number: int) -> None:
        found = [json.dumps(row.asDict(), default=str) for row in batch.collect()]
        (folder / "out" / f"{number:04d}").write_text("".join(f"{one}\n" for one in found))

    query = (
        QUERIES[settings["what"]](rows, settings["backend"])
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    if settings["what"] == "carry" and not settings["last"]:
        # Stopped with calls in flight and results that wait.
        while sum(progress["numInputRows"] > 0 for progress in query.recentProgress) < FILES:
            if query.exception() is not None:
                raise query.exception()
            time.sleep(0.05)
    else:
        query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
