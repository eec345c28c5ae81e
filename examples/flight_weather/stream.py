"""The same job as a stream: files in, parquet files out, with a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from .job import with_weather

FILES_A_BATCH = 4


@dataclass(frozen=True)
class StreamRun:
    """What the sink holds, and how many rows each micro-batch took in and how long it took."""

    output: DataFrame
    rows: list[int]
    seconds: list[float]


def run_stream(
    spark: SparkSession,
    folder: Path,
    url: str,
    engine: str,
    name: str = "stream",
    files_a_batch: int = FILES_A_BATCH,
    **options: Any,
) -> StreamRun:
    """Read every flight file as a stream, a few a micro-batch."""
    source = folder / "flights"
    flights = (
        spark.readStream.schema(spark.read.parquet(str(source)).schema)
        .option("maxFilesPerTrigger", files_a_batch)
        .parquet(str(source))
    )
    query = (
        with_weather(flights, url, engine, **options)
        .writeStream.format("parquet")
        .option("path", str(folder / f"{name}-output"))
        .option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = query.recentProgress
    rows = [batch["numInputRows"] for batch in batches]
    seconds = [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]
    for batch, count, took in zip(batches, rows, seconds, strict=True):
        print(f"   micro-batch {batch['batchId']}: {count:,} rows, {took:.1f} s")
    return StreamRun(spark.read.parquet(str(folder / f"{name}-output")), rows, seconds)
