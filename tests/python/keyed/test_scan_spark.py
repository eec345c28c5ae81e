"""``scan`` on Spark, as a Python user meets it."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream, settings
from spark_support import Kept, by_value, run_stream

by_value(__name__)
STORE = "spark.sql.streaming.stateStore"


@pytest.fixture
def prices(spark: SparkSession) -> DataFrame:
    rows = [("a", 1, 0.5), ("a", 2, 1.0), ("a", 3, 1.5)]
    return spark.createDataFrame(rows, "k string, v bigint, p double")


def folded(df: DataFrame, initial: str, update: str) -> list[Any]:
    state = {"s": (initial, update)}
    return [
        row[0] for row in pb.scan(df, by="k", state=state, select=["s"], order_by="v").collect()
    ]


def test_an_average_that_starts_as_a_decimal_literal_is_not_cut_off(prices: DataFrame) -> None:
    assert folded(prices, "0.0", "0.5D * s + p") == [0.5, 1.25, 2.125]


STEPS = {"last": ("NULL", "v"), "n": ("0L", "n + 1")}


def test_old_is_the_state_before_the_row(prices: DataFrame) -> None:
    select = ["k", "v - old.last AS step", "n", "old.n AS before", "upper(k) AS u"]
    scan = pb.scan(prices, by="k", state=STEPS, select=select, order_by="v")
    assert scan.collect() == [("a", None, 1, 0, "A"), ("a", 1, 2, 1, "A"), ("a", 1, 3, 2, "A")]
    star = pb.scan(prices, by="k", state=STEPS, select=["*", "OLD.n AS before"], order_by="v")
    assert star.columns == ["k", "v", "p", "last", "n", "before"]
    assert [row.before for row in star.collect()] == [0, 1, 2]
    inner = ["to_json(struct(*)) AS all", "* EXCEPT (v, p)", "old.n AS before"]
    row = pb.scan(prices, by="k", state=STEPS, select=inner, order_by="v").first()
    assert list(row.asDict()) == ["all", "k", "last", "n", "before"]
    assert list(json.loads(row["all"])) == ["k", "v", "p", "last", "n"]


def test_a_column_or_a_state_hides_old(prices: DataFrame) -> None:
    own = prices.withColumn("old", F.lit("mine"))
    assert pb.scan(own, by="k", state=STEPS, select=["old"]).first() == ("mine",)
    state = {"old": ("0L", "old + v")}
    scan = pb.scan(prices, by="k", state=state, select=["old"], order_by="v")
    assert [row.old for row in scan.collect()] == [1, 3, 6]


@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
def test_old_goes_on_from_the_checkpoint(
    spark: SparkSession, tmp_path: Path, backend: pb.options.StateBackend
) -> None:
    def build(df: DataFrame) -> DataFrame:
        select = ["k", "v - old.last AS step"]
        return pb.scan(df, by="k", state=STEPS, select=select, backend=backend)

    stream = Stream(spark, tmp_path, "k string, v bigint", build)
    stream.add(("a", 1), ("b", 5)).add(("a", 4)).run()
    stream.add(("b", 7)).add(("a", 9))
    assert set(stream.run()) == {("a", None), ("b", None), ("a", 3), ("b", 2), ("a", 5)}


def test_functions_that_the_optimizer_replaces(prices: DataFrame) -> None:
    assert folded(prices, "NULL", "nvl(s, 10) + v") == [11, 13, 16]
    assert folded(prices, "0", "CASE WHEN s + v BETWEEN 1 AND 3 THEN s + v ELSE 0 END") == [1, 3, 0]


def test_a_type_that_does_not_fit_is_refused_with_what_to_write(prices: DataFrame) -> None:
    with pytest.raises(pb.PillarboxError, match=r"SCAN_STATE_TYPE.*CAST\(v AS DOUBLE\)"):
        folded(prices, "v", "(s + p) / 2")
    assert folded(prices, "CAST(v AS DOUBLE)", "(s + p) / 2") == [0.75, 0.875, 1.1875]


def half(x: pd.Series) -> pd.Series:
    return x / 2


@pytest.mark.parametrize("kind", ["udf", "pandas_udf", "nondeterministic"])
def test_a_python_function_is_refused_by_name(
    spark: SparkSession, prices: DataFrame, kind: str
) -> None:
    function = F.udf(lambda x: x / 2, "double")
    if kind == "pandas_udf":
        function = F.pandas_udf(half, "double")
    if kind == "nondeterministic":
        function = function.asNondeterministic()
    spark.udf.register("half_of", function)
    with pytest.raises(pb.PillarboxError, match=r"the Python function .*: half_of\(s\)"):
        folded(prices, "0D", "half_of(s)")


def test_a_random_number_is_refused_by_name(prices: DataFrame) -> None:
    with pytest.raises(pb.PillarboxError, match=r"SCAN_EXPRESSION.*rand\(\).*xxhash64"):
        folded(prices, "0D", "s + rand()")


def test_the_time_of_a_stream_is_the_micro_batch_s(spark: SparkSession, tmp_path: Path) -> None:
    def clocked(df: DataFrame) -> DataFrame:
        state = {"first": ("now()", "first"), "last": ("now()", "localtimestamp()::timestamp")}
        emit = ["v", "last = current_timestamp() AS now", "first = last AS new"]
        return pb.scan(df, by="k", state=state, select=emit)

    stream = Stream(spark, tmp_path, "k string, v bigint", clocked)
    stream.add(*[("a", v) for v in range(1000)]).add(("a", 1000))
    rows = sorted(stream.run())
    assert rows == [(v, True, v < 1000) for v in range(1001)]


@pytest.mark.parametrize("version", ["1", "2"])
def test_rows_that_foreach_batch_does_not_take_count_all_the_same(
    spark: SparkSession, tmp_path: Path, version: str
) -> None:
    def counts(df: DataFrame) -> DataFrame:
        return pb.scan(df, by="k", state={"n": ("0L", "n + 1")}, select=["k", "n"])

    def take(name: str, look: Any) -> Kept:
        kept = Kept(str(tmp_path / name), look)
        stream.add(*[(k,) for k in "abcdef"])
        rows = spark.readStream.schema("k string").parquet(str(stream.folder / "in"))
        run_stream(counts(rows), stream.folder, kept)
        return kept

    stream = Stream(spark, tmp_path / "stream", "k string", counts)
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    store = {f"{STORE}.checkpointFormatVersion": version, f"{STORE}.providerClass": rocksdb}
    with settings(spark, **store):
        assert len(take("one", lambda batch, number: batch.limit(1).collect()).rows()) == 1
        assert take("none", lambda batch, number: []).rows() == []
        all_rows = take("all", lambda batch, number: batch.collect()).rows()
    assert sorted(all_rows) == [(k, 3) for k in "abcdef"]
