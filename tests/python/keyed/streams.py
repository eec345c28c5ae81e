"""A small stream for tests: a file is a micro-batch, and every run goes on from the checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import StructType

from spark_support import run_stream

# What Spark Connect makes tables of rows with: a job of Spark takes thirty times as long.
convert = LocalDataToArrowConversion.convert


class Stream:
    """``build`` makes the query of the input, once a run."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        schema: str,
        build: Callable[[DataFrame], DataFrame],
    ) -> None:
        self.spark, self.folder, self.schema, self.build = spark, folder, schema, build
        (folder / "in").mkdir(parents=True)
        self.count = 0

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")

    def add(self, *rows: Any) -> Stream:
        """One more micro-batch: a file that a query sees with the time that gives its order."""
        table = convert(list(rows), StructType.fromDDL(self.schema), False)
        path = self.folder / "in" / f"{self.count}.parquet"
        written = path.with_name(f".{path.name}")
        pq.write_table(table, written)
        os.utime(written, (1_000_000 + self.count, 1_000_000 + self.count))
        written.rename(path)
        self.count += 1
        return self

    def source(self) -> DataFrame:
        rows = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return rows.parquet(str(self.folder / "in"))

    def run(self, build: Callable[[DataFrame], DataFrame] | None = None) -> list[Any]:
        """Runs all that is there, and gives all rows that ever came out."""
        result = (build or self.build)(self.source())
        run_stream(result, self.folder, "parquet")
        out = self.spark.read.schema(result.schema).parquet(str(self.folder / "out"))
        return [tuple(row) for row in out.collect()]


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """SQL settings for a while, as keyword arguments: ``**{"spark.x": "1"}``."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
