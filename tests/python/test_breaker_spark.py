"""``pb.Limit(breaker=...)``: calls stop when the service is overloaded, and one tries."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import pillarbox as pb
from spark_support import by_value

by_value(__name__)


def test_a_number_is_a_breaker_and_it_may_stand_alone() -> None:
    assert pb.Limit(breaker=5) == pb.Limit(breaker=pb.Breaker(5, pause="30s"))
    (spec,) = pb.Limit(breaker=pb.Breaker(3, pause="2 seconds"))._to_specs()
    assert spec["breaker"] == {"failures": 3, "pause_ms": 2000}
    first, second = pb.Limit(breaker=5, per_second=5, per_minute=100)._to_specs()
    assert first["breaker"] is not None
    assert second.get("breaker") is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"breaker": 0}, "limit.breaker must be a whole number from 1"),
        ({"breaker": True}, "limit.breaker must be a number of failures or a pb.Breaker"),
        ({"breaker": "5"}, "limit.breaker must be a number of failures or a pb.Breaker"),
        ({"breaker": 5, "concurrency": 2, "scope": "key"}, "limit.breaker"),
        ({"breaker": 5, "per_minute": 2, "unit": "tokens"}, "limit.breaker"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(pb.InvalidOption) as raised:
        pb.Limit(**options)
    assert told in str(raised.value)
    with pytest.raises(pb.InvalidOption, match=r"limit.breaker.pause"):
        pb.Breaker(5, pause="soon")


def test_the_python_engine_has_none() -> None:
    async def call(row: Any) -> int:
        return 1

    with pytest.raises(pb.InvalidOption, match=r"limit.breaker can't be kept by engine"):
        pb.testing.AsyncHarness(
            call,
            schema="id int",
            returns="n int",
            engine="python",
            limit=pb.Limit(breaker=5, scope="task"),
        )


def test_a_service_that_is_down_is_asked_by_one_call_for_each_pause(spark: SparkSession) -> None:
    """Of 30 rows the first three fail together; then each pause lets one try, and the service is
    back for the third of these."""

    class Busy(Exception):
        status = 503

    seen: list[int] = []

    async def call(row: Any) -> int:
        seen.append(row.id)
        if len(seen) <= 5:
            raise Busy
        return len(seen)

    df = spark.range(0, 30, 1, 1).transform(
        pb.async_io,
        call,
        returns="n int",
        on_error="column",
        limit=[
            pb.Limit(concurrency=3, scope="executor"),
            pb.Limit(breaker=pb.Breaker(3, pause="500ms")),
        ],
    )
    rows = df.collect()
    assert [row.error.kind for row in rows if row.error is not None] == ["Busy"] * 5
    plan = df._jdf.queryExecution().executedPlan()
    while not plan.metrics().contains("breakerOpenings"):
        plan = plan.children().head()
    metrics = plan.metrics()
    assert metrics.apply("breakerOpenings").value() == 1
    assert metrics.apply("breakerOpenTime").value() >= 1.4e9
