"""Limits that each value of a column has by itself, in Spark."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from spark_support import CallLog, by_value, run_stream

by_value(__name__)


def test_each_tenant_has_its_rate_over_two_operators(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    async def call(row: Any, resource: None) -> int:
        log.write("start", key=row[1] or "none")
        return 200

    def limited(column: str, name: str) -> Any:
        tenant = f"CASE id % 5 WHEN 4 THEN NULL ELSE concat('t', id % 5) END AS {column}"
        return spark.range(0, 150, 1, 2).selectExpr("id", tenant).transform(
            pb.async_io, call, returns="status int", name=name, ordered=False,
            limit=pb.Limit(per_second=15, key=column, name=f"each tenant {tmp_path}"),
            resource=log.opened,
        ).select("status")  # fmt: skip

    both = limited("tenant", "first").union(limited("customer", "second"))
    assert {row.status for row in both.collect()} == {200}
    # Each of the five has 60 calls, 15 a second; what is lent may be spent half a second early.
    for tenant in ("t0", "t1", "t2", "t3", "none"):
        times = log.since_open(tenant)
        assert len(times) == 60
        assert all(at >= n / 15 - 0.6 for n, at in enumerate(times))
    with pytest.raises(PythonException, match=r"NAMED_LIMITS_DIFFER(.|\n)*key=<bigint>"):
        spark.range(1).transform(
            pb.async_io, call, returns="status int", resource=log.opened,
            limit=pb.Limit(per_second=15, key="id", name=f"each tenant {tmp_path}"),
        ).collect()  # fmt: skip


@pytest.mark.parametrize("scope", ["query", "executor", "task"])
def test_rows_of_a_tenant_at_its_limit_leave_room_for_others(
    spark: SparkSession, log: CallLog, scope: Any
) -> None:
    async def call(row: Any) -> int:
        async with log.call(row.tenant):
            await asyncio.sleep(0.01)
        return int(row.id)

    tenant = "CASE WHEN id < 60 THEN 'a' WHEN id < 75 THEN 'b' ELSE 'c' END AS tenant"
    df = spark.range(0, 90, 1, 1).selectExpr("id", tenant).transform(
        pb.async_io, call, returns="same long", capacity=4, ordered=False,
        limit=[
            pb.Limit(per_second=10, key="tenant", scope=scope),
            pb.Limit(concurrency=3, scope=scope),
        ],
    )  # fmt: skip
    assert sorted(row.same for row in df.collect()) == list(range(90))
    times = {
        tenant: [record["at"] for record in log.events("start") if record["key"] == tenant]
        for tenant in "abc"
    }
    assert [len(at) for at in times.values()] == [60, 15, 15]
    for at in times.values():
        for i, first in enumerate(sorted(at)):
            assert sum(other < first + 0.9 for other in sorted(at)[i:]) <= 12
    begun = min(times["a"])
    assert max(times["b"] + times["c"]) - begun < 4, "as if each were alone"
    assert max(times["a"]) - begun > 5
    assert log.most_in_flight() <= 3


def test_explain_names_the_key_and_columns_that_cannot_be_one_are_refused(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    async def call(row: Any) -> int:
        return 1

    def limited(c: str = "c", **limit: Any) -> Any:
        rows = spark.sql(
            "SELECT id, 'x' AS tenant, map(1, 2) AS m, 'a' COLLATE UNICODE_CI AS c FROM range(3)"
        ).withColumn("c", F.expr(c))
        return rows.transform(
            pb.async_io, call, inputs="id", returns="y int", limit=pb.Limit(per_day=90, **limit)
        )

    limited(key="TENANT").explain()
    assert "limit=(per_day=90 scope=query key=TENANT)" in capsys.readouterr().out
    with pytest.raises(pb.InvalidOption, match=r"limit\.key.*tenants.*id, tenant, m, c"):
        limited(key="tenants")
    with pytest.raises(pb.InvalidSchema, match=r"limit\.key.*m.*map"):
        limited(key="m")
    with pytest.raises(pb.PillarboxError, match=r"KEY_COLLATION.*UNICODE_CI") as refused:
        limited(key="c")
    remedy = re.search(r"such as (collate.*), and use that as the key", str(refused.value))
    assert remedy is not None
    assert "y" in limited(remedy[1], key="c").columns
    assert "(_RTRIM) it is collate(rtrim(c), 'UTF8_BINARY')" in str(refused.value)
    with pytest.raises(pb.InvalidOption, match=r"limit\.key.*for a function of values"):
        pb.async_udf(call, returns="int", limit=pb.Limit(per_day=90, key="row"))


def test_the_python_engine_keeps_a_key_within_a_task(spark: SparkSession, log: CallLog) -> None:
    async def call(row: Any, resource: None) -> int:
        log.write("start", key=str(row.tenant))
        return 1

    df = spark.range(0, 12, 1, 1).selectExpr("id", "IF(id < 8, double('nan'), id % 2) AS tenant")
    limit = pb.Limit(per_second=5, key="tenant", scope="task")
    rows = df.transform(
        pb.async_io, call, returns="y int", limit=limit, engine="python", resource=log.opened
    ).collect()
    assert len(rows) == 12
    for tenant, count in (("nan", 8), ("0.0", 2), ("1.0", 2)):
        times = log.since_open(tenant)
        assert len(times) == count
        assert all(at >= n / 5 - 0.05 for n, at in enumerate(times))
    # The others don't wait for the eight.
    last = {record["key"] for record in log.events("start")[-3:]}
    assert last == {"nan"}


@pytest.mark.parametrize("carry_over", [False, True])
def test_a_stream_keeps_the_limit_of_each_value_over_its_batches(
    spark: SparkSession, log: CallLog, tmp_path: Path, carry_over: bool
) -> None:
    async def call(row: Any, resource: None) -> int:
        log.write("start", key=f"t{row.id % 3}")
        return 200

    spark.range(0, 90, 1, 6).selectExpr("id", "id % 3 AS tenant").write.parquet(
        str(tmp_path / "in")
    )
    rows = spark.readStream.schema("id long, tenant long").option("maxFilesPerTrigger", 2)
    called = rows.parquet(str(tmp_path / "in")).transform(
        pb.async_io, call, returns="status int", inputs="id", carry_over=carry_over,
        limit=pb.Limit(per_second=10, key="tenant"), resource=log.opened,
    )  # fmt: skip
    run_stream(called.select("id", "status"), tmp_path, "parquet")
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.id for row in found) == list(range(90))
    for tenant in ("t0", "t1", "t2"):
        times = log.since_open(tenant)
        assert len(times) == 30
        assert all(at >= n / 10 - 0.6 for n, at in enumerate(times))
