"""Runs one contestant over a stream of parquet files and tells what its micro-batches took."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import pillarbox as pb

from . import jvm_peer
from .data import SCHEMA, TASKS

PARTITIONS = "spark.sql.shuffle.partitions"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    PARTITIONS: str(TASKS),
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


def session(**more: str) -> SparkSession:
    """A local session: two tasks, two partitions of state, Spark's RocksDB store with changelog.

    ``more`` are settings of the driver.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{TASKS}]").appName("pillarbox keyed benchmarks")
    settings = {**SETTINGS, **{f"spark.driver.{name}": value for name, value in more.items()}}
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.jars", str(jvm_peer.jar()))
    spark: SparkSession = pb.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@dataclass(frozen=True)
class Ran:
    """A finished query: its micro-batches' progress, and the seconds that they took in all."""

    progress: list[dict[str, Any]]

    @property
    def seconds(self) -> float:
        return sum(p["durationMs"]["triggerExecution"] for p in self.progress) / 1_000

    def observed(self, name: str) -> dict[str, int]:
        found = [p["observedMetrics"]["seen"] for p in self.progress if p.get("observedMetrics")]
        return sum(row[name] or 0 for row in found)  # type: ignore[return-value]


def read(spark: SparkSession, folder: Path, files_a_batch: int | None = None) -> DataFrame:
    """The files of a folder as a stream, event time t."""
    reader = spark.readStream.schema(SCHEMA)
    if files_a_batch:
        reader = reader.option("maxFilesPerTrigger", files_a_batch)
    return reader.parquet(str(folder)).withWatermark("t", "0 seconds")


def run(
    frame: DataFrame,
    counted: str | None = None,
    mode: str = "update",
    checkpoint: Path | None = None,
    no_data_batches: bool = True,
) -> Ran:
    """Runs `frame` to the end of what is there, into a sink that drops it. `counted`: a column to
    sum up, so that a contestant that loses rows is found out. Raises what the query raises."""
    conf = frame.sparkSession.conf
    conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(no_data_batches).lower())
    seen = [F.count(F.lit(1)).alias("rows")]
    if counted:
        seen.append(F.sum(counted).cast("bigint").alias("sum"))
    folder = checkpoint or Path(tempfile.mkdtemp(prefix="keyed-bench-"))
    try:
        query = start(frame.observe("seen", *seen), folder, mode)
        query.awaitTermination()
        return Ran([json.loads(progress.json) for progress in query.recentProgress])
    finally:
        if checkpoint is None:
            shutil.rmtree(folder, ignore_errors=True)


def start(frame: DataFrame, folder: Path, mode: str = "update") -> StreamingQuery:
    """Start `frame` into a sink that drops it, up to the end of what is there."""
    sink = frame.writeStream.format("noop").outputMode(mode)
    return sink.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()


def maintenance(spark: SparkSession) -> Any:
    """Pillarbox's object in the JVM that takes snapshots in the background."""
    jvm: Any = spark._jvm
    return getattr(getattr(jvm.io.pillarbox.spark.state, "StateMaintenance$"), "MODULE$")


def check(ran: Ran, rows: int, total: int | None) -> None:
    """Raises RuntimeError if it were not so many rows, or their sum not `total` (None: any)."""
    found = (ran.observed("rows"), None if total is None else ran.observed("sum"))
    if found != (rows, total):
        raise RuntimeError(f"(rows, sum) of {(rows, total)} expected, found {found}")
