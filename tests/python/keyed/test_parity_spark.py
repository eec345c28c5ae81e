"""The scripts of the parity suite on Spark itself: batch, stream, both backends, restarts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed import scripts
from keyed.scripts import SCRIPTS, CountAndSum, Distinct, Script, same_rows
from keyed.streams import settings
from spark_support import run_stream

# Executors have no copy of the tests.
cloudpickle.register_pickle_by_value(scripts)
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ARROW = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "double": pa.float64()}


def columns(script: Script) -> list[tuple[str, str]]:
    return [tuple(column.split()) for column in script.input.split(", ")]  # type: ignore[misc]


def timed(df: DataFrame, script: Script) -> DataFrame:
    """Spark's event time is a timestamp; the functions go on with the script's epoch ms."""
    if script.timestamp is None:
        return df
    frame = df.withColumn("ts", F.timestamp_millis(script.timestamp))
    return frame.withWatermark("ts", f"{script.delay_ms} milliseconds")


def processed(df: DataFrame, script: Script, backend: str) -> DataFrame:
    return timed(df, script).transform(
        pb.process_keyed,
        script.function(),
        by=list(script.by),
        returns=script.returns,
        timestamp=None if script.timestamp is None else "ts",
        backend=backend,
        **script.options,
    )


class Files:
    """A folder whose files are micro-batches, in order; and the query that reads them."""

    def __init__(self, spark: SparkSession, script: Script, folder: Path) -> None:
        self.spark, self.script, self.folder = spark, script, folder
        (folder / "in").mkdir()
        self.count = 0

    def add(self, rows: list[Any]) -> None:
        kinds = columns(self.script)
        schema = pa.schema([(name, ARROW[kind]) for name, kind in kinds])
        table = pa.Table.from_pylist(
            [dict(zip([name for name, _ in kinds], row, strict=True)) for row in rows], schema
        )
        path = self.folder / "in" / f"{self.count}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000 + self.count, 1_000_000 + self.count))
        self.count += 1

    def run(self, backend: str) -> list[Any]:
        """Runs all that is there, and gives all that ever came out."""
        stream = (
            self.spark.readStream.schema(self.script.input)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder / "in"))
        )
        run_stream(processed(stream, self.script, backend), self.folder, "parquet")
        out = self.spark.read.schema(self.script.returns).parquet(str(self.folder / "out"))
        return [tuple(row) for row in out.collect()]


@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_stream_on_spark_gives_the_rows_of_the_script(
    spark: SparkSession, tmp_path: Path, script: Script, backend: str
) -> None:
    files = Files(spark, script, tmp_path)
    for batch in script.batches:
        files.add(batch)
    same_rows(files.run(backend), script.stream)


@pytest.mark.parametrize(
    "script", [s for s in SCRIPTS if s.batch is not None], ids=lambda script: script.name
)
def test_a_batch_on_spark_gives_the_rows_of_the_script(spark: SparkSession, script: Script) -> None:
    rows = [row for batch in script.batches for row in batch]
    frame = spark.createDataFrame(rows, script.input).coalesce(1)
    same_rows(processed(frame, script, "heap").collect(), script.batch or [])


@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
@pytest.mark.parametrize("function", [CountAndSum, Distinct])
def test_state_outlives_the_query(
    spark: SparkSession, tmp_path: Path, function: Any, backend: str
) -> None:
    """Every micro-batch in a run of its own: state comes from the checkpoint each time."""
    script = next(script for script in SCRIPTS if script.function is function)
    files = Files(spark, script, tmp_path)
    for batch in script.batches:
        files.add(batch)
        rows = files.run(backend)
    same_rows(rows, script.stream)


@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=[] if number % 6 == 0 else [pytest.mark.nightly])
        for number, script in enumerate(SCRIPTS)
    ],
    ids=lambda script: script.name,
)
def test_state_moves_to_other_partitions_before_each_micro_batch(
    spark: SparkSession, tmp_path: Path, script: Script, backend: str
) -> None:
    files = Files(spark, script, tmp_path)
    for number, batch in enumerate(script.batches):
        files.add(batch)
        with settings(spark, **{"spark.sql.shuffle.partitions": str((2, 3, 1, 5)[number % 4])}):
            rows = files.run(backend)
    same_rows(rows, script.stream)


class Fails(pb.KeyedProcessFunction):
    def process(self, row: Any, ctx: Any) -> None:
        raise ValueError(f"no luck with {row.id}")


def test_an_error_shows_the_users_traceback_the_key_and_the_operator(spark: SparkSession) -> None:
    frame = spark.range(7, 8).transform(pb.process_keyed, Fails(), by="id", returns="x int")
    with pytest.raises(Exception, match="no luck with 7") as caught:
        frame.collect()
    message = str(caught.value)
    assert "Fails" in message
    assert "raise ValueError" in message
    assert "at io.pillarbox" not in message
