"""``ctx.key`` of every type that has equality: rows, columns, the JVM, scan, and the harness."""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

import pillarbox as pb
from keyed.java_functions import COUNTING, add_counting
from keyed.streams import Stream
from pillarbox.testing import KeyedHarness
from spark_support import created, process_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])

NOON = dt.datetime(2024, 6, 1, 12, 30, 15, 123456)

# Each with values that are different keys; some are written in two ways that are one key.
KEYS: dict[str, list[list[Any]]] = {
    "boolean": [[True], [False], [None]],
    "tinyint": [[1], [-1], [None]],
    "smallint": [[1], [-1], [None]],
    "int": [[1], [-1], [None]],
    "bigint": [[1], [-(2**63)], [None]],
    "float": [[0.0, -0.0], [float("nan")], [1.5], [None]],
    "double": [[0.0, -0.0], [float("nan"), -float("nan")], [1.5], [None]],
    "decimal(5,2)": [[Decimal("1.5"), Decimal("1.50")], [Decimal("-999.99")], [None]],
    "decimal(38,10)": [[Decimal("1.5")], [Decimal("1.6")], [None]],
    "string": [[""], ["żółw"], [None]],
    "binary": [[b""], [b"a\0b", bytearray(b"a\0b")], [None]],
    "date": [[NOON.date()], [dt.date(1, 1, 1)], [None]],
    "timestamp": [[NOON], [NOON + dt.timedelta(microseconds=1)], [None]],
    "timestamp_ntz": [[NOON], [NOON + dt.timedelta(microseconds=1)], [None]],
    "interval day to second": [[dt.timedelta(days=-1)], [dt.timedelta(0)], [None]],
    "time": [[dt.time(1, 2, 3, 4)], [dt.time(0)], [None]],
    "array<int>": [[[]], [[1, None]], [[1]], [None]],
    "array<struct<a:string>>": [[[Row(a="x")]], [[None]], [None]],
    "struct<a:string,b:int>": [[Row(a="x", b=1)], [Row(a="x", b=None)], [Row(a=None, b=1)], [None]],
    "struct<a:string>": [[Row(a="x")], [Row(a=None)], [None]],
    "struct<a:double>": [[Row(a=0.0), Row(a=-0.0)], [Row(a=float("nan"))], [None]],
    "struct<a:struct<b:array<string>>,c:timestamp>": [
        [Row(a=Row(b=["x"]), c=NOON)],
        [Row(a=Row(b=None), c=NOON)],
        [Row(a=None, c=None)],
        [None],
    ],
    "struct<start:timestamp,end:timestamp>": [[Row(start=NOON, end=NOON)], [None]],
}  # fmt: skip


