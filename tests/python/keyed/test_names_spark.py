"""Names of columns: case, duplicates and hidden columns, in every form."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.scripts import CountAndSum
from keyed.streams import Stream, settings
from spark_support import by_value

by_value(__name__)


class ColumnCount(pb.ArrowKeyedProcessFunction):
    def open(self, ctx):
        ctx.value_state("n", "bigint")

    def process(self, batch, state, ctx):
        counts = pb.columns.running_count(state.index, state["n"])
        state["n"] = pb.columns.group_last(counts, state.index, state["n"])
        return {"k": state.keys.take(state.index), "n": counts}


class Count(pb.KeyedProcessFunction):
    def open(self, ctx):
        self.n = ctx.value_state("n", "bigint")

    def process(self, row, ctx):
        self.n.update((self.n.value() or 0) + 1)
        yield ctx.key, self.n.value()


def rows(df: DataFrame, **options) -> DataFrame:
    return pb.process_keyed(df, Count(), by="k", returns="k string, n bigint", **options)


def columns(df: DataFrame, **options) -> DataFrame:
    return pb.process_keyed_arrow(
        df, ColumnCount(), by="k", returns="k string, n bigint", **options
    )


def scanned(df: DataFrame, **options) -> DataFrame:
    return pb.scan(df, by="k", state={"n": ("0L", "n + 1")}, select=["k", "n"], **options)


FORMS = pytest.mark.parametrize("form", [rows, columns, scanned])
Form = Callable[..., DataFrame]


@pytest.fixture
def letters(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", "X"), ("a", "Y"), ("b", "X")], "k string, other string")


@pytest.mark.parametrize("sensitive", ["true", "TRUE", " True "])
@FORMS
def test_names_that_differ_in_case_are_different_where_the_session_says_so(
    spark: SparkSession, letters: DataFrame, form: Form, sensitive: str
) -> None:
    with settings(spark, **{"spark.sql.caseSensitive": sensitive}):
        upper = letters.withColumnRenamed("other", "K")
        assert sorted(map(tuple, form(upper).collect())) == [("a", 1), ("a", 2), ("b", 1)]
        with pytest.raises(pb.InvalidOption, match="by names the column K, but there is only k"):
            pb.process_keyed(letters, Count(), by="K", returns="k string, n bigint")
        with pytest.raises(pb.InvalidOption, match="inputs names the column OTHER"):
            pb.process_keyed(letters, Count(), by="k", inputs=["OTHER"], returns="n bigint")
        with pytest.raises(pb.InvalidOption, match="inputs names the column OTHER"):
            pb.async_io(letters, print, inputs=["OTHER"], returns="n bigint")


def test_a_key_of_another_case_than_a_second_column_is_the_one_that_was_named(
    spark: SparkSession, letters: DataFrame
) -> None:
    with settings(spark, **{"spark.sql.caseSensitive": "TRUE"}):
        upper = letters.withColumnRenamed("other", "K")
        counts = pb.scan(upper, by="K", state={"N": ("0L", "N + 1"), "n": ("0L", "n")})
        assert sorted((row.K, row.N, row.n) for row in counts.collect()) == [
            ("X", 1, 0),
            ("X", 2, 0),
            ("Y", 1, 0),
        ]
        both = CountAndSum()
        assert pb.process_keyed(upper, both, by="K", returns="n bigint, N bigint").columns == [
            "n",
            "N",
        ]


@FORMS
def test_a_column_twice_is_no_hindrance(letters: DataFrame, form: Form) -> None:
    twice = letters.select("k", "other", "other")
    assert sorted(map(tuple, form(twice).collect())) == [("a", 1), ("a", 2), ("b", 1)]


@FORMS
def test_a_column_twice_in_a_stream(spark: SparkSession, tmp_path: Path, form: Form) -> None:
    def build(df: DataFrame) -> DataFrame:
        return form(df.withWatermark("ts", "0 seconds").selectExpr("k", "v", "ts", "v", "ts"))

    schema = "k string, v bigint, ts timestamp"
    at = datetime(2024, 1, 1)
    stream = Stream(spark, tmp_path, schema, build).add(("a", 1, at), ("b", 2, at))
    assert sorted(stream.add(("a", 3, at)).run()) == [("a", 1), ("a", 2), ("b", 1)]


def test_the_function_gets_both_columns_of_a_name(letters: DataFrame) -> None:
    class Both(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            yield ctx.key, len(row), row[1] == row[2]

    both = pb.process_keyed(
        letters.select("k", "other", "other"),
        Both(),
        by="k",
        returns="k string, n int, same boolean",
    )
    assert sorted(map(tuple, both.collect())) == [("a", 3, True), ("a", 3, True), ("b", 3, True)]


@pytest.mark.parametrize("option", ["by", "inputs", "timestamp", "order_by"])
def test_a_name_that_two_columns_have_is_refused(letters: DataFrame, option: str) -> None:
    twice = letters.selectExpr("k", "other AS x", "k AS X")
    options = {"by": "k", **{option: "x" if option in ("by", "timestamp") else ["x"]}}
    with pytest.raises(
        pb.InvalidOption, match=f"{option} names the column x, but the DataFrame has 2 .*: x, X"
    ):
        pb.process_keyed(twice, Count(), returns="k string, n bigint", **options)


def test_an_input_of_async_io_that_two_columns_have_is_refused(letters: DataFrame, engine: str):
    twice = letters.select("k", "other", "other")
    with pytest.raises(pb.InvalidOption, match=r"inputs names the column other, but .* has 2"):
        pb.async_io(twice, print, inputs=["other"], returns="n bigint", engine=engine)


@pytest.fixture
def files(spark: SparkSession, letters: DataFrame, tmp_path: Path) -> DataFrame:
    letters.coalesce(1).write.parquet(str(tmp_path / "letters"))
    return spark.read.parquet(str(tmp_path / "letters"))


@FORMS
def test_hidden_columns_of_the_input_are_none_of_a_keyed_operator_s(
    files: DataFrame, form: Form
) -> None:
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        _ = form(files).select("_metadata.file_name").schema


def test_hidden_columns_of_the_input_pass_through_async_io(files: DataFrame) -> None:
    async def upper(row):
        return row.other.lower()

    answered = pb.async_io(files, upper, returns="lower string", engine="jvm")
    named = answered.select("k", "other", "lower", "_metadata.file_name")
    found = sorted(map(tuple, named.collect()))
    assert [row[:3] for row in found] == [("a", "X", "x"), ("a", "Y", "y"), ("b", "X", "x")]
    assert all(row[3].endswith(".parquet") for row in found)


@pytest.mark.classic
@FORMS
def test_a_global_view_is_read_by_a_session_that_has_used_nothing_of_ours(
    spark: SparkSession, letters: DataFrame, form: Form
) -> None:
    form(letters).createOrReplaceGlobalTempView("counted")
    try:
        read = spark.newSession().table("global_temp.counted")
        assert sorted(map(tuple, read.collect())) == [("a", 1), ("a", 2), ("b", 1)]
    finally:
        spark.catalog.dropGlobalTempView("counted")


@pytest.mark.classic
def test_a_global_view_of_calls_is_read_by_a_session_that_has_used_nothing_of_ours(
    spark: SparkSession, letters: DataFrame, engine: str
) -> None:
    async def lower(row):
        return row.other.lower()

    answered = pb.async_io(letters, lower, returns="lower string", engine=engine)
    answered.createOrReplaceGlobalTempView("answered")
    try:
        read = spark.newSession().sql("SELECT lower FROM global_temp.answered")
        assert sorted(row.lower for row in read.collect()) == ["x", "x", "y"]
    finally:
        spark.catalog.dropGlobalTempView("answered")


def test_one_column_by_two_names_is_refused_unless_case_counts(
    spark: SparkSession, letters: DataFrame
) -> None:
    asked = {"returns": "n bigint"}
    for options in ({"by": ["k", "K"]}, {"by": "k", "order_by": ["other", "OTHER"]}):
        with pytest.raises(pb.InvalidOption, match=r"must be .* several different ones"):
            pb.process_keyed(letters, Count(), **options, **asked)
    with pytest.raises(pb.InvalidOption, match=r"inputs must be .* several different ones"):
        pb.async_io(letters, print, inputs=["k", "K"], **asked)
    with settings(spark, **{"spark.sql.caseSensitive": "true"}):
        upper = letters.withColumnRenamed("other", "K")
        assert pb.process_keyed(upper, Count(), by=["k", "K"], **asked).columns == ["n"]
