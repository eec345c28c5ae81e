"""Asynchronous calls in column expressions and in SQL, on Spark."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import pillarbox as pb
from spark_support import CallLog, Kept, by_value, is_connect, run_stream

by_value(__name__)


def keys(log: CallLog) -> list[Any]:
    return sorted(event["key"] for event in log.events("start"))


async def twice(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


def logged(log: CallLog, **options: Any) -> pb.AsyncUdf:
    async def score(x: int) -> int:
        async with log.call(x):
            await asyncio.sleep(0.02)
            return 10 * x

    return pb.async_udf(score, **options)


def test_a_call_is_an_expression_wherever_a_udf_of_spark_is(spark: SparkSession) -> None:
    double = pb.async_udf(twice)
    spark_udf = F.udf(lambda x: x + 1, LongType())
    df = spark.range(6)
    assert df.select(double("id")).columns == ["twice(id)"]
    chosen = df.select(
        "id",
        double("id").alias("a"),
        double(F.col("id") + 1).alias("b"),
        (double("id") + double(spark_udf(double("id"))) - 1).alias("c"),
        spark_udf("id").alias("d"),
        F.when(F.col("id") > 2, double(x="id")).alias("e"),
    )
    assert chosen.collect() == [
        Row(id=i, a=2 * i, b=2 * i + 2, c=2 * i + 2 * (2 * i + 1) - 1, d=i + 1,
            e=2 * i if i > 2 else None)
        for i in range(6)
    ]  # fmt: skip


# f and g are functions of ours in one run, and of Spark in the other.
QUERIES = """
SELECT (SELECT max(f(id)) FROM t)
SELECT id FROM t WHERE id IN (SELECT f(id) div 10 + 1 FROM u)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE f(u.id) = t.id * 10)
SELECT id, (SELECT max(f(u.id)) FROM u WHERE u.id = t.id) FROM t
SELECT id, sum(f(id)) OVER (PARTITION BY id % 2 ORDER BY f(id)) FROM t
SELECT id, e FROM t LATERAL VIEW explode(g(id)) x AS e
SELECT explode(g(f(id))) FROM t
SELECT f(id) FROM t UNION ALL SELECT f(k) FROM u
SELECT DISTINCT f(id % 2) FROM t
SELECT id % 2, sum(f(id)), max(f(id % 2)) FROM t GROUP BY id % 2 HAVING sum(f(id)) > 30
SELECT count(DISTINCT f(id)) FROM t
WITH c AS (SELECT id, f(id) AS s FROM t) SELECT a.s, b.s FROM c a JOIN c b ON a.id = b.id
SELECT t.id, u.k FROM t LEFT JOIN u ON f(t.id) = f(u.id)
SELECT t.id, u.k FROM t JOIN u ON f(t.id + u.id) = 30
SELECT coalesce(f(null), f(id)), CASE WHEN id > 2 THEN f(id) ELSE f(-id) END FROM t
SELECT * FROM (SELECT id, f(id) s FROM t) PIVOT (sum(s) FOR id IN (1, 2))
SELECT transform(array(id), x -> f(x)) FROM t
SELECT f(spark_f(f(id))) + spark_f(f(id)) FROM t
SELECT f(id) FROM t ORDER BY f(-id) LIMIT 2
SELECT id FROM t WHERE f(id) > 10 OR f(id + 1) < 5
SELECT f(5), f(null)
SELECT * FROM t, LATERAL (SELECT f(t.id) AS z) WHERE z > 20
SELECT grouping_id(), f(k), count(*) FROM u GROUP BY CUBE(f(k))
SELECT id FROM t WHERE NOT (f(id) IN (10, 20, null))
SELECT max_by(id, f(id)), array_sort(array_agg(f(id))) FROM t
SELECT * FROM VALUES (1L), (2L) AS v(x) WHERE f(x) > 10
SELECT f(cast(id AS int)) FROM t
""".strip().splitlines()


def ten_times(x: int) -> int | None:
    return None if x is None else 10 * x


def with_next(x: int) -> list[int]:
    return [x, x + 1]


@pytest.mark.nightly
def test_a_call_may_be_wherever_a_udf_of_spark_may_be(spark: SparkSession) -> None:
    pb.async_udf(ten_times).register(spark, "ours_f")
    pb.async_udf(with_next).register(spark, "ours_g")
    spark.udf.register("spark_f", ten_times, "long")
    spark.udf.register("spark_g", with_next, "array<long>")
    spark.range(6).createOrReplaceTempView("t")
    spark.sql("SELECT id, id % 2 AS k FROM range(4)").createOrReplaceTempView("u")

    def found(query: str, whose: str) -> Any:
        query = re.sub(r"\b([fg])\(", rf"{whose}_\1(", query)
        try:
            return sorted(repr(tuple(row)) for row in spark.sql(query).collect())
        except AnalysisException as refusal:
            return refusal.getCondition(), f"{whose}_f" in str(refusal)

    for query in QUERIES:
        assert found(query, "ours") == found(query, "spark"), query


def test_an_equal_call_is_made_once_and_only_for_rows_that_are_left(
    spark: SparkSession, log: CallLog
) -> None:
    score = logged(log)
    scored = spark.range(20).withColumn("s", score("id"))
    found = scored.filter((F.col("s") > 50) & (F.col("id") % 3 == 0)).select(
        "id", "s", score(x="id")
    )
    assert found.collect() == [(i, 10 * i, 10 * i) for i in (6, 9, 12, 15, 18)]
    assert keys(log) == [0, 3, 6, 9, 12, 15, 18]
    assert scored.select("id").count() == 20
    assert len(keys(log)) == 7


BELOW: dict[str, Callable[[DataFrame], DataFrame]] = {
    "computed": lambda df: df.withColumn("x", F.col("x") + 1 - 1),
    "coalesce": lambda df: df.coalesce(1),
    "repartition": lambda df: (
        df.repartition(2).withColumnRenamed("x", "y").withColumn("x", F.col("y"))
    ),
    "join": lambda df: df.join(df.sparkSession.range(2, 9), "id"),
    "right join": lambda df: df.sparkSession.range(2, 4).join(df, "id", "right"),
    "left join": lambda df: df.join(df.sparkSession.range(2, 4), "id", "left"),
    "anti join": lambda df: df.join(df.sparkSession.range(4, 5), "id", "anti"),
}


def test_a_filter_that_spark_moves_below_is_called_for_once(
    spark: SparkSession, log: CallLog
) -> None:
    score = logged(log)
    pairs = spark.createDataFrame([(i, i) for i in range(6)], "id bigint, x bigint")
    for what, below in BELOW.items():
        rows = below(pairs)
        before = len(keys(log))
        found = rows.withColumn("s", score("x")).filter("s > 10").collect()
        left = sorted(row.x for row in rows.collect() if row.x > 1)
        assert sorted((row.x, row.s) for row in found) == [(i, 10 * i) for i in left], what
        assert len(keys(log)) - before <= 6, what


def test_a_nested_call_that_is_made_already_is_found_too(spark: SparkSession, log: CallLog) -> None:
    outer, inner = logged(log), pb.async_udf(twice)
    nested = spark.range(4).withColumn("s", outer(inner("id")))
    assert nested.filter("s > 20").select("s", inner("id")).collect() == [(40, 4), (60, 6)]
    assert keys(log) == [0, 2, 4, 6]


def test_a_function_that_is_not_deterministic_is_called_where_it_stands(
    spark: SparkSession, log: CallLog
) -> None:
    score = logged(log).asNondeterministic()
    chosen = spark.range(6).withColumn("s", score("id")).filter("id > 3 and s > 40")
    assert chosen.collect() == [(5, 50)]
    assert keys(log) == [0, 1, 2, 3, 4, 5]


def test_limits_hold_over_all_uses_and_ids_are_of_each_use(
    spark: SparkSession, log: CallLog
) -> None:
    score = logged(log, limit=pb.Limit(concurrency=2))
    both = spark.range(0, 12, 1, 2).select(score("id").alias("a"), score(F.col("id") + 1))
    assert both.collect() == [(10 * i, 10 * i + 10) for i in range(12)]
    assert log.most_in_flight() <= 2
    ids = [event["call_id"] for event in log.events("start")]
    assert len(ids) == len(set(ids)) == 24


def test_ids_are_the_same_when_aqe_plans_again_and_when_the_frame_runs_again(
    spark: SparkSession, log: CallLog
) -> None:
    scored = spark.range(8).repartition(4, "id").withColumn("s", logged(log)("id"))
    other = spark.range(8).withColumnRenamed("id", "other").repartition(3, "other")
    joined = scored.join(other, F.col("id") == F.col("other"))
    for _ in range(2):
        assert len(joined.collect()) == 8
    ids = [event["call_id"] for event in log.events("start")]
    assert len(set(ids[:8])) == len(set(ids[8:])) == 8
    # A server plans a DataFrame for each action.
    assert (sorted(ids[:8]) == sorted(ids[8:])) == (not is_connect(spark))


def test_a_limit_leaves_few_rows_to_call_for(spark: SparkSession, log: CallLog) -> None:
    scored = spark.range(0, 1000, 1, 1).withColumn("s", logged(log, capacity=5)("id"))
    assert len(scored.limit(3).collect()) == 3
    assert keys(log) == [0, 1, 2]
    assert scored.filter("s > 10").limit(3).collect() == [(2, 20), (3, 30), (4, 40)]
    called = [event["key"] for event in log.events("start")][3:]
    assert len(called) == len(set(called)) <= 15


def test_equal_arguments_in_flight_share_a_call(spark: SparkSession, log: CallLog) -> None:
    score = logged(log, share_calls=True)
    rows = spark.range(0, 40, 1, 1).select(score(F.col("id") % 2).alias("s"))
    assert [row.s for row in rows.collect()] == [0, 10] * 20
    assert len(keys(log)) <= 4


def test_with_batch_size_a_call_gets_a_list_of_each_column(
    spark: SparkSession, log: CallLog
) -> None:
    async def added(xs: list[int], ys: list[int | None]) -> list[int | None]:
        log.write("start", key=len(xs))
        assert isinstance(xs, list)
        return [None if y is None else x + y for x, y in zip(xs, ys, strict=True)]

    def in_threads(xs: list[int]) -> list[int]:
        return [10 * x for x in xs]

    rows = spark.range(0, 20, 1, 1).withColumn("y", F.when(F.col("id") != 3, F.col("id") + 1))
    batch = pb.BatchSize(8, wait="10 seconds")
    plus, ten = pb.async_udf(added, batch_size=batch), pb.async_udf(in_threads, batch_size=3)
    found = rows.select(plus("id", ys="y").alias("s"), ten("id").alias("t")).collect()
    assert found == [Row(s=None if i == 3 else 2 * i + 1, t=10 * i) for i in range(20)]
    assert sorted(keys(log)) == [4, 8, 8]
    short = pb.async_udf(lambda xs: xs[1:], returns="long", batch_size=5, name="short")
    with pytest.raises(Exception, match=r"async_udf\(short\)"):
        rows.select(short("id")).collect()


def test_a_journal_keeps_answers_however_the_call_is_written(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    kept = pb.Journal(tmp_path / "journal", ttl="1 day")
    score = logged(log, journal=kept, name="score")
    rows = spark.range(0, 6, 1, 2)
    expected = [(10 * i,) for i in range(6)]
    assert rows.select(score("id")).collect() == expected
    # Other columns, expressions, queries and objects; in the function's own terms the same calls.
    again = logged(log, journal=kept, name="score")
    again.register(spark, "pb_kept")
    assert rows.toDF("other").select(again("other")).collect() == expected
    assert rows.select(again(F.col("id") + 1 - 1).alias("s")).collect() == expected
    assert spark.sql("SELECT pb_kept(id * 1) FROM range(6) WHERE pb_kept(id) >= 0").count() == 6
    assert keys(log) == list(range(6))
    ids = {event["call_id"] for event in log.events("start")}
    assert len(ids) == 6
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)
    assert rows.select(again(F.col("id").cast("int"))).collect() == expected
    newer = logged(log, journal=pb.Journal(kept.path, version="2"), name="score")
    assert rows.select(newer("id")).collect() == expected
    assert len(keys(log)) == 18


@pytest.mark.parametrize("kind", ["map('a', 1, 'b', 2)", "array(map('a', 1))", "parse_json('1')"])
def test_what_can_not_be_compared_names_no_call(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    async def size(x: Any) -> int:
        return 1

    sized = pb.async_udf(size, name="size", journal=tmp_path / "journal")
    with pytest.raises(Exception, match="ARGUMENT_NOT_COMPARABLE"):
        spark.range(1).select(sized(F.expr(kind))).collect()


def test_a_journal_in_the_checkpoint_is_for_streams(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    score = logged(log, journal=True, name="score")
    with pytest.raises(Exception, match="journal=True is for streaming queries"):
        spark.range(1).select(score("id")).collect()
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    spark.range(3).coalesce(1).write.parquet(str(source))
    stream = spark.readStream.schema("id long").parquet(str(source))
    run_stream(stream.select(score("id").alias("s")), tmp_path)
    assert keys(log) == [0, 1, 2]
    assert list((checkpoint / "pillarbox-journal").rglob("*.calls"))


@dataclass
class Weather:
    temp: float
    wind: float | None


@asynccontextmanager
async def client() -> AsyncIterator[dict[str, float]]:
    yield {"JFK": 3.5}


@pb.async_udf(resource=client, on_error="column", timeout="20s")
async def weather(http: dict[str, float], origin: str, hour: int) -> Weather:
    return Weather(http[origin] + hour, None)


def test_several_columns_are_a_struct_and_an_error_is_one_beside_it(spark: SparkSession) -> None:
    df = spark.createDataFrame([("JFK", 1), ("EWR", 2)], "origin string, hour int")
    good, bad = df.select(weather("origin", "hour").alias("w")).select("w.*").collect()
    assert good == Row(value=Row(temp=4.5, wind=None), error=None)
    assert bad.value is None
    assert (bad.error.kind, bad.error.attempts) == ("KeyError", 1)
    assert df.filter(weather("origin", "hour").value.temp > 4).count() == 1

    def pair(x: int) -> Any:
        return {"a": x, "b": str(x), "left_out": 1} if x else None

    both = pb.async_udf(pair, returns="a long, b string")
    found = spark.range(2).select(both("id").alias("p")).collect()
    assert found == [Row(p=None), Row(p=Row(a=1, b="1"))]


def test_a_registered_function_is_one_of_sql(spark: SparkSession, log: CallLog) -> None:
    score = logged(log)
    score.register(spark, "pb_score")
    spark.udf.register("pb_weather", weather)
    spark.sql("CREATE OR REPLACE TEMP VIEW numbers AS SELECT id, 'JFK' AS origin FROM range(6)")
    found = spark.sql(
        "SELECT id, pb_score(id) + 1 AS s FROM numbers WHERE pb_score(id) > 30 AND id < 5"
    )
    assert found.collect() == [Row(id=4, s=41)]
    assert keys(log) == [0, 1, 2, 3, 4]
    hours = spark.sql("SELECT pb_weather(origin, cast(id AS int)).value.temp AS t FROM numbers")
    assert [row.t for row in hours.collect()] == [3.5 + i for i in range(6)]


def test_a_function_without_arguments_and_one_of_odd_types(spark: SparkSession) -> None:
    async def now() -> str:
        return "now"

    def listed(values: list[int], pairs: dict[str, float]) -> list[str]:
        return [*map(str, values), *pairs]

    df = spark.sql("SELECT array(1L, 2L) AS a, map('x', 1.5D) AS m")
    found = df.select(pb.async_udf(now)(), pb.async_udf(listed)("a", pairs="m").alias("l"))
    assert found.collect() == [("now", ["1", "2", "x"])]


def test_a_large_function_is_called_too(spark: SparkSession) -> None:
    table = list(range(400_000))

    async def look_up(x: int) -> int:
        return table[x]

    assert spark.range(3).select(pb.async_udf(look_up)("id")).collect() == [(0,), (1,), (2,)]


def test_errors_name_the_function(spark: SparkSession) -> None:
    async def broken(x: int) -> int:
        raise KeyError(f"no {x}")

    with pytest.raises(Exception, match=r"async_udf\(broken\).*no 0") as raised:
        spark.range(1).select(pb.async_udf(broken, name="broken")("id")).collect()
    failed = pb.failure_of(raised.value)
    assert failed is not None
    assert failed.operator == "async_udf(broken)"
    pb.async_udf(twice, name="pb_twice").register(spark)
    with pytest.raises(Exception, match=r"twice\(x: 'int'\) -> 'int' can't be called as pb_twice"):
        spark.sql("SELECT pb_twice(1L, 2L)").collect()
    with pytest.raises(AnalysisException, match="twice"):
        spark.range(1).select(F.transform(F.array("id"), pb.async_udf(twice))).collect()


def test_calls_in_a_stream_have_ids_of_their_micro_batch(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    kept = Kept(str(tmp_path / "kept"))
    source, checkpoint = tmp_path / "in", str(tmp_path / "checkpoint")
    spark.range(4).coalesce(1).write.parquet(str(source))
    rows = spark.readStream.schema("id long").parquet(str(source))

    def run() -> list[str]:
        score = logged(log)
        scored = rows.withColumn("s", score("id")).filter("s >= 20").withColumn("t", score("s"))
        run_stream(scored, tmp_path, kept)
        return [event["call_id"] for event in log.events("start")]

    first = run()
    assert kept.rows() == [(2, 20, 200), (3, 30, 300)]
    assert len(set(first)) == 6
    Path(checkpoint, "commits", "0").unlink()
    Path(checkpoint, "commits", ".0.crc").unlink(missing_ok=True)
    assert sorted(run()[6:]) == sorted(first)


@pytest.mark.classic
def test_calls_in_foreach_batch_have_ids_of_their_micro_batch(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "in", str(tmp_path / "checkpoint")
    spark.range(4).coalesce(1).write.parquet(str(source))
    rows = spark.readStream.schema("id long").parquet(str(source))

    def run() -> list[str]:
        before = len(log.events("start"))
        score = logged(log, name="score")

        def calls(batch: DataFrame, number: int) -> None:
            batch.count()
            kept = batch.select("id", score("id").alias("s")).persist()
            assert kept.count() == len(kept.collect()) == 4
            kept.unpersist()
            left, right = (
                batch.select(score("id").alias("k")),
                batch.select((score("id")).alias("k")),
            )
            assert left.join(right.hint("broadcast"), "k").count() == 4

        run_stream(rows, tmp_path, calls)
        return sorted(event["call_id"] for event in log.events("start")[before:])

    first = run()
    assert len(set(first)) == len(first) == 12
    Path(checkpoint, "commits", "0").unlink()
    Path(checkpoint, "commits", ".0.crc").unlink(missing_ok=True)
    assert run() == first


def test_a_function_that_can_t_travel_is_named(spark: SparkSession) -> None:
    async def look_up(x: int) -> int:
        return int(spark.range(x).count())

    for use in (lambda udf: udf("id"), lambda udf: udf.register(spark)):
        with pytest.raises(pb.InvalidFunction, match=r"NOT_PICKLABLE.*look_up.*SparkSession"):
            use(pb.async_udf(look_up))


@pytest.mark.classic
def test_it_takes_broadcasts_and_accumulators_and_is_pickled_once(spark: SparkSession) -> None:
    table = spark.sparkContext.broadcast([5, 6, 7])
    seen = spark.sparkContext.accumulator(0)

    async def look_up(x: int) -> int:
        seen.add(1)
        return int(table.value[x])

    udf = pb.async_udf(look_up)
    other = spark.newSession()
    assert other.range(3).select(udf("id")).collect() == [(5,), (6,), (7,)]
    assert seen.value == 3
    assert udf._udf(spark) is udf._udf(other)


@pytest.mark.nightly
def test_a_session_without_the_jar_says_so_at_the_first_use_and_in_sql() -> None:
    script = """
import pillarbox as pb
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
@pb.async_udf
async def score(x: int) -> int: return x
for use in (score, lambda _: score.register(spark)):
    try: use("id")
    except pb.EngineUnavailable as refusal: print("told:", refusal)
spark.udf.register("score", score)
try: spark.sql("SELECT score(1L)").collect()
except Exception as failure: print("worker:", failure)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert len(re.findall(r"told: \[ENGINE_UNAVAILABLE\].*pb\.configure", ran.stdout)) == 2, ran
    worker = ran.stdout.partition("worker:")[2]
    assert re.search(r"score is a pb.async_udf.*Pillarbox jar.*pb\.configure", worker), ran


@pytest.mark.classic
def test_spark_s_own_worker_says_what_is_missing(spark: SparkSession) -> None:
    numbers = spark.sparkContext.parallelize([1], 1)
    with pytest.raises(Exception, match=r"twice is a pb.async_udf.*pb.configure"):
        numbers.map(pb.async_udf(twice).func).collect()
