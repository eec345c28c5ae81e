"""Answers of functions: which shapes are taken, and how a wrong one is told."""

import dataclasses
import sqlite3
from collections import namedtuple
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

import pillarbox as pb
from conversions import CASES, REFUSED
from pillarbox._arrow.ddl import parse_type
from pillarbox._arrow.results import NO_MATCH, ResultEncoder
from pillarbox._base.spark_versions import in_utc
from pillarbox.errors import shown

TWO = t.StructType().add("temp", "double").add("name", "string")


def encoder(schema, explode=False):
    return ResultEncoder(schema, to_arrow_schema(schema, **in_utc(to_arrow_schema)), explode)


def one(data_type):
    return encoder(t.StructType([t.StructField("v", data_type)]))


def rows(encoded):
    return [tuple(row.values()) for row in encoded.batch.to_pylist()]


@dataclasses.dataclass
class Weather:
    temp: float
    name: str


Named = namedtuple("Named", "temp name")


def record(query):
    """A row as a database's driver gives it."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.row_factory = sqlite3.Row
        return connection.execute(query).fetchone()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "answer",
    [
        {"temp": 1.5, "name": "a"},
        {"name": "a", "other": object(), "temp": 1.5},
        (1.5, "a"),
        Named(1.5, "a"),
        Row(temp=1.5, name="a"),
        Row(name="a", temp=1.5),
        Weather(1.5, "a"),
        MappingProxyType({"name": "a", "temp": 1.5}),
        record("SELECT 'a' AS name, 1.5 AS temp"),
    ],
)
def test_a_row_may_come_in_any_of_the_usual_shapes(answer):
    encoded = encoder(TWO).encode([answer])
    assert (rows(encoded), encoded.counts, encoded.mismatches) == (
        [(1.5, "a")],
        [1],
        {},
    )


def test_missing_names_are_null_and_none_is_no_match():
    encoded = encoder(TWO).encode([{"temp": 1.5}, None, {}, (None, None)])
    assert encoded.counts == [1, NO_MATCH, 1, 1]
    assert rows(encoded) == [(1.5, None), (None, None), (None, None)]


@pytest.mark.parametrize(
    "answer",
    [5, "ab", (1.5,), (1.5, "a", 2), [1.5, "a"], {"tmp": 1.5}, Row(tmp=1), object()],
)
def test_another_shape_is_refused_with_the_columns_and_the_value(answer):
    encoded = encoder(TWO).encode([answer])
    (problem,) = encoded.mismatches.values()
    assert isinstance(problem, pb.ResultTypeMismatch)
    assert "temp, name" in str(problem)
    assert type(answer).__name__ in str(problem)
    assert encoded.counts == [0]


def test_a_list_where_one_row_is_due_points_to_explode():
    (problem,) = encoder(TWO).encode([[(1.5, "a")]]).mismatches.values()
    assert "explode=True" in str(problem)


def test_one_bad_answer_spoils_no_other():
    answers = [(1, "a"), ("x", "b"), None, (3, 4), (5.5, "c")]
    encoded = encoder(TWO).encode(answers)
    assert encoded.counts == [1, 0, NO_MATCH, 0, 1]
    assert rows(encoded) == [(1.0, "a"), (5.5, "c")]
    assert "column temp must be double, but it is 'x' (a str)" in str(encoded.mismatches[1])
    assert "column name must be string, but it is 4 (a int)" in str(encoded.mismatches[3])


def test_explode_takes_lists_of_any_length():
    answers = [[(1.0, "a"), {"temp": 2.0}], [], None, [None]]
    encoded = encoder(TWO, explode=True).encode(answers)
    assert encoded.counts == [2, 0, NO_MATCH, 1]
    assert rows(encoded) == [(1.0, "a"), (2.0, None), (None, None)]


@pytest.mark.parametrize("answer", [(1.0, "a"), {"temp": 1.0}, "ab", 5])
def test_explode_refuses_what_is_no_list(answer):
    (problem,) = encoder(TWO, explode=True).encode([answer]).mismatches.values()
    assert "a list of rows" in str(problem)


def test_a_bad_row_in_a_list_takes_back_the_whole_list():
    encoded = encoder(TWO, explode=True).encode([[(1.0, "a"), ("x", "b")], [(2.0, "c")]])
    assert encoded.counts == [0, 1]
    assert rows(encoded) == [(2.0, "c")]
    assert list(encoded.mismatches) == [0]


def test_no_answers_make_an_empty_batch():
    assert rows(encoder(TWO).encode([])) == []
    assert rows(encoder(TWO).encode([None])) == []


@pytest.mark.parametrize("answer", [7, (7,), {"v": 7}, Row(v=7), np.int64(7), record("SELECT 7 v")])
def test_one_column_takes_the_bare_value_too(answer):
    assert rows(one(t.LongType()).encode([answer])) == [(7,)]


@pytest.mark.parametrize("answer", [{"v": 1}, {}, {"a": 1, "b": 2}])
def test_a_dict_is_the_value_of_a_single_map_column(answer):
    encoded = one(t.MapType(t.StringType(), t.LongType())).encode([answer])
    assert rows(encoded) == [(list(answer.items()),)]


INNER = t.StructType().add("a", "long").add("b", "string")


@pytest.mark.parametrize(
    "answer",
    [
        {"a": 1, "b": "x"},
        {"v": {"a": 1, "b": "x"}},
        Row(a=1, b="x"),
        Row(v=Row(a=1, b="x")),
        (1, "x"),
        ((1, "x"),),
    ],
)
def test_a_single_struct_column_takes_the_struct_or_the_row_around_it(answer):
    encoded = one(INNER).encode([answer])
    assert (rows(encoded), encoded.mismatches) == ([({"a": 1, "b": "x"},)], {})


LEAVES = [
    case
    for case in CASES
    if case.becomes is REFUSED and not case.type.startswith(("array", "map", "struct"))
]


@pytest.mark.parametrize("case", LEAVES, ids=str)
def test_a_value_that_does_not_fit_is_refused_with_column_type_and_value(case):
    data_type = parse_type(case.type, "type")
    (problem,) = one(data_type).encode([(case.value,)]).mismatches.values()
    assert problem.condition == "RESULT_TYPE_MISMATCH"
    assert problem.parameters["column"] == "v"
    assert problem.parameters["expected"] == data_type.simpleString()
    assert problem.parameters["value"] == shown(case.value)
    assert problem.parameters["found"] == type(case.value).__name__


@pytest.mark.parametrize(("data_type", "answer"), [(t.VariantType(), {"a": 1}), (t.NullType(), 5)])
def test_types_without_literals_refuse_strangers_too(data_type, answer):
    (problem,) = one(data_type).encode([(answer,)]).mismatches.values()
    assert problem.condition == "RESULT_TYPE_MISMATCH"


@pytest.mark.parametrize(
    ("data_type", "answer", "path"),
    [
        (t.ArrayType(t.LongType()), [1, "x"], "v[]"),
        (t.ArrayType(t.LongType(), containsNull=False), [1, None], "v[]"),
        (t.MapType(t.StringType(), t.LongType()), {5: 1}, "v{key}"),
        (t.MapType(t.StringType(), t.LongType()), {"a": "x"}, "v{value}"),
        (INNER, {"a": "x"}, "v.a"),
        (t.ArrayType(INNER), [{"b": 5}], "v[].b"),
        (t.StructType([t.StructField("a", t.LongType(), False)]), {"a": None}, "v.a"),
    ],
    ids=str,
)
def test_a_mismatch_inside_says_where(data_type, answer, path):
    (problem,) = one(data_type).encode([answer]).mismatches.values()
    assert problem.parameters["column"] == path


class Point:
    def __init__(self, x):
        self.x = x


class PointUDT(t.UserDefinedType):
    @classmethod
    def sqlType(cls):
        return t.LongType()

    @classmethod
    def module(cls):
        return __name__

    def serialize(self, obj):
        return obj.x

    def deserialize(self, datum):
        return Point(datum)


def test_a_user_defined_type_is_serialised_by_its_class_and_refuses_strangers():
    assert rows(one(PointUDT()).encode([Point(5)])) == [(5,)]
    (problem,) = one(PointUDT()).encode(["x"]).mismatches.values()
    assert problem.parameters["column"] == "v"


cell = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.booleans())


@given(st.lists(st.tuples(cell, cell)))
def test_answers_in_bulk_are_judged_as_each_alone(answers):
    together = encoder(TWO).encode(answers)
    alone = [encoder(TWO).encode([answer]) for answer in answers]
    assert together.counts == [single.counts[0] for single in alone]
    assert {i: str(p) for i, p in together.mismatches.items()} == {
        i: str(single.mismatches[0]) for i, single in enumerate(alone) if single.mismatches
    }
    assert repr(rows(together)) == repr([row for single in alone for row in rows(single)])
