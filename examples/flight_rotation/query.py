"""The streaming query, a program that can be killed: `python -m flight_rotation.query FOLDER`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import pillarbox as pb

from .data import SCHEMA
from .job import rotations

TASKS = 2
DAYS_A_BATCH = 10


def run(spark: SparkSession, folder: Path, days_a_batch: int = DAYS_A_BATCH) -> None:
    """Read all files that there are, some days a micro-batch, and stop."""
    flights = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", days_a_batch)
        .parquet(str(folder / "flights"))
    )
    query = (
        rotations(flights)
        .writeStream.format("parquet")
        .option("path", str(folder / "rotations"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run PATH's python3
    builder = SparkSession.builder.master(f"local[{TASKS}]").appName("flight rotation")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", str(TASKS))
    spark = pb.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    run(spark, Path(sys.argv[1]))
    spark.stop()


if __name__ == "__main__":
    main()
