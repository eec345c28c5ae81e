"""The same job as a stream: files in, parquet files out, with a checkpoint."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from .job import with_weather

FILES_A_BATCH = 4


def run_stream(spark: SparkSession, folder: Path, url: str, engine: str) -> DataFrame:
    """Read every flight file as a stream, a few a micro-batch, and return what the sink holds."""
    source = folder / "flights"
    flights = (
        spark.readStream.schema(spark.read.parquet(str(source)).schema)
        .option("maxFilesPerTrigger", FILES_A_BATCH)
        .parquet(str(source))
    )
    query = (
        with_weather(flights, url, engine)
        .writeStream.format("parquet")
        .option("path", str(folder / "stream-output"))
        .option("checkpointLocation", str(folder / "stream-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    for batch in query.recentProgress:
        print(f"   micro-batch {batch['batchId']}: {batch['numInputRows']:,} rows")
    return spark.read.parquet(str(folder / "stream-output"))
