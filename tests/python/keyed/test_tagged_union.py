"""``tagged_union``: its columns, what it refuses, and the order of its rows on the harness."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

import pillarbox as pb
from keyed.tagged_orders import (
    RETURNS,
    TAGS,
    Item,
    Numbers,
    by_micro_batch,
    by_time,
    items,
    seen_by,
    sorted_by,
)  # fmt: skip
from pillarbox._keyed.output import SIDE_OUTPUT
from pillarbox._keyed.tagged import TAGS as ALL_TAGS
from pillarbox._keyed.tagged import TIME
from pillarbox.testing import KeyedHarness

OWN = t.StructType(
    [
        t.StructField("k", t.StringType()),
        t.StructField("minute", t.LongType()),
        t.StructField("step", t.IntegerType()),
        t.StructField("id", t.IntegerType()),
        t.StructField("at", t.TimestampType()),
    ]
)


def union_schema() -> t.StructType:
    """The schema of the union of three inputs of the columns ``OWN``."""
    return t.StructType(
        [
            t.StructField("tag", t.StringType(), False, {ALL_TAGS: list(TAGS)}),
            t.StructField("k", t.StringType()),
            t.StructField("at", t.TimestampType(), True, {TIME: True}),
            *[t.StructField(tag, OWN, True, {SIDE_OUTPUT: True}) for tag in TAGS],
        ]
    )


def union_row(item: Item) -> dict[str, Any]:
    own = {"k": item.k, "minute": item.minute, "step": item.step, "id": item.id, "at": item.at}
    empty = dict.fromkeys(TAGS)
    return {"tag": item.tag, "k": item.k, "at": item.at, **empty, item.tag: own}


@pytest.mark.parametrize("time_sorted", [False, True])
def test_the_harness_sorts_the_rows_as_spark_does(time_sorted: bool) -> None:
    rows = items(Random(7))
    harness = KeyedHarness(
        Numbers(), by="k", schema=union_schema(), returns=RETURNS, time_sorted=time_sorted
    )
    batch = harness.run_batch([union_row(item) for item in rows])
    assert seen_by(by_time, rows, batch) == sorted_by(by_time, rows)
    emitted = []
    for step in range(3):
        own = [union_row(item) for item in rows if item.step == step]
        emitted += harness.run_micro_batch(own)
    emitted += harness.advance_watermark(rows[0].at.replace(year=2030))
    order = by_time if time_sorted else by_micro_batch
    assert seen_by(order, rows, emitted) == sorted_by(order, rows)


class Passing(pb.KeyedProcessFunction):
    def process(self, row: Any, ctx: Any) -> Any:
        yield row.k, 1


class WithTimers(Passing):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return None


class WithTtl(Passing):
    def open(self, ctx: Any) -> None:
        ctx.value_state("n", "long", ttl=pb.StateTtl("1 hour", time_domain="event_time"))


@pytest.mark.parametrize(
    ("function", "options", "count"),
    [(Passing(), {}, 1), (WithTimers(), {}, 0), (WithTtl(), {}, 0),
     (Passing(), {"timestamp": "at"}, 0), (Passing(), {"time_sorted": True}, 0)],
)  # fmt: skip
def test_the_harness_drops_late_rows_where_spark_does(
    function: Any, options: dict[str, Any], count: int
) -> None:
    (item,) = items(Random(9), count=1, steps=1)
    harness = KeyedHarness(
        function, by="k", schema=union_schema(), returns="k string, n int", **options
    )
    harness.advance_watermark(item.at.replace(year=2030))
    assert len(harness.run_micro_batch([union_row(item)])) == count


def test_order_by_comes_before_the_inputs_and_instead_of_the_time() -> None:
    rows = items(Random(8), count=30, steps=1)
    schema = union_schema().add(t.StructField("odd", t.BooleanType()))
    harness = KeyedHarness(Numbers(), by="k", schema=schema, returns=RETURNS, order_by="odd")
    told = harness.run_batch([union_row(item) | {"odd": item.id % 2 == 1} for item in rows])

    def place(item: Item) -> tuple[int, ...]:
        return item.id % 2, TAGS.index(item.tag)

    assert seen_by(place, rows, told) == sorted_by(place, rows)


@pytest.fixture
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    one = spark.range(2).selectExpr(
        "concat('k', id) AS account", "timestamp_seconds(id) AS at", "id AS amount"
    )
    two = spark.range(1).selectExpr("'p' AS `the.key`", "timestamp_seconds(9) AS paid", "2D AS sum")
    return {"orders": one, "payments": two}


BY = {"orders": "account", "payments": "the.key"}
TIMES = {"orders": "at", "payments": "paid"}


def test_it_has_the_columns_of_side_outputs(frames: dict[str, DataFrame]) -> None:
    both = pb.tagged_union(frames, by=BY, timestamp=TIMES)
    assert [(field.name, field.dataType.simpleString()) for field in both.schema] == [
        ("tag", "string"),
        ("account", "string"),
        ("at", "timestamp"),
        ("orders", "struct<account:string,at:timestamp,amount:bigint>"),
        ("payments", "struct<the.key:string,paid:timestamp,sum:double>"),
    ]
    rows = both.selectExpr("tag", "account", "unix_seconds(at)", "orders.amount", "payments.sum")
    assert sorted(map(tuple, rows.collect())) == [
        ("orders", "k0", 0, 0, None), ("orders", "k1", 1, 1, None), ("payments", "p", 9, None, 2.0),
    ]  # fmt: skip
    for tag, df in frames.items():
        assert pb.side_output(both, tag).schema.names == df.schema.names
        assert pb.side_output(both, tag).collect() == df.collect()


def test_names_that_agree_are_given_once_and_keys_may_be_several(
    frames: dict[str, DataFrame],
) -> None:
    orders = frames["orders"]
    keys = {"a": ["account", "amount"], "b": ["account", "n"]}
    inputs = {"a": orders, "b": orders.withColumnRenamed("amount", "n")}
    both = pb.tagged_union(inputs, by=keys, timestamp="at")
    assert both.columns == ["tag", "account", "amount", "at", "a", "b"]
    # The very same DataFrame may be two inputs.
    twice = pb.tagged_union({"a": orders, "b": orders}, by="account", timestamp="at")
    assert twice.groupBy("tag").count().orderBy("tag").collect() == [("a", 2), ("b", 2)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": {}}, "inputs must be a dict of DataFrames by tag"),
        ({"inputs": ["orders"]}, "inputs must be a dict of DataFrames by tag"),
        ({"inputs": {"orders": 1}}, "inputs['orders'] must be a DataFrame"),
        ({"inputs": {"late": 1}}, "a tag of inputs must be another one than main, late, error"),
        ({"inputs": {"": 1}}, "a tag of inputs must be a name"),
        (
            {"by": {"orders": ["account", "x"]}},
            "Pass by={'orders': ['account', 'x'], 'payments': 'key'}",
        ),
        ({"by": {**BY, "rates": "k"}}, "an entry for each of orders, payments"),
        ({"by": 1}, "by must be the name of a column"),
        ({"by": "account"}, "by['payments'] names the column account, but there is only the.key"),
        ({"by": {**BY, "orders": ["account", "amount"]}}, "TAGGED_UNION_KEYS"),
        ({"by": {"orders": "amount", "payments": "sum"}}, "orders.amount is bigint, and payments."),
        ({"timestamp": 5}, "timestamp must be a name"),
        ({"timestamp": {**TIMES, "payments": "sum"}}, "TIMESTAMP_TYPE"),
        ({"timestamp": {"orders": "t"}}, "Pass timestamp={'orders': 't', 'payments': 'at'}"),
        ({"time": "at"}, "Meant is timestamp, the name of a column."),
    ],
    ids=str,
)
def test_arguments_are_refused(
    frames: dict[str, DataFrame], change: dict[str, Any], message: str
) -> None:
    options: dict[str, Any] = {"inputs": frames, "by": BY, "timestamp": TIMES, **change}
    with pytest.raises(pb.PillarboxError) as refused:
        pb.tagged_union(options.pop("inputs"), **options)
    assert message in str(refused.value)


def test_types_that_differ_are_named_with_the_cast_to_write(frames: dict[str, DataFrame]) -> None:
    without_zone = frames["payments"].withColumn("paid", F.col("paid").cast("timestamp_ntz"))
    with pytest.raises(pb.InvalidSchema) as refused:
        pb.tagged_union({**frames, "payments": without_zone}, by=BY, timestamp=TIMES)
    assert (
        "timestamp names columns of different types: orders.at is timestamp, and payments.paid is "
        "timestamp_ntz." in str(refused.value)
    )
    assert "payments.withColumn('paid', F.col('paid').cast('timestamp'))" in str(refused.value)
    numbers = frames["payments"].withColumn("the.key", F.lit(5))
    with pytest.raises(pb.InvalidSchema) as refused:
        pb.tagged_union({**frames, "payments": numbers}, by=BY, timestamp=TIMES)
    remedy = re.search(r"Cast one of them before: (.*)\.$", str(refused.value))
    assert remedy is not None
    cast = eval(remedy[1], {"payments": numbers, "F": F})
    assert pb.tagged_union({**frames, "payments": cast}, by=BY, timestamp=TIMES).count() == 3


@pytest.mark.parametrize(
    ("by", "tags"),
    [("tag", ("a", "b")), ("k", ("a", "tag")), ("k", ("a", "K")), ("k", ("at", "b"))],
    ids=str,
)
def test_names_that_would_come_twice_are_refused(
    spark: SparkSession, by: str, tags: tuple[str, str]
) -> None:
    one = spark.range(1).selectExpr(f"id AS {by}", "timestamp_seconds(id) AS at")
    with pytest.raises(pb.InvalidSchema, match="OUTPUT_NAME_CLASH"):
        pb.tagged_union(dict.fromkeys(tags, one), by=by, timestamp="at")


def test_columns_of_one_name_and_maps_as_keys_are_refused(frames: dict[str, DataFrame]) -> None:
    orders = frames["orders"]
    double = orders.select("*", F.lit(1).alias("amount"))
    with pytest.raises(pb.InvalidSchema, match="UNSUPPORTED_TYPE"):
        pb.tagged_union({"a": double, "b": orders}, by="account", timestamp="at")
    mapped = orders.withColumn("account", F.create_map(F.lit(1), F.lit(2)))
    with pytest.raises(pb.InvalidSchema, match="NOT_COMPARABLE"):
        pb.tagged_union({"a": mapped}, by="account", timestamp="at")


def test_a_batch_and_a_stream_or_one_watermark_of_two_are_refused(
    spark: SparkSession, frames: dict[str, DataFrame]
) -> None:
    stream = spark.readStream.format("rate").load()
    ticks = stream.selectExpr("'k' AS account", "timestamp AS at", "value AS amount")
    inputs = {"orders": frames["orders"], "ticks": ticks}
    with pytest.raises(
        pb.InvalidOption, match="The input ticks is a stream, and orders is a batch"
    ):
        pb.tagged_union(inputs, by="account", timestamp="at")
    inputs = {"ticks": ticks, "marked": ticks.withWatermark("at", "1 minute")}
    with pytest.raises(pb.InvalidOption, match=r"Call ticks.withWatermark\('at', delay\)"):
        pb.tagged_union(inputs, by="account", timestamp="at")
