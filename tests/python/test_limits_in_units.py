"""Limits in what calls use: charged by an estimate, settled by what they report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import pillarbox as pb
from spark_support import CallLog, by_value, run_stream, using

by_value(__name__)

TOKENS: dict[str, Any] = {"per_second": 1000, "unit": "tokens"}


@pytest.mark.parametrize("scope", ["query", "executor", "task"])
def test_calls_wait_for_what_they_will_use(spark: SparkSession, log: CallLog, scope: Any) -> None:
    df = spark.range(0, 12, 1, 1).selectExpr("id", "repeat('x', 400) AS prompt")
    done = df.transform(
        pb.async_io,
        using(log, 200),
        returns="same long",
        limit=[
            pb.Limit(concurrency=50, per_second=500, scope=scope),
            pb.Limit(**TOKENS, estimate="length(prompt) / 2", scope=scope),
        ],
        resource=log.opened,
    )
    assert sorted(row.same for row in done.collect()) == list(range(12))
    # 200 tokens a call at 1,000 a second, the first at once, and as much as one call early.
    assert all(at >= 0.2 * (i - 1) - 0.05 for i, at in enumerate(log.since_open()))


def test_what_is_not_used_is_given_back_and_without_an_estimate_the_mean_is_charged(
    spark: SparkSession, log: CallLog
) -> None:
    for options in ({"estimate": 500}, {}):
        limit = pb.Limit(per_minute=3000, unit="tokens", **options)
        df = spark.range(0, 16, 1, 2).transform(
            pb.async_io, using(log, 1), returns="same long", limit=limit
        )
        assert len(df.collect()) == 16
    times = log.starts()
    assert times[-1] - times[0] < 10


def test_a_call_that_could_never_begin_is_the_error_of_its_row(
    spark: SparkSession, log: CallLog
) -> None:
    estimate = "CASE id WHEN 2 THEN 1001 WHEN 3 THEN NULL ELSE 4 / (4 - id) END"
    df = spark.range(0, 5, 1, 1).transform(
        pb.async_io,
        using(log, 1),
        returns="same long",
        limit=pb.Limit(**TOKENS, estimate=estimate),
        on_error="column",
        retry=3,
    )
    rows = sorted(df.collect(), key=lambda row: row.id)
    assert [row.same for row in rows] == [0, 1, None, None, None]
    assert [row.error and row.error.kind for row in rows] == [
        None, None, "ESTIMATE_ABOVE_LIMIT", "ESTIMATE_NO_AMOUNT", "ESTIMATE_NO_AMOUNT",
    ]  # fmt: skip
    assert "DIVIDE_BY_ZERO" in rows[4].error.message
    assert "1001 tokens, and the limit is per_second=1000" in rows[2].error.message
    assert sorted({record["key"] for record in log.events("start")}) == [0, 1]


def test_a_list_of_rows_is_charged_with_the_sum_of_their_estimates(
    spark: SparkSession, log: CallLog
) -> None:
    async def call(rows: list[Any]) -> list[int]:
        log.write("start", key=len(rows))
        pb.current_call().report_usage(tokens=300)
        return [int(row.id) for row in rows]

    df = spark.range(0, 30, 1, 1).transform(
        pb.async_io,
        call,
        returns="same long",
        batch_size=3,
        limit=pb.Limit(**TOKENS, estimate=100),
    )
    assert len(df.collect()) == 30
    times = log.starts()
    assert len(times) == 10
    assert times[-1] - times[0] > 2.0


def test_a_function_of_values_is_limited_too(spark: SparkSession, log: CallLog) -> None:
    @pb.async_udf(returns="long", limit=pb.Limit(**TOKENS, estimate=250))
    async def same(value: int) -> int:
        log.write("start", key=value)
        pb.current_call().report_usage(tokens=250)
        return value

    assert len(spark.range(0, 9, 1, 1).select(same("id")).collect()) == 9
    times = log.starts()
    assert times[-1] - times[0] > 1.4


def test_an_estimate_that_is_no_number_of_a_row_is_refused(spark: SparkSession) -> None:
    async def call(row: Any) -> int:
        return int(row.id)

    for estimate, what in (
        ("sum(id)", "aggregate"),
        ("'a'", "STRING"),
        ("rand()", "rand"),
        ("nocol", "UNRESOLVED_COLUMN"),
        ("id >", "PARSE_SYNTAX_ERROR"),
        ("1/0", r"DIVIDE_BY_ZERO.*\): 1/0\."),
        ("id + cast('x' as int)", "CAST_INVALID_INPUT"),
        ("unix_timestamp(now()) / 0", "DIVIDE_BY_ZERO"),
    ):
        with pytest.raises(pb.InvalidOption, match=f"ESTIMATE_EXPRESSION.*{what}"):
            spark.range(1).transform(
                pb.async_io, call, returns="x long", limit=pb.Limit(**TOKENS, estimate=estimate)
            )


def half(row: Any) -> float:
    return len(row.prompt) / 2


def test_retry_after_for_all_lets_the_whole_limit_wait_and_uses_up_no_attempt(
    spark: SparkSession, log: CallLog
) -> None:
    async def told_twice(row: Any) -> int:
        log.write("start", key=row.id)
        if row.id == 5 and sum(r["key"] == 5 for r in log.events("start")) <= 2:
            log.write("told", key=5)
            raise pb.RetryAfter(0.7, all=True)
        return int(row.id)

    df = spark.range(0, 40, 1, 1).transform(
        pb.async_io, told_twice, returns="same long", limit=pb.Limit(concurrency=2, per_second=40)
    )
    assert sorted(row.same for row in df.collect()) == list(range(40))
    for told in log.events("told"):
        # The other call that was allowed may be on its way.
        assert len([at for at in log.starts() if told["at"] < at < told["at"] + 0.69]) <= 1
    assert len(log.events("told")) == 2


def test_what_headers_say_is_left_is_what_begins(spark: SparkSession, log: CallLog) -> None:
    async def call(row: Any) -> int:
        log.write("start", key=row.id)
        if row.id == 3:
            log.write("told", key=row.id)
            pb.limit_from({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1.5s"})
        pb.current_call().report_usage(tokens=1)
        return int(row.id)

    df = spark.range(0, 60, 1, 1).transform(
        pb.async_io, call, returns="same long", capacity=2,
        limit=pb.Limit(per_minute=1800, unit="tokens", estimate=1),
    )  # fmt: skip
    assert len(df.collect()) == 60
    (told,) = (record["at"] for record in log.events("told"))
    waited = [at for at in log.starts() if told + 0.6 < at < told + 1.4]
    assert not waited


def test_operators_that_name_a_limit_share_it(spark: SparkSession, log: CallLog) -> None:
    async def call(row: Any, resource: None) -> int:
        log.write("start", key=row.id)
        return int(row.id)

    def limited(rows: int, **rate: int) -> Any:
        return spark.range(0, rows, 1, 1).transform(
            pb.async_io, call, returns="same long", name=f"calls {rows}",
            limit=pb.Limit(**rate, name=str(log)), resource=log.opened,
        )  # fmt: skip

    assert limited(3, per_minute=120).union(limited(2, per_minute=120)).count() == 5
    times = log.since_open()
    assert len(times) == 5
    assert times[-1] > 1.4
    with pytest.raises(PythonException) as caught:
        limited(4, per_minute=90).collect()
    failure = pb.failure_of(caught.value)
    assert isinstance(failure, pb.InvalidOption)
    message = str(failure)
    assert "NAMED_LIMITS_DIFFER" in message
    assert "async_io(calls 4)" in message
    assert "async_io(calls 2)" in message or "async_io(calls 3)" in message
    assert "per_minute=120" in message
    assert "per_minute=90" in message


@pytest.mark.parametrize(
    ("carry_over", "estimate", "inputs"),
    [
        (False, "length(prompt) / 2", "id"),
        (True, "length(prompt) / 2", "id"),
        (False, half, None),
        (True, half, None),
    ],
)
def test_calls_of_a_stream_wait_for_what_they_will_use(
    spark: SparkSession, log: CallLog, tmp_path: Path, carry_over: bool, estimate: Any, inputs: Any
) -> None:
    spark.range(0, 12, 1, 4).selectExpr("id", "repeat('x', 400) AS prompt").write.parquet(
        str(tmp_path / "in")
    )
    rows = spark.readStream.schema("id long, prompt string").option("maxFilesPerTrigger", 2)
    called = rows.parquet(str(tmp_path / "in")).transform(
        pb.async_io, using(log, 200), returns="same long", inputs=inputs, carry_over=carry_over,
        limit=pb.Limit(**TOKENS, estimate=estimate, name=str(log)), resource=log.opened,
    )  # fmt: skip
    run_stream(called.select("same"), tmp_path, "parquet")
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.same for row in found) == list(range(12))
    assert log.since_open()[-1] > 1.9
