"""Limits, budgets and the bill of calls that keyed functions make, on Spark."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.streams import Stream, settings
from pillarbox.testing import FakeService
from spark_support import CallLog, by_value, explained, run_stream

by_value(__name__)

RETURNS = "id bigint, n bigint"


class Calls(pb.AsyncKeyedProcessFunction):
    """Counts the rows of a key, with a call for each."""

    def __init__(self, call: Callable[[Any], Any], log: CallLog | None = None) -> None:
        self.call, self.log = call, log

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")
        if self.log is not None:
            self.log.write("opened")

    async def process(self, row: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        await self.call(row)
        return {"id": row.id, "n": n}


def keyed(df: DataFrame, call: Callable[[Any], Any], **options: Any) -> DataFrame:
    returns, function = options.pop("returns", RETURNS), Calls(call, options.pop("log", None))
    return df.transform(pb.process_keyed_async, function, by="id", returns=returns, **options)


def logging(log: CallLog, seconds: float = 0.01, **usage: float) -> Callable[[Any], Any]:
    async def call(row: Any) -> None:
        async with log.call(row.id):
            await asyncio.sleep(seconds)
            if usage:
                pb.current_call().report_usage(**usage)

    return call


def asking(url: str, who: str) -> Callable[[Any], Any]:
    def ask(number: int) -> Any:
        request = urllib.request.Request(url, json.dumps([who, number]).encode(), method="POST")
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    async def call(row: Any) -> Any:
        try:
            used = await asyncio.to_thread(ask, row.id)
        except urllib.error.HTTPError as refused:
            pb.current_call().report_usage(tokens=1)
            raise pb.RetryAfter(0.01) if refused.code == 429 else refused from None
        pb.current_call().report_usage(tokens=used)
        return row.id

    return call


def bill(df: DataFrame) -> dict[str, Any]:
    (row,) = pb.usage(df).collect()
    return row.asDict()


def test_a_service_with_a_cap_refuses_nothing_while_both_kinds_of_calls_share_its_limit(
    spark: SparkSession,
) -> None:
    starts: list[float] = []
    refused: list[Any] = []
    lock = threading.Lock()

    def answer(request: Any) -> int:
        with lock:
            now = time.monotonic()
            starts.append(now)
            if sum(at > now - 1 for at in starts) > 66 or service.most_in_flight > 4:
                refused.append(request)
                raise urllib.error.HTTPError("", 429, "", {}, None)  # type: ignore[arg-type]
        return 3

    service = FakeService(answer, latency="10ms")
    limits = [pb.Limit(concurrency=4, name="of it"), pb.Limit(per_second=60, name="its rate")]
    options = {"limit": limits, "capacity": 30, "usage": "tokens", "retry": 5}
    with service.serve() as url, ThreadPoolExecutor(2) as threads:
        rows = spark.range(0, 90, 1, 1)
        plain = rows.transform(pb.async_io, asking(url, "plain"), returns="x bigint", **options)
        ours = keyed(rows, asking(url, "keyed"), **options)
        done = [threads.submit(df.collect) for df in (plain, ours)]
        assert [len(one.result(60)) for one in done] == [90, 90]
    assert refused == []
    assert service.most_in_flight <= 4
    # Both at once: neither waits for the end of the other.
    assert min(Counter(who for who, _ in service.calls[:120]).values()) > 25
    assert len(service.calls) == 180


@pytest.mark.connect
def test_the_bill_is_what_the_service_has_counted(spark: SparkSession) -> None:
    script = [429, None, 503, None, None, 429] + [None] * 3
    service = FakeService(lambda request: request[1] + 0.5, script=script)
    with service.serve() as url:
        out = keyed(
            spark.range(0, 40, 1, 2),
            asking(url, "keyed"),
            usage="tokens",
            retry=pb.Retry(4, on=Exception, backoff="1ms"),
            name="counted",
        )
        assert len(out.collect()) == 40
        calls = len(service.calls)
    assert calls == 43
    found = bill(out)
    assert found.pop("limit_wait_ms") == 0
    assert found == {
        "operator": "counted",
        "calls": calls,
        "rows": calls,
        "retries": 3,
        "rate_limited": 3,
        "from_journal": 0,
        "shared": 0,
        "usage": {"tokens": 3 + sum(range(40)) + 20.0},
    }


@pytest.mark.connect
def test_a_column_tells_who_has_paid(spark: SparkSession, log: CallLog) -> None:
    out = keyed(
        spark.range(0, 9, 1, 2).selectExpr("id % 3 AS id"),
        logging(log, tokens=2.0),
        usage="tokens",
        call_column="call",
        name="paying",
    ).cache()
    assert {row.call.attempts for row in out.collect()} == {1}
    told = pb.usage(out, by="id").select("operator", "id", "calls", "usage").orderBy("id").collect()
    assert [tuple(row) for row in told] == [("paying", n, 3, {"tokens": 6.0}) for n in range(3)]
    out.unpersist()


def test_calls_of_tasks_that_failed_are_in_the_bill(spark: SparkSession, log: CallLog) -> None:
    async def call(row: Any) -> None:
        log.write("start", key=row.id)
        pb.current_call().report_usage(usd=0.25)
        if len(log.events("start")) > 7:
            raise ValueError("too many")

    out = keyed(spark.range(0, 30, 1, 1), call, usage="usd", capacity=1)
    with pytest.raises(PythonException, match="too many"):
        out.collect()
    found = bill(out)
    assert (found["calls"], found["usage"]) == (8, {"usd": 2.0})


def test_what_a_call_uses_while_it_is_cancelled_is_in_the_bill(spark: SparkSession) -> None:
    async def call(row: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)  # the row has failed, and is the last one
            pb.current_call().report_usage(tokens=7)

    out = keyed(spark.range(1), call, usage="tokens", timeout="50ms", on_error="null")
    assert [row.n for row in out.collect()] == [None]
    assert bill(out)["usage"] == {"tokens": 7.0}


@pytest.mark.connect
def test_what_calls_use_is_limited_by_an_expression_over_columns_that_they_do_not_see(
    spark: SparkSession, log: CallLog
) -> None:
    df = spark.range(0, 12, 1, 1).selectExpr("id", "repeat('x', 400) AS prompt")
    limit = [
        pb.Limit(concurrency=50, per_second=500),
        pb.Limit(per_second=1000, unit="tokens", estimate="length(prompt) / 2"),
    ]
    out = keyed(df, logging(log, tokens=200), limit=limit, inputs="id", log=log)
    assert sorted(row.id for row in out.collect()) == list(range(12))
    # 200 tokens a call at 1,000 a second, the first at once, and as much as one call early.
    assert all(at >= 0.2 * (i - 1) - 0.05 for i, at in enumerate(log.since_open()))
    assert bill(out)["limit_wait_ms"] > 1000


def test_a_call_that_could_never_begin_is_the_error_of_its_row(
    spark: SparkSession, log: CallLog
) -> None:
    estimate = "CASE id WHEN 2 THEN 1001 WHEN 3 THEN NULL ELSE 4 / (4 - id) END"
    limit = pb.Limit(per_second=1000, unit="tokens", estimate=estimate)
    options = {"limit": limit, "retry": 3}
    df = spark.range(0, 5, 1, 1)
    out = keyed(df, logging(log, tokens=1), on_error="column", **options)
    rows = sorted(out.collect(), key=lambda row: row.id)
    assert [row.n for row in rows] == [1, 1, None, None, None]
    assert [row.error and row.error.kind for row in rows] == [
        None, None, "ESTIMATE_ABOVE_LIMIT", "ESTIMATE_NO_AMOUNT", "ESTIMATE_NO_AMOUNT",
    ]  # fmt: skip
    assert "DIVIDE_BY_ZERO" in rows[4].error.message
    assert "1001 tokens, and the limit is per_second=1000" in rows[2].error.message
    assert {record["key"] for record in log.events("start")} == {0, 1}
    with pytest.raises(PythonException) as raised:
        keyed(df, logging(log, tokens=1), **options).collect()
    failure = pb.failure_of(raised.value)
    assert failure is not None
    assert failure.condition in ("ESTIMATE_ABOVE_LIMIT", "ESTIMATE_NO_AMOUNT")
    assert failure.operator == "process_keyed(Calls)"


def test_an_estimate_that_is_no_number_is_refused_before_any_work(
    spark: SparkSession, log: CallLog
) -> None:
    for estimate in ("nothing", "current_user()", "sum(id)", "1/0"):
        limit = pb.Limit(per_second=1, unit="tokens", estimate=estimate)
        with pytest.raises(pb.InvalidOption, match="ESTIMATE_EXPRESSION"):
            keyed(spark.range(3), logging(log), limit=limit)
    assert log.events() == []


def test_limits_of_one_name_agree(spark: SparkSession, log: CallLog) -> None:
    first = keyed(spark.range(1), logging(log), limit=pb.Limit(concurrency=3, name="agreed"))
    first.collect()
    other = spark.range(1).transform(
        pb.async_io, logging(log), returns="x int", limit=pb.Limit(concurrency=4, name="agreed")
    )
    with pytest.raises(PythonException, match="NAMED_LIMITS_DIFFER") as refused:
        other.collect()
    assert "process_keyed(Calls)" in str(refused.value)


def test_a_worker_that_is_killed_gives_back_what_its_calls_had(
    spark: SparkSession, log: CallLog
) -> None:
    async def dies(row: Any) -> None:
        log.write("start", key=row.id)
        os.kill(os.getpid(), signal.SIGKILL)

    options = {"limit": pb.Limit(concurrency=1, name="only one")}
    with pytest.raises(PythonException, match="PYTHON_WORKER_DIED"):
        keyed(spark.range(0, 5, 1, 1), dies, **options).collect()
    done = keyed(spark.range(0, 5, 1, 2), logging(log), **options).collect()
    assert len(done) == 5


@pytest.mark.parametrize("scope", ["task", "executor", "query"])
def test_each_scope_holds(spark: SparkSession, log: CallLog, scope: Any) -> None:
    df = spark.range(0, 40, 1, 2)
    limit = pb.Limit(concurrency=2, scope=scope)
    assert len(keyed(df, logging(log, 0.02), limit=limit, capacity=15).collect()) == 40
    most = log.most_in_flight()
    assert most == 2 if scope != "task" else 2 < most <= 2 * spark_partitions(spark)
    assert f"limit=(concurrency=2 scope={scope})" in explained(keyed(df, print, limit=limit))


def spark_partitions(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions", "2"))


def kinds(df: DataFrame) -> dict[str | None, int]:
    return {row.kind: row["count"] for row in df.groupBy("error.kind").count().collect()}


@pytest.mark.connect
def test_calls_stop_at_the_budget_and_the_other_rows_are_told(
    spark: SparkSession, log: CallLog
) -> None:
    budget = pb.Budget(max_calls=77, on_exceeded="skip")
    rows = keyed(
        spark.range(0, 300, 1, 2), logging(log), on_error="column", capacity=20, budget=budget
    ).collect()
    assert sum(row.error is None for row in rows) == len(log.events("start")) == 77
    told = {(row.error.kind, row.error.attempts) for row in rows if row.error is not None}
    assert told == {("BUDGET_EXCEEDED", 0)}
    message = next(row.error.message for row in rows if row.error is not None)
    assert "max_calls=77 calls have begun" in message


@pytest.mark.parametrize("on_error", ["raise", "null"])
def test_a_budget_that_is_spent_fails_the_job(
    spark: SparkSession, log: CallLog, on_error: Any
) -> None:
    out = keyed(
        spark.range(0, 100, 1, 2), logging(log), budget=pb.Budget(max_calls=30), on_error=on_error
    )
    # Of two tasks the one that hears it first may end the job before the other has begun its calls.
    with (
        settings(spark, **{"spark.sql.shuffle.partitions": "1"}),
        pytest.raises(PythonException) as raised,
    ):
        out.collect()
    failure = pb.failure_of(raised.value)
    assert failure is not None
    assert (failure.condition, failure.operator) == ("BUDGET_EXCEEDED", "process_keyed(Calls)")
    assert len(log.events("start")) == 30


def test_what_calls_report_is_bounded_and_a_service_that_is_down_ends_the_job(
    spark: SparkSession, log: CallLog
) -> None:
    budget = pb.Budget(max_usage={"tokens": 700}, on_exceeded="skip")
    options = {"on_error": "column", "capacity": 5, "budget": budget}
    out = keyed(spark.range(0, 300, 1, 1), logging(log, tokens=7), **options)
    assert kinds(out) == {None: 100, "BUDGET_EXCEEDED": 200}

    async def fails(row: Any) -> None:
        log.write("failed", key=row.id)
        raise ConnectionError("down")

    failed = pb.Budget(max_failed=0.02)
    with pytest.raises(PythonException, match=r"rows have failed, and max_failed is 0.02"):
        keyed(spark.range(0, 9000, 1, 2), fails, on_error="null", budget=failed).collect()
    assert 100 <= len(log.events("failed")) < 1000


def test_failed_rows_count_when_no_call_is_left_to_begin(spark: SparkSession) -> None:
    async def fails(row: Any) -> None:
        raise ConnectionError("down")

    def outcome(most: int, **options: Any) -> list[Any]:
        budget = pb.Budget(max_failed=most)
        rows = spark.range(0, 20, 1, 2)
        return keyed(rows, fails, on_error="null", budget=budget, **options).collect()

    with pytest.raises(PythonException, match=r"rows have failed, and max_failed is 5"):
        outcome(5)
    assert len(outcome(20)) == 20


def test_retries_that_never_begin_are_not_counted(spark: SparkSession) -> None:
    async def fails(row: Any) -> None:
        raise ConnectionError("down")

    options = {"retry": pb.Retry(4, backoff="10s"), "timeout": "100ms", "on_error": "null"}
    out = keyed(spark.range(0, 10, 1, 2), fails, **options)
    assert len(out.collect()) == 10
    (bill,) = pb.usage(out).collect()
    assert (bill.calls, bill.retries) == (10, 0)


def test_the_budget_of_a_stream_is_kept_in_its_checkpoint(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    def build(df: DataFrame) -> DataFrame:
        budget = pb.Budget(max_calls=10, on_exceeded="skip")
        return keyed(df, logging(log), on_error="null", budget=budget, name="kept")

    stream = Stream(spark, tmp_path, "id bigint", build)
    for first in (0, 4, 8, 12):
        stream.add(*((n,) for n in range(first, first + 4)))
        stream.run()
    assert len(log.events("start")) == 10


def test_counts_of_calls_are_in_the_progress_of_a_stream(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    spark.range(1, 4, 1, 1).write.parquet(str(tmp_path / "in"))
    limit = pb.Limit(concurrency=1)
    rows = spark.readStream.schema("id bigint").parquet(str(tmp_path / "in"))
    calls = logging(log, 0.05, tokens=2.0)
    query = run_stream(keyed(rows, calls, usage="tokens", limit=limit), tmp_path / "own")
    (operator,) = query.recentProgress[0].stateOperators
    found = operator.customMetrics
    assert (found["numCalls"], found["numErrors"], found["usage.tokens"]) == (3, 0, 6)
    (row,) = pb.usage(query).collect()
    assert (row.operator, row.calls, row.usage) == ("Calls", 3, {"tokens": 6.0})
