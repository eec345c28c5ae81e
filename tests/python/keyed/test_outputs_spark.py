"""Side outputs on Spark, in batches and streams, from Python and from the JVM; and the JVM form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.java_functions import COUNTING, add_counting
from keyed.streams import Stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, v bigint"
ROWS = [("a", 1), ("b", 5), ("a", 2), ("a", 3)]
SIDES = {"even": "n bigint", "never": "x string"}


class Counting(pb.KeyedProcessFunction):
    """The same as the one in Java."""

    def __init__(self, tag: str = "even") -> None:
        self.tag = tag

    def open(self, ctx: Any) -> None:
        self.count = ctx.value_state("count", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        if n % 2 == 0:
            ctx.output(self.tag, {"n": n})
        else:
            yield (ctx.key, n)


@pytest.fixture(scope="module")
def java(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    add_counting(spark, tmp_path_factory.mktemp("java"))


@pytest.fixture(params=["python", "jvm"])
def counting(request: pytest.FixtureRequest, java: None) -> Any:
    """The function in either form; ``tag`` is that of its side output."""

    def made(df: DataFrame, tag: str = "even", **options: Any) -> DataFrame:
        fn: Any = Counting(tag)
        if request.param == "jvm":
            fn = pb.JvmFunction(COUNTING, {"tag": tag})
        defaults = {"by": "k", "returns": "k string, n bigint", "side_outputs": SIDES}
        return df.transform(pb.process_keyed, fn, **{**defaults, **options})

    return made


def test_side_outputs_of_a_batch_are_further_dataframes(spark: SparkSession, counting: Any) -> None:
    whole = counting(spark.createDataFrame(ROWS, SCHEMA)).cache()
    assert sorted(map(tuple, pb.main_output(whole).collect())) == [("a", 1), ("a", 3), ("b", 1)]
    assert [tuple(row) for row in pb.side_output(whole, "even").collect()] == [(2,)]
    assert pb.side_output(whole, "even").columns == ["n"]
    assert pb.side_output(whole, "never").count() == 0
    whole.unpersist()


def test_side_outputs_of_a_stream_are_rows_with_a_tag(
    spark: SparkSession, counting: Any, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, counting)
    found = stream.add(*ROWS).run()
    assert sorted(found, key=repr) == [
        ("even", None, None, (2,), None),
        ("main", "a", 1, None, None),
        ("main", "a", 3, None, None),
        ("main", "b", 1, None, None),
    ]


def test_an_output_that_was_not_declared_is_an_error_that_names_those_that_are(
    spark: SparkSession, counting: Any
) -> None:
    whole = counting(spark.createDataFrame(ROWS, SCHEMA), tag="odd")
    with pytest.raises(
        Exception, match=r"UNKNOWN_SIDE_OUTPUT.*'odd'; declared are 'even', 'never'"
    ):
        whole.collect()


def test_state_of_the_jvm_form_is_read_and_begun_with(
    spark: SparkSession, java: None, tmp_path: Path
) -> None:
    def build(initial: Any) -> Any:
        fn = pb.JvmFunction(COUNTING)
        options: dict[str, Any] = {"by": "k", "returns": "k string, n bigint", "name": "counting"}
        options |= {"side_outputs": SIDES, "initial_state": initial}
        return lambda df: df.transform(pb.process_keyed, fn, **options)

    start = spark.createDataFrame([("a", 10)], "k string, count bigint")
    stream = Stream(spark, tmp_path, SCHEMA, build(start))
    found = stream.add(("a", 7), ("b", 8)).run()
    assert sorted(row[1:3] for row in found) == [("a", 11), ("b", 1)]

    def stored(name: str, *columns: str) -> Any:
        frame = pb.read_state(spark, stream.checkpoint, "counting", name)
        return sorted(tuple(row) for row in frame.select("key.k", *columns).collect())

    assert stored("count", "value") == [("a", 11), ("b", 1)]
    assert stored("rows", "index", "value.v") == [("a", 0, 7), ("b", 0, 8)]
    again = {name: pb.read_state(spark, stream.checkpoint, 0, name) for name in ("count", "rows")}
    frame = spark.createDataFrame([("a", 1)], SCHEMA)
    even = pb.side_output(build(again)(frame), "even")
    assert [tuple(row) for row in even.collect()] == [(12,)]
