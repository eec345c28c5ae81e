"""Columns that can't be null, and names that aren't there, on Spark in every form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.java_functions import COUNTING, add_counting
from keyed.streams import Stream
from spark_support import process_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])

RETURNS = "k string, n bigint not null"
NOT_NULL = "column n must be bigint and not null, but it is None"


@pytest.fixture(scope="module")
def java(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    add_counting(spark, tmp_path_factory.mktemp("java"))


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", 1), ("b", 2)], "k string, v bigint").coalesce(1)


def nullable(df: DataFrame) -> dict[str, bool]:
    return {field.name: field.nullable for field in df.schema.fields}


def message_of(df: DataFrame) -> str:
    with pytest.raises(PySparkException) as caught:
        df.collect()
    return str(caught.value)


def answering(answer: Any) -> Any:
    async def answers(row: Any) -> Any:
        return answer

    return answers


class Rows(pb.KeyedProcessFunction):
    def __init__(self, answer: Any, tag: str | None = None) -> None:
        self.answer, self.tag = answer, tag

    def open(self, ctx: Any) -> None:
        self.state = ctx.value_state("s", "x bigint not null, y string")

    def process(self, row: Any, ctx: Any) -> Any:
        if self.state.value() is None:
            self.state.update({"x": row.v})
        else:
            self.state.clear()
        if self.tag:
            ctx.output(self.tag, self.answer)
        else:
            yield self.answer


class Columns(pb.ArrowKeyedProcessFunction):
    def __init__(self, column: Any) -> None:
        self.column = column

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        return {"k": batch["k"], "n": self.column}


def test_async_io_says_not_null_where_it_is_so(df: DataFrame, engine: str) -> None:
    good = answering((None, 1))

    def out(function: Any, **more: Any) -> DataFrame:
        returns = "x string, n bigint not null"
        return df.transform(pb.async_io, function, returns=returns, engine=engine, **more)

    raised = out(good)
    assert nullable(raised) == {"k": True, "v": True, "x": True, "n": False}
    assert [row.n for row in raised.where("n is not null").collect()] == [1, 1]
    for bad in (None, (None, None), {"x": "a"}):
        assert NOT_NULL in message_of(out(answering(bad)))
    for on_error in ("null", "column"):
        kept = out(answering(None), on_error=on_error)
        assert nullable(kept)["n"]
        assert [row.n for row in kept.collect()] == [None, None]
        assert kept.where("n is null").count() == 2
    dropped = df.transform(
        pb.async_io, answering([]), returns="n int not null", explode=True, engine=engine
    )
    assert dropped.collect() == []


def test_a_misspelt_key_of_an_answer_is_that_rows_failure(df: DataFrame, engine: str) -> None:
    async def answers(row: Any) -> Any:
        return {"price": 1.0, ("curency" if row.k == "a" else "currency"): "EUR", "other": 1}

    out = df.transform(
        pb.async_io, answers, returns="price double, currency string", on_error="column",
        engine=engine,
    )  # fmt: skip
    first, second = out.orderBy("k").collect()
    assert "'curency' is no column; the nearest is currency" in first.error.message
    assert (second.currency, second.error) == ("EUR", None)


def keyed(df: DataFrame, fn: Any, **more: Any) -> DataFrame:
    return df.transform(process_of(fn), fn, **{"by": "k", "returns": RETURNS, **more})


def test_keyed_functions_say_not_null_where_it_is_so(df: DataFrame, tmp_path: Path) -> None:
    for good in (Rows(("a", 1)), Columns([1, 2])):
        out = keyed(df, good)
        assert nullable(out) == {"k": True, "n": False}
        assert out.where("n is not null").count() == 2
    for bad in (Rows(("a", None)), Rows({"k": "a"}), Columns([1, None])):
        assert NOT_NULL in message_of(keyed(df, bad))
    spark = df.sparkSession
    stream = Stream(spark, tmp_path, "k string, v bigint", lambda df: keyed(df, Rows(("a", 1))))
    assert stream.add(("a", 1), ("b", 2)).add(("a", 1)).run() == [("a", 1)] * 3
    bad = Stream(
        spark, tmp_path / "bad", "k string, v bigint", lambda df: keyed(df, Rows({"k": "a"}))
    )
    with pytest.raises(PySparkException, match=NOT_NULL):
        bad.add(("a", 1)).run()


def test_side_outputs_check_for_nulls_though_their_columns_can_be_null(df: DataFrame) -> None:
    sides = {"side": "x bigint not null, y string"}
    both = keyed(df, Rows(("a", 1)), side_outputs=sides)
    assert nullable(both) == {"tag": False, "k": True, "n": True, "side": True}
    assert [tuple(row) for row in pb.main_output(both).collect()] == [("a", 1)] * 2
    side = pb.side_output(keyed(df, Rows((5, None), "side"), side_outputs=sides), "side")
    assert [tuple(row) for row in side.collect()] == [(5, None)] * 2
    assert NOT_NULL in message_of(keyed(df, Rows(("a", None)), side_outputs=sides))
    wanted = "column side.x must be bigint and not null, but it is None"
    assert wanted in message_of(keyed(df, Rows({"y": "b"}, "side"), side_outputs=sides))


def test_none_among_rows_is_a_row_of_nulls(df: DataFrame) -> None:
    out = keyed(df, Rows(None), returns="n bigint", side_outputs={"side": "x string, y string"})
    assert [tuple(row) for row in pb.main_output(out).collect()] == [(None,)] * 2
    side = keyed(df, Rows(None, "side"), side_outputs={"side": "x string, y string"})
    assert [tuple(row) for row in pb.side_output(side, "side").collect()] == [(None, None)] * 2
    exploded = df.transform(
        pb.async_io, answering([1, None]), returns="n bigint", explode=True, inputs="k"
    )
    assert [row.n for row in exploded.collect()] == [1, None] * 2


@pytest.mark.parametrize(
    "bad", [Rows({"k": "a", "N": 1}), Rows({"n": 1}, "side"), Columns({}), Rows({"k": "a", "m": 1})]
)
def test_names_that_are_no_column_are_errors(df: DataFrame, bad: Any) -> None:
    more: dict[str, Any] = {"returns": "k string, n bigint"}
    if isinstance(bad, Columns):
        more["returns"] = "k string, nn bigint"
    else:
        more["side_outputs"] = {"side": "m bigint, l string"}
    message = message_of(keyed(df, bad, **more))
    assert "[UNKNOWN_FIELD]" in message
    assert "the nearest is" in message


def test_functions_of_the_jvm_are_held_to_it_too(spark: SparkSession, java: None) -> None:
    df = spark.createDataFrame([("a", 1), (None, 2)], "k string, v bigint").coalesce(1)
    strict = "k string not null, n bigint not null"
    fn = pb.JvmFunction(COUNTING)
    assert nullable(keyed(df, fn, returns=strict)) == {"k": False, "n": False}
    for sides in ({}, {"even": "n bigint not null"}):
        message = message_of(keyed(df, fn, returns=strict, side_outputs=sides))
        assert "[JVM_RESULT_MISMATCH]" in message
        assert "(null, 1) does not fit returns, k STRING NOT NULL,n BIGINT NOT NULL" in message
        assert "'k' of input row cannot be null" in message
        good = keyed(df.dropna(), fn, returns=strict, side_outputs=sides)
        assert [row.n for row in good.collect()] == [1]
    message = message_of(keyed(df, fn, returns="k string, n string"))
    assert "java.lang.Long is not valid for the type" in message
