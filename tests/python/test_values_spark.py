"""Values of data are hidden wherever an error can be seen, on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from pillarbox._base.values import HIDDEN
from spark_support import by_value

by_value(__name__)

VALUE = "sk-1"
SHOW = "spark.pillarbox.errors.showValues"
Build = Callable[[DataFrame], DataFrame]


@pytest.fixture
def hidden(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(SHOW, "false")
    yield
    spark.conf.unset(SHOW)


async def fails(row: Any) -> Any:
    raise LookupError("mine")


async def echoes(row: Any) -> Any:
    return row[1]


async def widens(row: Any) -> Any:
    return row[1], 2, 3


async def gives_rows(rows: Any) -> Any:
    return [row[1] for row in rows] + [rows[0][1]]


def calls(function: Any, **options: Any) -> Callable[[str], Build]:
    return lambda engine: lambda df: pb.async_io(df, function, engine=engine, **options)


CALLS = {
    "raised": calls(fails, returns="y int"),
    "type": calls(echoes, returns="y int"),
    "type of a column to hide": calls(echoes, returns="token int"),
    "shape": calls(widens, returns="y string, token int"),
    "batch": calls(gives_rows, returns="token string", batch_size=2),
}


class Does(pb.KeyedProcessFunction):
    def __init__(self, what: Callable[..., Any]) -> None:
        self.what = what

    def open(self, ctx: Any) -> None:
        self.token = ctx.value_state("token", "int")

    def process(self, row: Any, ctx: Any) -> Any:
        return self.what(self, row)


def keyed(what: Callable[..., Any]) -> Build:
    return lambda df: pb.process_keyed(
        df, Does(what), by=df.columns[1], returns="y string, token int"
    )


def divides(self: Any, row: Any) -> Any:
    return 1 // 0


KEYED = {
    "raised": keyed(divides),
    "row": keyed(lambda self, row: ("y", row[1])),
    "state": keyed(lambda self, row: self.token.update(row[1])),
}


def told_of(build: Build, df: DataFrame) -> tuple[str, Any]:
    with pytest.raises(PythonException) as raised:
        build(df).collect()
    found = pb.failure_of(raised.value)
    assert found is not None, raised.value
    return f"{raised.value}\n{raised.value!r}\n{found}\n{vars(found)}", found


def rows(spark: SparkSession, column: str) -> DataFrame:
    return spark.range(2).select("id", F.lit(VALUE).alias(column))


@pytest.mark.parametrize("case", CALLS)
def test_no_error_of_a_call_shows_a_value(
    spark: SparkSession, engine: str, hidden: None, case: str
) -> None:
    text, found = told_of(CALLS[case](engine), rows(spark, "v"))
    assert VALUE not in text
    assert found.row == HIDDEN


@pytest.mark.parametrize("case", [case for case in CALLS if case != "type"])
def test_columns_that_spark_redacts_are_hidden_by_default(
    spark: SparkSession, engine: str, case: str
) -> None:
    text, found = told_of(CALLS[case](engine), rows(spark, "api_token"))
    assert VALUE not in text
    assert found.row in (f"id=0, api_token={HIDDEN}", f"id=1, api_token={HIDDEN}")


def test_the_error_column_shows_no_value_but_what_the_exception_says(
    spark: SparkSession, engine: str, hidden: None
) -> None:
    async def odd(row: Any) -> Any:
        return row[1] if row.id else await fails(row)

    answered = pb.async_io(rows(spark, "v"), odd, returns="y int", on_error="column", engine=engine)
    first, second = (row.error for row in answered.sort("id").collect())
    assert first.message == "mine"
    assert second.kind == "RESULT_TYPE_MISMATCH"
    assert VALUE not in second.message
    assert HIDDEN in second.message


@pytest.mark.parametrize("case", KEYED)
def test_no_error_of_a_keyed_function_shows_a_value(
    spark: SparkSession, hidden: None, case: str
) -> None:
    text, found = told_of(KEYED[case], rows(spark, "v"))
    assert VALUE not in text
    assert (found.key, found.row) == (HIDDEN, HIDDEN)


@pytest.mark.parametrize("case", KEYED)
def test_keyed_columns_that_spark_redacts_are_hidden_by_default(
    spark: SparkSession, case: str
) -> None:
    text, found = told_of(KEYED[case], rows(spark, "api_token"))
    assert VALUE not in text
    assert (found.key, found.row) == (HIDDEN, f"id=0, api_token={HIDDEN}")


def test_initial_state_that_comes_twice_shows_no_key(spark: SparkSession) -> None:
    df = rows(spark, "api_token")
    twice = df.select("api_token", F.lit(1).alias("token"))
    build = pb.process_keyed(
        df,
        Does(divides),
        by="api_token",
        returns="y string",
        initial_state=twice,
    )
    text, found = told_of(lambda _: build, df)
    assert found.condition == "INITIAL_STATE_TWICE"
    assert VALUE not in text


def test_a_value_of_the_setting_without_a_meaning_is_refused(
    spark: SparkSession, engine: str
) -> None:
    spark.conf.set(SHOW, "often")
    try:
        with pytest.raises(Exception, match=r"errors\.showValues.*often"):
            pb.async_io(rows(spark, "v"), fails, returns="y int", engine=engine).collect()
    finally:
        spark.conf.unset(SHOW)
