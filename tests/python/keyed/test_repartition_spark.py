"""Spark's own repartition of state fails at ours, and the query can be started again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.streams import Stream, settings

cloudpickle.register_pickle_by_value(sys.modules[__name__])
# PySpark reaches the repartition by py4j alone.
pytestmark = pytest.mark.classic

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


class Counts(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        if row.v < 0:
            raise ValueError("no luck")
        self.n.update((self.n.value() or 0) + row.v)
        yield row.k, self.n.value()


def counts(df: DataFrame) -> DataFrame:
    return df.transform(
        pb.process_keyed, Counts(), by="k", returns="k string, n bigint", name="counts"
    )


def lenient(df: DataFrame) -> DataFrame:
    return counts(df.selectExpr("k", "abs(v) AS v"))


def repartition(spark: SparkSession, stream: Stream, **options: Any) -> None:
    """Fails, after it has begun a batch of its own."""
    with pytest.raises(Exception, match=r"."):
        spark._streamingCheckpointManager.repartition(stream.checkpoint, 3, **options)
    assert last(stream, "offsets") == last(stream, "commits") + 1


def last(stream: Stream, log: str) -> int:
    files = Path(stream.checkpoint, log).iterdir()
    return max(int(path.name) for path in files if path.name.isdigit())


def partitions(stream: Stream) -> set[str]:
    operator = Path(stream.checkpoint) / "state" / "0"
    return {path.name for path in operator.iterdir() if path.name.isdigit()}


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_query_goes_on_with_its_partitions_after_a_repartition_that_failed(
    spark: SparkSession, tmp_path: Path, version: str
) -> None:
    with settings(spark, **{FORMAT: version}):
        stream = Stream(spark, tmp_path, "k string, v bigint", counts)
        stream.add(("a", 1), ("b", 10)).add(("a", 2)).run()
        for _ in range(2):
            repartition(spark, stream)
        stream.add(("a", 3), ("b", 20))
        expected = [("a", 1), ("a", 3), ("a", 6), ("b", 10), ("b", 30)]
        assert sorted(stream.run()) == expected
        repartition(spark, stream)
        assert sorted(stream.run()) == expected
        assert sorted(stream.add(("a", 4)).run()) == sorted([*expected, ("a", 10)])
    assert partitions(stream) == {"0", "1"}


def test_batches_that_the_repartition_was_to_skip_are_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, "k string, v bigint", counts)
    stream.add(("a", 1)).run()
    stream.add(("a", -2))
    with pytest.raises(Exception, match="no luck"):
        stream.run()
    repartition(spark, stream, enforce_exactly_once_sink=False)
    assert sorted(stream.run(lenient)) == [("a", 1), ("a", 3)]
    assert sorted(stream.add(("a", 4)).run()) == [("a", 1), ("a", 3), ("a", 7)]


def test_a_query_with_state_of_sparks_own_is_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark may have rewritten its own state for the batch before it came to ours."""
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

    def build(df: DataFrame) -> DataFrame:
        return counts(df.dropDuplicates(["k", "v"]))

    with settings(spark, **{"spark.sql.streaming.stateStore.providerClass": provider}):
        stream = Stream(spark, tmp_path, "k string, v bigint", build).add(("a", 1))
        stream.run()
        repartition(spark, stream)
        with pytest.raises(Exception, match="STREAMING_UNFINISHED_REPARTITION_DETECTED"):
            stream.add(("a", 2)).run()
