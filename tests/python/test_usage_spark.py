"""What calls cost, on Spark: the call column, the failed rows again, ``pb.usage``."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from spark_support import CallLog, Latch, as_dict, by_value, eventually, run_stream

by_value(__name__)

CALL = {"returns": "y string", "name": "asking", "call_column": "call"}
METERED = {"retry": 2, "usage": "tokens"}


async def shout(row: Any) -> str:
    return str(row.s).upper()


async def refuse_b(row: Any) -> str:
    if row.s == "b":
        raise pb.NotRetryable("no b")
    return str(row.s).upper()


async def refuse_all(row: Any) -> str:
    raise pb.NotRetryable("none")


async def second_time(row: Any) -> str:
    pb.current_call().report_usage(tokens=2.5)
    if pb.current_call().attempt == 1:
        raise pb.RetryAfter(0.001)
    return str(row.s).upper()


def texts(spark: SparkSession, *texts: str) -> DataFrame:
    return spark.createDataFrame(list(enumerate(texts)), "id bigint, s string").coalesce(1)


def told(df: DataFrame) -> list[tuple[Any, ...]]:
    return [(row.s, row.y, row.call.attempts, row.call.from_journal) for row in df.collect()]


def test_rows_that_share_a_call_sum_up_to_what_was_made(spark: SparkSession) -> None:
    seen: set[str] = set()

    async def after_b(row: Any) -> str:
        seen.add(row.s)
        while "b" not in seen:
            await asyncio.sleep(0.005)
        return str(row.s).upper()

    rows = texts(spark, "a", "a", "b")
    df = rows.transform(pb.async_io, after_b, inputs="s", share_calls=True, call_key="s", **CALL)
    assert told(df) == [("a", "A", 1, False), ("a", "A", 0, False), ("b", "B", 1, False)]
    ids = [row.call.call_id for row in df.collect()]
    assert ids[0] == ids[1] != ids[2]
    assert [tuple(row) for row in pb.usage(df).collect()] == [("asking", 4, 4, 0, 0, 0, 2, 0, {})]


def test_rows_tell_that_the_journal_had_their_answer(spark: SparkSession, tmp_path: Path) -> None:
    df = texts(spark, "a", "b")
    asked = {**CALL, "inputs": "s", "journal": str(tmp_path / "journal")}
    first = df.transform(pb.async_io, shout, **asked)
    assert told(first) == [("a", "A", 1, False), ("b", "B", 1, False)]
    again = df.transform(pb.async_io, shout, **asked)
    assert told(again) == [("a", "A", 0, True), ("b", "B", 0, True)]
    assert {row.call.elapsed_ms for row in again.collect()} == {0}
    assert [tuple(row) for row in pb.usage(again).collect()] == [
        ("asking", 0, 0, 0, 0, 4, 0, 0, {})
    ]


def test_rows_that_a_budget_kept_from_a_call_have_no_attempt(spark: SparkSession) -> None:
    spent = {"budget": pb.Budget(max_calls=1, on_exceeded="skip"), "on_error": "column"}
    df = texts(spark, "a", "b").transform(pb.async_io, shout, **spent, **CALL).cache()
    assert told(df) == [("a", "A", 1, False), ("b", None, 0, False)]
    assert [row.s for row in pb.failed(df).collect()] == ["b"]


def test_failed_rows_have_the_input_s_columns_and_are_fed_in_again(
    spark: SparkSession, engine: str, tmp_path: Path
) -> None:
    df = texts(spark, "a", "b", "c")
    asked = {"returns": "y string", "on_error": "column", "call_column": "call", "engine": engine}
    df.transform(pb.async_io, refuse_b, **asked).write.parquet(str(tmp_path / "out"))
    out = spark.read.parquet(str(tmp_path / "out"))
    failed = pb.failed(out)
    assert [tuple(row) for row in failed.collect()] == [(1, "b")]
    assert failed.schema == df.schema
    again = failed.transform(pb.async_io, shout, **asked).collect()
    assert [(row.s, row.y, row.error) for row in again] == [("b", "B", None)]
    good = pb.succeeded(out)
    assert good.columns == ["id", "s", "y", "call"]
    assert sorted(row.s for row in good.collect()) == ["a", "c"]
    changed = out.withColumnRenamed("error", "why").withColumn("more", out.id + 1)
    assert [tuple(row) for row in pb.failed(changed).collect()] == [(1, "b")]


def test_failed_rows_of_an_input_with_a_name_twice_have_both_columns(
    spark: SparkSession, engine: str
) -> None:
    left, right = texts(spark, "a", "b"), texts(spark, "A", "B").withColumnRenamed("id", "ID")
    asked = {"returns": "y string", "on_error": "column", "engine": engine}
    joined = left.join(right, left.id == right.ID)
    out = joined.transform(pb.async_io, refuse_all, **asked)
    failed = pb.failed(out)
    assert failed.schema == joined.schema
    assert sorted(map(tuple, failed.collect())) == [(0, "a", 0, "A"), (1, "b", 1, "B")]
    assert failed.transform(pb.async_io, refuse_all, **asked).columns == out.columns
    assert pb.succeeded(out).collect() == []
    again = out.select("*", out.y.alias("s"))
    with pytest.raises(pb.InvalidOption, match=r"AMBIGUOUS_COLUMN.*has 3 of that name"):
        pb.failed(again)


def test_the_error_column_is_known_beside_another_of_its_name(spark: SparkSession) -> None:
    df = texts(spark, "a", "b")
    logs = df.select("id", F.lit("a log").alias("error"))
    out = df.transform(pb.async_io, refuse_b, returns="y string", on_error="column")
    both = logs.join(out, logs.id == out.id).drop(logs.id)
    assert [tuple(row) for row in pb.failed(both).collect()] == [(1, "b")]
    good = pb.succeeded(both)
    assert (good.columns, len(good.collect())) == (["error", "id", "s", "y"], 1)


def test_failed_rows_that_can_t_be_told_are_refused_with_a_remedy(
    spark: SparkSession, engine: str
) -> None:
    df = texts(spark, "a", "b")
    asked = {"returns": "y string", "engine": engine}
    with pytest.raises(pb.InvalidOption, match=r"has no error column that pb\.async_io has added"):
        pb.failed(df.transform(pb.async_io, refuse_b, **asked))
    out = df.transform(pb.async_io, refuse_b, on_error="column", **asked)
    with pytest.raises(pb.InvalidOption, match="names the column id, but there is only s, y"):
        pb.failed(out.drop("id"))
    with pytest.raises(pb.InvalidOption, match="no error column 'nothing'"):
        pb.succeeded(out, column="nothing")
    both = out.transform(
        pb.async_io, shout, returns="z string", on_error=pb.ErrorColumn("e2"), engine=engine
    )
    with pytest.raises(pb.InvalidOption, match="several error columns: 'error', 'e2'"):
        pb.failed(both)
    assert pb.failed(both, column="e2").columns == ["id", "s", "y", "error"]
    assert pb.failed(both, column="error").columns == ["id", "s"]


def bill(of: Any) -> dict[str, Any]:
    (row,) = pb.usage(of).collect()
    return row.asDict()


def test_usage_of_a_frame_is_that_of_its_actions_while_they_run_and_after(
    spark: SparkSession, tmp_path: Path
) -> None:
    latch = Latch(str(tmp_path / "latch"))

    async def wait(row: Any) -> str:
        await latch.wait()
        return await second_time(row)

    df = texts(spark, "a", "b").transform(
        pb.async_io, wait, returns="y string", name="waiting", **METERED
    )
    none = bill(df)
    assert none == {
        **dict.fromkeys(("calls", "rows", "retries", "rate_limited", "from_journal", "shared"), 0),
        **{"operator": "waiting", "limit_wait_ms": 0, "usage": {}},
    }
    action = threading.Thread(target=df.where("id = 0 OR id = 1").collect)
    action.start()
    eventually(lambda: bill(df)["calls"] == 2, "a bill of calls that run")
    latch.open()
    action.join()
    assert bill(df) == {
        **none,
        "calls": 4,
        "rows": 4,
        "retries": 2,
        "rate_limited": 2,
        "usage": {"tokens": 10},
    }
    df.collect()
    twice = {"calls": 8, "rows": 8, "retries": 4, "rate_limited": 4, "usage": {"tokens": 20}}
    assert bill(df.select("y")) == {**none, **twice}
    with pytest.raises(pb.InvalidOption, match=r"has no pb\.async_io, pb\.async_udf"):
        pb.usage(spark.range(1))


def test_calls_are_what_the_service_sees_and_rows_beside_them(
    spark: SparkSession, log: CallLog
) -> None:
    async def ask(rows: list[Any]) -> list[int]:
        log.write("start", key=rows[0].id)
        pb.current_call().report_usage(usd=[0.5] * len(rows))
        return [row.id for row in rows]

    asked = {"returns": "n long", "name": "asking", "call_column": "call", "batch_size": 30}
    halves = spark.range(0, 100, 1, 1).withColumn("half", F.col("id") < 50)
    df = halves.transform(pb.async_io, ask, **asked).cache()
    assert df.count() == 100
    found = bill(df)
    assert (found["calls"], found["rows"]) == (len(log.events("start")), 100)
    assert 4 <= found["calls"] <= 10
    (by,) = pb.usage(df, by="half").where("half").collect()
    assert (by.calls, by.retries, by.rows, by.usage) == (None, None, 50, {"usd": 25.0})


def test_what_calls_report_without_a_declaration_is_paid_for_once_and_counted(
    spark: SparkSession, tmp_path: Path, log: CallLog
) -> None:
    async def ask(row: Any) -> str:
        async with log.call(row.id):
            pb.current_call().report_usage(usd=0.25, tokens="a few")
            return str(row.s).upper()

    asked = {**CALL, "inputs": ["id", "s"], "journal": str(tmp_path / "journal")}
    df = texts(spark, "a", "b").transform(pb.async_io, ask, **asked)
    assert {row.call.usage["usd"] for row in df.collect()} == {0.25}
    assert bill(df)["usage"] == {"usd": 0.5}
    kept = pb.read_journal(spark, str(tmp_path / "journal"))
    assert [row.usage for row in kept.collect()] == [{"tokens": 0.0, "usd": 0.25}] * 2
    assert len(df.collect()) == len(log.events("start")) == 2


def test_calls_in_expressions_have_a_bill(spark: SparkSession) -> None:
    @pb.async_udf(returns="string", name="shouting", usage="tokens")
    async def loud(text: str) -> str:
        pb.current_call().report_usage(tokens=len(text))
        return text.upper()

    df = texts(spark, "a", "bc").withColumn("y", loud("s"))
    assert bill(df)["calls"] == 0
    assert [row.y for row in df.collect()] == ["A", "BC"]
    found = bill(df)
    assert (found["operator"], found["calls"], found["usage"]) == ("shouting", 2, {"tokens": 3})


def test_calls_of_tasks_that_failed_are_in_the_bill(spark: SparkSession) -> None:
    df = texts(spark, "a", "b").transform(pb.async_io, refuse_b, returns="y string", ordered=True)
    with pytest.raises(Exception, match="no b"):
        df.collect()
    assert bill(df)["calls"] == 2


@pytest.mark.parametrize("carried", [False, True])
def test_usage_of_a_query_is_that_of_its_operators(
    spark: SparkSession, tmp_path: Path, carried: bool
) -> None:
    texts(spark, "a", "b").write.parquet(str(tmp_path / "in"))
    asked: dict[str, Any] = {"timeout": "1 minute", "carry_over": carried, **METERED, **CALL}
    stream = spark.readStream.schema("id bigint, s string").parquet(str(tmp_path / "in"))
    called = stream.transform(pb.async_io, second_time, **asked)
    query = run_stream(called, tmp_path, "parquet")
    told_of = bill(query)
    assert (told_of["operator"], told_of["calls"], told_of["rate_limited"]) == ("asking", 4, 2)
    assert told_of["usage"] == {"tokens": 10}
    assert figures(query.recentProgress, carried) == (2, 0, 0, 10)
    rows = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(told(rows)) == [("a", "A", 2, False), ("b", "B", 2, False)]
    assert [row.call.usage for row in rows.collect()] == [{"tokens": 5}] * 2


def figures(progress: list[Any], carried: bool) -> tuple[int, ...]:
    """The sums over micro-batches."""
    batches = [
        one.stateOperators[0].customMetrics if carried else as_dict(one.observedMetrics["asking"])
        for one in progress
    ]
    names = ("numRateLimited", "numShared", "limitWaitMs", "usage.tokens")
    return tuple(sum(batch[name] for batch in batches) for name in names)


def test_usage_by_a_column_is_read_from_rows(spark: SparkSession, tmp_path: Path) -> None:
    df = texts(spark, "a", "b", "a").transform(pb.async_io, second_time, **METERED, **CALL)
    with pytest.raises(pb.InvalidOption, match="would make the calls again"):
        pb.usage(df, by="s")
    df.write.parquet(str(tmp_path / "out"))
    out = spark.read.parquet(str(tmp_path / "out"))
    rows = pb.usage(out, by="s").orderBy("s").collect()
    assert [tuple(row) for row in rows] == [
        ("asking", "a", 4, 4, 2, None, 0, None, None, {"tokens": 10}),
        ("asking", "b", 2, 2, 1, None, 0, None, None, {"tokens": 5}),
    ]
    with pytest.raises(pb.InvalidOption, match="has none that is known"):
        pb.usage(out.drop("call"), by="s")
    with pytest.raises(pb.InvalidOption, match=r"by must be no column of pb\.usage itself"):
        pb.usage(out.withColumnRenamed("s", "Calls"), by="calls")


def test_an_estimate_pays_for_a_sample_whose_answers_the_journal_keeps(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = CallLog(str(tmp_path / "calls"))

    async def ask(row: Any) -> str:
        log.write("start", key=row.id)
        pb.current_call().report_usage(tokens=3)
        return str(row.id)

    df = spark.range(0, 50, 1, 4)
    asked = {**CALL, "usage": "tokens", "journal": str(tmp_path / "journal"), "capacity": 5}
    found = pb.estimate(df, ask, sample=10, **asked)
    assert len(log.events("start")) == 10
    assert (found.rows, found.sample, found.failed, found.calls) == (50, 10, 0.0, 40)
    assert found.usage == {"tokens": 120.0}
    assert found.spread == {"calls": (40, 40), "tokens": (120, 120)}
    assert len(df.transform(pb.async_io, ask, **asked).collect()) == 50
    assert sorted(one["key"] for one in log.events("start")) == list(range(50))
    budget = pb.Budget(max_calls=3, on_exceeded="skip")
    spent = {**asked, "journal": None, "on_error": "column", "budget": budget}
    with pytest.raises(Exception, match="BUDGET_EXCEEDED"):
        pb.estimate(df, ask, sample=10, **spent)


def test_an_estimate_counts_failed_rows_under_every_option(
    spark: SparkSession, engine: str
) -> None:
    df = texts(spark, "a", "b", "a", "b")
    found = pb.estimate(df, refuse_b, returns="y string", explode=False, engine=engine)
    assert (found.rows, found.sample, found.failed, found.calls) == (4, 4, 0.5, 4)
    assert pb.estimate(df.limit(0), refuse_b, returns="y string", engine=engine).calls == 0
    with pytest.raises(pb.InvalidOption, match=r"pb\.estimate has no option samples.*is sample"):
        pb.estimate(df, refuse_b, returns="y string", samples=3)
    with pytest.raises(pb.InvalidSchema, match="call_column"):
        pb.estimate(df, refuse_b, returns="y string", call_column=df.columns[0])
    with pytest.raises(pb.InvalidOption, match=r"explode.*pb\.usage"):
        pb.estimate(df, refuse_b, returns="y string", explode=True, engine=engine)
