"""The operator inside larger plans: with other operators, under AQE, cached, on any input."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

import pillarbox as pb
from spark_support import CallLog, Latch, by_value, collect_within, explained, threads_are_gone

by_value(__name__)


async def double(row: Any) -> int:
    await asyncio.sleep(0)
    return int(row.id) * 2


def counted(log: CallLog) -> Callable[[Any], Any]:
    async def doubled(row: Any) -> int:
        async with log.call(row.id):
            return int(row.id) * 2

    return doubled


def doubled(df: DataFrame, name: str = "twice", **options: Any) -> DataFrame:
    return df.transform(pb.async_io, double, returns=f"{name} long", engine="jvm", **options)


def pairs(df: DataFrame, name: str = "twice") -> list[tuple[int, int]]:
    return sorted((row["id"], row[name]) for row in df.collect())


def test_operators_can_be_chained(spark: SparkSession) -> None:
    async def add(row: Any) -> int:
        return int(row.id) + int(row.twice)

    chained = doubled(spark.range(200), capacity=7).transform(
        pb.async_io, add, returns="thrice long", engine="jvm", capacity=5
    )
    assert sorted(chained.collect()) == [Row(id=i, twice=2 * i, thrice=3 * i) for i in range(200)]
    threads_are_gone(spark)


def test_a_row_that_is_ready_leaves_though_the_operators_below_wait(
    spark: SparkSession, tmp_path: Path
) -> None:
    async def first_alone(row: Any) -> int:
        if row.id > 0:
            await asyncio.Event().wait()
        return int(row.id)

    async def same(row: Any) -> int:
        return int(row.id)

    rows = spark.range(0, 100, 1, 1).transform(
        pb.async_io, first_alone, returns="a long", engine="jvm", capacity=10
    )
    for name in ("b", "c"):
        rows = rows.transform(pb.async_io, same, returns=f"{name} long", engine="jvm", capacity=5)
    assert rows.where("c >= 0").limit(1).collect() == [(0, 0, 0, 0)]
    threads_are_gone(spark)


def test_a_limit_of_rows_starts_few_calls(spark: SparkSession, log: CallLog) -> None:
    async def twice(row: Any) -> list[int]:
        async with log.call(row.id):
            # Those that are done meanwhile wait for their turn.
            await asyncio.sleep(0 if row.id else 0.3)
            return [int(row.id)] * 2

    rows = spark.range(0, 1000, 1, 1)
    one = rows.transform(pb.async_io, counted(log), returns="x long", engine="jvm")
    two = one.transform(
        pb.async_io, counted(log), returns="y long", engine="jvm", inputs="id", ordered=False
    )
    many = rows.transform(pb.async_io, twice, returns="x long", explode=True, engine="jvm")
    few = rows.transform(
        pb.async_io, twice, returns="x long", explode=True, engine="jvm", capacity=2
    )
    lists = rows.transform(
        pb.async_io,
        sums,
        returns="x long",
        engine="jvm",
        batch_size=pb.BatchSize(10, wait="1 minute"),  # however slow rows come
        explode=True,
    )
    started = 0
    for ask, most in [
        (lambda: one.limit(3).collect(), 3),
        (lambda: one.select((F.col("x") + 1).alias("z")).limit(3).collect(), 3),
        (lambda: one.show(3), 4),  # Spark asks for one more, to say that there are more
        (lambda: one.head(), 1),
        (lambda: two.limit(3).collect(), 6),
        # Three at a time, and one more for each that has left.
        (lambda: many.limit(3).collect(), 5),
        (lambda: few.limit(5).collect(), 8),
    ]:
        ask()
        calls = len(log.events("start"))
        assert 0 < calls - started <= most
        started = calls
    assert one.where("x > 10").limit(2).collect() == [(6, 12), (7, 14)]
    assert lists.limit(3).collect() == [(0, 45), (10, 145), (20, 245)]


async def sums(rows: list[Any]) -> list[list[int]]:
    return [[sum(row.id for row in rows)] if at == 0 else [] for at in range(len(rows))]


@pytest.mark.parametrize("count", [1, 3])
def test_an_operator_may_have_answered_all_rows_before_the_one_above_it_starts(
    spark: SparkSession, engine: str, count: int
) -> None:
    async def same(row: Any) -> int:
        return int(row.id)

    rows = spark.range(0, count, 1, 1)
    for name in "abc":
        rows = rows.transform(pb.async_io, same, returns=f"{name} long", engine=engine)
    assert collect_within(rows, 60) == [(i, i, i, i) for i in range(count)]
    threads_are_gone(spark)


def test_chained_operators_of_which_one_drops_rows_come_to_their_end(spark: SparkSession) -> None:
    async def even(row: Any) -> list[int]:
        await asyncio.sleep(0.001)
        return [] if row.id % 2 else [row.id] * 2

    async def tenfold(row: Any) -> int:
        await asyncio.sleep(0.002)
        return int(row.even) * 10

    rows = (
        spark.range(0, 200, 1, 2)
        .transform(pb.async_io, even, returns="even long", explode=True, engine="jvm", capacity=7)
        .transform(pb.async_io, tenfold, returns="ten long", engine="jvm", capacity=3)
        .where("ten is not null")
    )
    assert [row.ten for row in rows.collect()] == [
        10 * i for i in range(0, 200, 2) for _ in range(2)
    ]


def test_many_operators_share_one_stage(spark: SparkSession) -> None:
    df = spark.range(0, 30, 1, 1)
    for depth in range(5):
        df = doubled(df, f"twice{depth}", ordered=depth % 2 == 0, capacity=3 + depth)
    assert [tuple(row) for row in sorted(df.collect())] == [(i, *[2 * i] * 5) for i in range(30)]
    threads_are_gone(spark)


def test_operators_on_both_sides_of_a_union_and_a_join(spark: SparkSession) -> None:
    left, right = doubled(spark.range(20)), doubled(spark.range(10, 40))
    union = left.union(right)
    assert pairs(union) == sorted([(i, 2 * i) for i in (*range(20), *range(10, 40))])
    joined = left.join(right.withColumnRenamed("twice", "other"), "id")
    assert sorted(joined.collect()) == [Row(id=i, twice=2 * i, other=2 * i) for i in range(10, 20)]


def test_an_enriched_frame_joins_itself(spark: SparkSession) -> None:
    enriched = doubled(spark.range(20))
    joined = enriched.alias("a").join(enriched.alias("b"), F.col("a.id") == F.col("b.twice"))
    found = joined.select("a.id", "a.twice", "b.id", "b.twice").collect()
    assert sorted(map(tuple, found)) == [(2 * i, 4 * i, i, 2 * i) for i in range(10)]


def test_a_cached_frame_is_called_once(spark: SparkSession, log: CallLog) -> None:
    cached = (
        spark.range(50).transform(pb.async_io, counted(log), returns="twice long", engine="jvm")
    ).cache()
    try:
        assert [pairs(cached) for _ in range(2)] == [[(i, 2 * i) for i in range(50)]] * 2
        assert len(log.events("start")) == 50
    finally:
        cached.unpersist(blocking=True)


def test_a_frame_that_runs_again_is_called_again_under_the_same_ids(
    spark: SparkSession, log: CallLog
) -> None:
    enriched = spark.range(50).transform(
        pb.async_io, counted(log), returns="twice long", engine="jvm"
    )
    assert pairs(enriched) == pairs(enriched)
    ids = [record["call_id"] for record in log.events("start")]
    assert len(ids) == 100
    assert len(set(ids)) == 50


def test_shuffles_before_and_after_under_adaptive_execution(
    spark: SparkSession,
) -> None:
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    before = spark.range(1000).groupBy((F.col("id") % 100).alias("id")).count()
    after = doubled(before).groupBy((F.col("twice") % 20).alias("last")).agg(F.sum("count"))
    assert sorted(map(tuple, after.collect())) == [(last, 100) for last in range(0, 20, 2)]


@pytest.mark.classic
@pytest.mark.parametrize(
    "partitioned",
    [lambda df: df.repartition(5), lambda df: df.coalesce(1)],
    ids=["more", "fewer"],
)
def test_any_partitioning_and_it_is_kept(
    spark: SparkSession, partitioned: Callable[[DataFrame], DataFrame]
) -> None:
    before = partitioned(spark.range(40))
    after = doubled(before)
    assert after.rdd.getNumPartitions() == before.rdd.getNumPartitions()
    assert pairs(after) == [(i, 2 * i) for i in range(40)]


def test_no_shuffle_is_added_for_a_group_by_the_key_of_the_input(
    spark: SparkSession,
) -> None:
    plan = doubled(spark.range(10).repartition("id")).groupBy("id").count()
    text = explained(plan)
    assert text.count("Exchange") == 1


def test_the_python_engine_takes_an_exchange_more_as_engines_say(spark: SparkSession) -> None:
    whole = (
        spark.range(10)
        .repartition("id")
        .transform(pb.async_io, double, returns="twice long", engine="python")
    )
    text = explained(whole.groupBy("id").count())
    assert text.count("Exchange") == 2


@pytest.mark.parametrize(
    ("column", "data_type"),
    [
        ("interval '1' year", "interval year"),
        ("make_interval(1)", "interval"),
        ("named_struct('a', 1, 'a', 2)", "struct<a:int,a:int>"),
    ],
)
def test_a_column_that_can_not_travel_passes_by_on_the_jvm_alone(
    spark: SparkSession, column: str, data_type: str
) -> None:
    df = spark.range(2).selectExpr("id", f"{column} AS odd")
    options: dict[str, Any] = {"returns": "twice long", "inputs": ["id"]}
    out = df.transform(pb.async_io, double, engine="jvm", **options)
    assert sorted(row.twice for row in out.select("twice").collect()) == [0, 2]
    with pytest.raises(pb.InvalidSchema) as problem:
        df.transform(pb.async_io, double, engine="python", **options)
    assert 'The column odd of the input, which engine="python" takes whole, has the type ' in str(
        problem.value
    )
    assert data_type in str(problem.value)


def test_empty_partitions_start_no_worker(spark: SparkSession, log: CallLog) -> None:
    async def where(row: Any) -> int:
        log.write("start", key=row.id)
        return int(row.id)

    def enrich(df: DataFrame) -> DataFrame:
        return df.transform(pb.async_io, where, returns="same long", engine="jvm")

    few = spark.range(0, 100, 1, 4).where("id = 5")
    assert [row.same for row in enrich(few).collect()] == [5]
    nothing = spark.range(100).where("id < 0")
    assert enrich(nothing).collect() == []
    assert enrich(spark.createDataFrame([], "id long")).collect() == []
    assert len(log.events("start")) == 1
    threads_are_gone(spark)


def test_columnar_input_from_parquet(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(500).withColumn("text", F.col("id").cast("string")).write.parquet(
        str(tmp_path / "rows")
    )
    stored = spark.read.parquet(str(tmp_path / "rows"))
    assert pairs(doubled(stored)) == [(i, 2 * i) for i in range(500)]


def test_each_part_of_a_random_split_makes_the_calls(spark: SparkSession, log: CallLog) -> None:
    rows = spark.range(0, 20, 1, 1).transform(pb.async_io, counted(log), returns="twice long")
    parts = [part.collect() for part in rows.randomSplit([0.5, 0.5], seed=1)]
    assert sorted(row.twice for part in parts for row in part) == list(range(0, 40, 2))
    assert len(log.events("start")) == 2 * 20


def test_columns_that_nobody_needs_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    async def names(row: Any) -> str:
        return ",".join(row.__fields__)

    spark.range(5).selectExpr("id", "id AS used", "id AS unused").write.parquet(
        str(tmp_path / "wide")
    )
    enriched = spark.read.parquet(str(tmp_path / "wide")).transform(
        pb.async_io, names, returns="seen string", engine="jvm", inputs=["used"]
    )
    assert {row.seen for row in enriched.collect()} == {"used"}
    scan = explained(enriched.select("id", "seen"))
    assert "unused" not in scan


def test_nested_and_rare_types_pass_through_and_come_back(spark: SparkSession) -> None:
    schema = (
        "id long, tags array<string>, sizes map<string,int>, at timestamp, local timestamp_ntz, "
        "day date, price decimal(20,4), inner struct<x: int, y: array<struct<z: double>>>, "
        "raw binary"
    )
    row = (
        1,
        ["a", None],
        {"k": 1},
        datetime.datetime(2013, 1, 1, 5),
        datetime.datetime(2013, 1, 1, 6),
        datetime.date(2013, 1, 1),
        Decimal("12.3456"),
        Row(x=1, y=[Row(z=0.5)]),
        bytearray(b"\x00\x01"),
    )

    async def echo(row: Any) -> tuple[Any, ...]:
        return tuple(row)[1:]

    given = spark.createDataFrame([row, (2, *[None] * 8)], schema)
    returns = StructType(
        [StructField(f"out_{field.name}", field.dataType) for field in given.schema.fields[1:]]
    )
    found = given.transform(pb.async_io, echo, returns=returns, engine="jvm").orderBy("id")
    first, second = found.collect()
    assert tuple(first[1:9]) == tuple(first[9:]) == row[1:]
    assert tuple(second[1:]) == (None,) * 16


@pytest.mark.classic
def test_ordered_keeps_the_order_within_a_partition(spark: SparkSession) -> None:
    async def later_is_faster(row: Any) -> int:
        await asyncio.sleep(0.02 - 0.002 * (row.id % 10))
        return int(row.id)

    df = spark.range(0, 100, 1, 2).transform(
        pb.async_io, later_is_faster, returns="same long", engine="jvm", capacity=30
    )
    parts = df.rdd.glom().collect()
    assert [[row.same for row in part] for part in parts] == [
        list(range(50)),
        list(range(50, 100)),
    ]


def test_unordered_does_not_wait_for_a_slow_head(spark: SparkSession, tmp_path: Path) -> None:
    latch = Latch(str(tmp_path / "latch"))

    async def slow_head(row: Any) -> int:
        if row.id == 0:
            await latch.wait()
        elif row.id == 199:
            # The last row is only called if the rows behind the head leave the operator.
            latch.open()
        return int(row.id)

    df = spark.range(0, 200, 1, 1).transform(
        pb.async_io,
        slow_head,
        returns="same long",
        engine="jvm",
        ordered=False,
        capacity=10,
    )
    answers = [row.same for row in df.collect()]
    assert sorted(answers) == list(range(200))
    assert answers.index(0) > 100


@pytest.mark.classic
def test_a_view_is_read_from_a_session_that_has_never_used_us(
    spark: SparkSession,
) -> None:
    class Count(pb.KeyedProcessFunction):
        def process(self, row: Any, ctx: Any) -> Any:
            yield row.id, 1

    doubled(spark.range(5)).createOrReplaceGlobalTempView("doubled_rows")
    keyed = pb.process_keyed(spark.range(5), Count(), by="id", returns="id long, n long")
    keyed.createOrReplaceGlobalTempView("keyed_rows")
    try:
        other = spark.newSession()
        assert pairs(other.table("global_temp.doubled_rows")) == [(i, 2 * i) for i in range(5)]
        assert sorted(other.table("global_temp.keyed_rows").collect()) == [
            Row(id=i, n=1) for i in range(5)
        ]
    finally:
        for name in ("doubled_rows", "keyed_rows"):
            spark.catalog.dropGlobalTempView(name)