class Rows(pb.KeyedProcessFunction):
    """The key and the count of each row, and the key once more from a timer."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        ctx.timers.register_event_time(1)
        yield ctx.key, self.n.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield {"key": ctx.key, "n": -1}


class Columns(pb.ArrowKeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        ctx.value_state("n", "bigint")

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        n = pb.columns.running_count(state.index, state["n"])
        state["n"] = pb.columns.group_last(n, state.index, state["n"])
        return {"key": state.keys.take(pb.columns.pa.array(state.index)), "n": n}


@pytest.fixture(scope="module")
def java(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    add_counting(spark, tmp_path_factory.mktemp("java"))


def values(kind: str) -> list[Any]:
    """Every value twice, those of different keys by turns."""
    return [value for _ in range(2) for same in KEYS[kind] for value in same]


def expected(kind: str) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for same in KEYS[kind]:
        counts.update((comparable(same[0]), n + 1) for n in range(2 * len(same)))
    return counts


def timers_of(kind: str) -> Counter[Any]:
    return Counter((comparable(same[0]), -1) for same in KEYS[kind])


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(map(comparable, value.values()))
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, (list, tuple)):
        return tuple(map(comparable, value))
    return bytes(value) if isinstance(value, bytearray) else value


def found(df: DataFrame) -> Counter[Any]:
    rows = df.toArrow().to_pylist()
    return Counter((comparable(row["key"]), row["n"]) for row in rows)


@pytest.fixture
def keyed(spark: SparkSession, java: None) -> Any:
    """Runs a function by the key column, ``v`` beside it."""

    def run(kind: str, fn: Any, **more: Any) -> DataFrame:
        schema = t.StructType.fromDDL(f"k {kind}, v bigint")
        rows = [(value, 1) for value in values(kind)]
        df = created(spark, rows, schema)
        options = {"by": "k", "returns": f"key {kind}, n bigint", **more}
        return df.transform(process_of(fn), fn, **options)

    return run


def test_a_key_of_all_types_at_once_is_the_same_in_every_form(
    spark: SparkSession, java: None
) -> None:
    """A column a type. All but one of them are null in a row."""
    columns = [f"c{number}" for number in range(len(KEYS))]
    fields = ",".join(f"{name}:{kind}" for name, kind in zip(columns, KEYS, strict=True))
    key = t.StructType.fromDDL(f"key struct<{fields}>")["key"].dataType
    rows = [
        [None] * number + [value] + [None] * (len(KEYS) - number - 1)
        for number, kind in enumerate(KEYS)
        for value in values(kind)
    ]
    df = created(spark, rows, key)
    # A value that is written in two ways is one key, which is told as the first of them.
    first = {}
    for kind, classes in KEYS.items():
        first |= {(kind, repr(one)): same[0] for same in classes for one in same}
    counts: Counter[Any] = Counter()
    for row in rows:
        told = [first[kind, repr(value)] for kind, value in zip(KEYS, row, strict=True)]
        counts[comparable(told)] += 1
    wanted = Counter({(of, n + 1): 1 for of, count in counts.items() for n in range(count)})
    options = {"by": columns, "returns": f"key struct<{fields}>, n bigint"}
    timers = Counter({(of, -1): 1 for of in counts})
    assert found(pb.process_keyed(df, Rows(), **options)) == wanted + timers
    assert found(pb.process_keyed_arrow(df, Columns(), **options)) == wanted
    select = [f"struct({','.join(columns)}) AS key", "n"]
    assert found(pb.scan(df, by=columns, state={"n": ("0L", "n + 1")}, select=select)) == wanted
    one = df.select(F.struct(*columns).alias("k"), F.lit(1).cast("bigint").alias("v"))
    sides = {"even": "n bigint"}
    jvm = pb.process_keyed(
        one, pb.JvmFunction(COUNTING), **{**options, "by": "k"}, side_outputs=sides
    )
    odd = Counter({one: 1 for one in wanted if one[1] % 2})
    assert found(pb.main_output(jvm)) == odd


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_any_type_is_the_same_in_every_form(keyed: Any, kind: str) -> None:
    assert found(keyed(kind, Rows())) == expected(kind) + timers_of(kind)
    assert found(keyed(kind, Columns())) == expected(kind)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_any_type_is_the_same_without_python(
    spark: SparkSession, keyed: Any, kind: str
) -> None:
    odd = Counter({key: n for key, n in expected(kind).items() if key[1] % 2})
    jvm = keyed(kind, pb.JvmFunction(COUNTING), side_outputs={"even": "n bigint"})
    assert found(pb.main_output(jvm)) == odd
    schema = t.StructType.fromDDL(f"k {kind}, v bigint")
    df = created(spark, [(v, 1) for v in values(kind)], schema)
    scanned = pb.scan(df, by="k", state={"n": ("0L", "n + 1")}, select=["k AS key", "n"])
    assert found(scanned) == expected(kind)


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_any_type_is_the_same_in_the_harness(kind: str) -> None:
    harness = KeyedHarness(Rows(), by="k", schema=f"k {kind}", returns=f"key {kind}, n bigint")
    rows = harness.run_batch([(value,) for value in values(kind)])
    assert Counter((comparable(row.key), row.n) for row in rows) == expected(kind) + timers_of(kind)


class Shape(pb.KeyedProcessFunction):
    def process(self, row: Any, ctx: Any) -> Any:
        yield repr(ctx.key)


@pytest.mark.parametrize(
    ("kind", "by", "shown"),
    [
        ("struct<a:string>", "k", "Row(a='x')"),
        ("struct<a:string,b:int>", "k", "Row(a='x', b=1)"),
        ("struct<a:string>", ["k"], "Row(a='x')"),
        ("struct<a:string>", ["k", "v"], "Row(k=Row(a='x'), v=1)"),
        ("array<struct<a:string>>", "k", "[Row(a='x')]"),
    ],
)
def test_a_key_is_the_same_object_in_spark_and_in_the_harness(
    keyed: Any, kind: str, by: Any, shown: str
) -> None:
    first = KEYS[kind][0][0]
    harness = KeyedHarness(Shape(), by=by, schema=f"k {kind}, v bigint", returns="shape string")
    assert harness.process((first, 1))[0].shape == shown
    shapes = {row.shape for row in keyed(kind, Shape(), by=by, returns="shape string").collect()}
    assert shown in shapes


def test_a_window_is_a_key_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("v")).withWatermark("ts", "0 seconds")
        windowed = timed.select(F.window("ts", "10 seconds").alias("w"), "v")
        returns = "key struct<start:timestamp,end:timestamp>, n bigint"
        out = windowed.transform(pb.process_keyed, Rows(), by="w", returns=returns)
        return out.selectExpr("unix_millis(key.start) AS start", "unix_millis(key.end) AS end", "n")

    stream = Stream(spark, tmp_path, "v bigint", build)
    rows = stream.add((1000,), (2000,), (11000,)).add((12000,), (21000,)).run()
    windows = {0: [1, 2, -1], 10: [1, 2, -1], 20: [1, -1]}
    assert Counter(rows) == Counter(
        (start * 1000, start * 1000 + 10_000, n) for start, ns in windows.items() for n in ns
    )
