"""The table of conversions on Spark: async_io on both engines, the row form, the column form.

Workers live in another time zone than the driver and the session.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from test_conversions import comparable

import conversions
import pillarbox as pb
from conversions import CASES, REFUSED, ZONE
from spark_support import process_of

cloudpickle.register_pickle_by_value(conversions)
cloudpickle.register_pickle_by_value(sys.modules[__name__])
# The workers get their time zone by the SparkContext.
pytestmark = pytest.mark.classic

TYPES = list(dict.fromkeys(case.type for case in CASES))
NAMES = [f"c{index}" for index in range(len(TYPES))]
RETURNS = ", ".join(f"{name} {kind}" for name, kind in zip(NAMES, TYPES, strict=True))
FITTING = [index for index, case in enumerate(CASES) if case.becomes is not REFUSED]


def column_of(case: int) -> str:
    return NAMES[TYPES.index(CASES[case].type)]


@pytest.fixture(autouse=True)
def _zone(spark: SparkSession) -> Iterator[None]:
    environment: dict[str, str] = spark.sparkContext.environment
    environment["TZ"] = ZONE
    yield
    del environment["TZ"]


@pytest.fixture
def cases(spark: SparkSession) -> DataFrame:
    return spark.range(len(CASES)).withColumnRenamed("id", "n").coalesce(1)


def values(df: DataFrame) -> dict[int, Any]:
    """What each case became."""
    fields = {field.name: field.dataType for field in df.schema.fields}
    rows = {row["n"]: row for row in df.toArrow().to_pylist(maps_as_pydicts=None)}
    return {n: comparable(row[column_of(n)], fields[column_of(n)]) for n, row in rows.items()}


def wanted(indexes: list[int]) -> dict[int, Any]:
    return {index: CASES[index].becomes for index in indexes}


def test_answers_of_async_io(cases: DataFrame, engine: str) -> None:
    async def answer(row: Any) -> Any:
        return {column_of(row.n): CASES[row.n].value}

    options: dict[str, Any] = {"returns": RETURNS, "on_error": "column", "engine": engine}
    out = cases.transform(pb.async_io, answer, **options).cache()
    refused = {row.n: row.error.kind for row in out.where("error is not null").collect()}
    all_refused = set(range(len(CASES))) - set(FITTING)
    assert refused == dict.fromkeys(all_refused, "RESULT_TYPE_MISMATCH")
    assert values(out.where("error is null").drop("error")) == wanted(FITTING)
    out.unpersist()


class Rows(pb.KeyedProcessFunction):
    """Keeps the value as state, and emits what it was given if the state takes it."""

    def __init__(self, emits_state: bool) -> None:
        self.emits_state = emits_state

    def open(self, ctx: Any) -> None:
        self.states = {
            name: ctx.value_state(name, kind) for name, kind in zip(NAMES, TYPES, strict=True)
        }

    def process(self, row: Any, ctx: Any) -> Any:
        name, value = column_of(row.n), CASES[row.n].value
        try:
            self.states[name].update(value)
        except pb.ResultTypeMismatch:
            return
        yield {
            "n": row.n,
            **dict.fromkeys(NAMES),
            name: self.states[name].value() if self.emits_state else value,
        }


@pytest.mark.parametrize("emits_state", [False, True])
def test_rows_and_states_of_a_keyed_function(cases: DataFrame, emits_state: bool) -> None:
    fn = Rows(emits_state)
    out = cases.transform(process_of(fn), fn, by="n", returns=f"n bigint, {RETURNS}")
    assert values(out) == wanted(FITTING)


class Columns(pb.ArrowKeyedProcessFunction):
    """Writes the column as state and reads it back, as a list and as what Arrow makes of it."""

    def open(self, ctx: Any) -> None:
        for name, kind in zip(NAMES, TYPES, strict=True):
            ctx.value_state(name, kind)

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        rows = [n for n in batch["n"].to_pylist() if CASES[n].becomes is not REFUSED]
        columns = {
            name: [CASES[n].value if column_of(n) == name else None for n in rows] for name in NAMES
        }
        keys = state.keys.to_pylist()
        for name in NAMES:
            own = [CASES[n].value if n in rows and column_of(n) == name else None for n in keys]
            state[name] = own
            by_key = dict(zip(keys, state[name].to_pylist(maps_as_pydicts="strict"), strict=True))
            assert all(
                (by_key[n] is None) == (columns[name][i] is None) for i, n in enumerate(rows)
            )
        return {"n": rows, **columns}


def test_columns_of_a_keyed_function(cases: DataFrame) -> None:
    out = cases.transform(pb.process_keyed_arrow, Columns(), by="n", returns=f"n bigint, {RETURNS}")
    assert values(out) == wanted(FITTING)
