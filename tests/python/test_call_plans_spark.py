"""No plan of Spark multiplies the calls of a ``pb.async_udf``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from call_plans import SCHEMA, materialised, program, rows, written
from spark_support import CallLog, Kept, by_value, run_stream

by_value(__name__)


def counted(log: CallLog) -> pb.AsyncUdf:
    async def score(x: int) -> int:
        log.write("start", key=x)
        return 10 * x

    return pb.async_udf(score, timeout="30s")


# Each with a filter on a result that Spark would move, or a call that it would copy.
KNOWN = [
    ["distinct", "call column", "result", "semi join"],
    ["right join", "call join condition"],
    ["call column", "cache", "result", "call in an expression", "result"],
    ["filter", "last distinct aggregates"],
]
MORE = [
    ["call column", "grouped", "result"],
    ["window", "call filter that shows", "result"],
    ["explode", "call column", "both", "left join"],
    ["join by the argument", "call column", "result", "semi join by the argument"],
    ["last cube"],
    ["computed", "last group"],
]


def check_batch(spark: SparkSession, log: CallLog, df: DataFrame, steps: list[str]) -> None:
    expected, most = materialised(df, steps)
    before = len(log.events("start"))
    found = sorted(written(df, steps, counted(log)).collect(), key=repr)
    made = len(log.events("start")) - before
    assert found == expected, steps
    assert made <= most, (steps, made, most)


def check_stream(
    spark: SparkSession, log: CallLog, folder: Path, steps: list[str], kept: Kept
) -> None:
    expected, most = materialised(spark.read.schema(SCHEMA).parquet(str(folder)), steps)
    before = len(log.events("start"))
    df = written(spark.readStream.schema(SCHEMA).parquet(str(folder)), steps, counted(log))
    run_stream(df, f"{kept.folder}.run", kept)
    made = len(log.events("start")) - before
    assert sorted(kept.rows(), key=repr) == [tuple(row) for row in expected], steps
    assert made <= most, (steps, made, most)


def test_no_plan_makes_more_calls_than_rows_reach_the_expression(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    df = rows(spark, folder)
    for steps in KNOWN:
        check_batch(spark, log, df, steps)
    watermark = ["watermark", "call column", "result"]
    check_stream(spark, log, folder, watermark, Kept(str(tmp_path / "kept")))


def test_neither_does_a_view_that_sql_uses_twice_and_a_filter_on_other_columns_goes_first(
    spark: SparkSession, log: CallLog
) -> None:
    counted(log).register(spark, "pb_counted")
    found = spark.sql("""
        WITH scored AS (SELECT id, pb_counted(id) AS s FROM range(8) WHERE id < 6)
        SELECT a.s, b.s FROM scored a JOIN scored b ON a.id = b.id WHERE a.s > 20
    """)
    assert sorted(found.collect()) == [(10 * i, 10 * i) for i in range(3, 6)]
    assert len(log.events("start")) <= 6
    before = len(log.events("start"))
    spark.range(8).groupBy("id").count().createOrReplaceTempView("grouped")
    few = spark.sql("""
        SELECT id, pb_counted(id) AS s FROM grouped
        WHERE pb_counted(id) > 20 AND id IN (SELECT id FROM range(5)) AND id <> 1
    """)
    assert sorted(few.collect()) == [(3, 30), (4, 40)]
    assert len(log.events("start")) - before == 4


def test_rows_behind_a_limit_are_not_called_for(spark: SparkSession, log: CallLog) -> None:
    top = spark.range(0, 50, 1, 2).orderBy(F.desc("id")).limit(3)
    assert len(top.withColumn("s", counted(log)("id")).where("s > 0").collect()) == 3
    assert len(log.events("start")) == 3


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_random_plans_make_no_more_calls_than_rows_reach_the_expression(
    spark: SparkSession, log: CallLog, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    folder = tmp_path / "in"
    df = rows(spark, folder)
    for steps in [program(dice, is_stream=False) for _ in range(7)] + MORE[seed : seed + 1]:
        check_batch(spark, log, df, steps)
    for number in range(3):
        kept = Kept(str(tmp_path / f"kept{number}"))
        check_stream(spark, log, folder, program(dice, is_stream=True), kept)
