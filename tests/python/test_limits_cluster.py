"""Limits of a whole query: calls in flight, and calls started, over executors that come and die."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import pillarbox as pb
from local_cluster import run_on_cluster
from spark_apps import is_first, kill_executor, note

# The applications below are sent as text; this name is their own.
build: Any = None


def calls(folder: str, count: int, kills: bool, ordered: bool, limit: dict, keyed: bool = False):  # type: ignore[no-untyped-def,type-arg]
    spark = pb.configure(build({"spark.task.maxFailures": "4"})).getOrCreate()

    async def slow(row):  # type: ignore[no-untyped-def]
        # The executor's, of which the worker is a child; it stays when the executor is killed.
        daemon = os.getppid()

        def tell(event):  # type: ignore[no-untyped-def]
            import time

            note(f"{folder}/log", f"{event} {daemon} {time.monotonic()}")

        tell("start")
        if kills and row.id == count // 4 and is_first(f"{folder}/killed"):
            tell("killed")
            kill_executor()
            await asyncio.sleep(60)
        await asyncio.sleep(0.05)
        tell("end")
        return row.id * 2

    class Slow(pb.AsyncKeyedProcessFunction):
        async def process(self, row, ctx):  # type: ignore[no-untyped-def]
            return await slow(row)

    options = {"by": "id"} if keyed else {"engine": "jvm", "ordered": ordered}
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    df = spark.range(0, count, 1, 2).transform(
        *((pb.process_keyed_async, Slow()) if keyed else (pb.async_io, slow)),
        returns="twice long",
        capacity=30,
        limit=pb.Limit(**limit),
        **options,
    )
    return df.groupBy().sum("twice").collect()[0][0]


def events(folder: Path) -> list[tuple[str, int, float]]:
    lines = (line.split() for line in (folder / "log").read_text().splitlines())
    found = [(event, int(executor), float(at)) for event, executor, at in lines]
    return sorted(found, key=lambda event: event[2])


def in_flight(found: list[tuple[str, int, float]]) -> list[tuple[float, int]]:
    """How many calls there are from which time on.

    What a killed executor had in flight ends with it; its worker may still note the end of a call.
    """
    flying: dict[int, int] = {}
    dead = set()
    levels = []
    for event, executor, at in found:
        if event == "killed":
            dead.add(executor)
            flying.pop(executor, None)
        elif executor not in dead:
            flying[executor] = flying.get(executor, 0) + (1 if event == "start" else -1)
        levels.append((at, sum(flying.values())))
    return levels


def most_in_flight(found: list[tuple[str, int, float]]) -> int:
    return max(level for _, level in in_flight(found))


@pytest.mark.nightly
def test_two_executors_share_one_limit(tmp_path: Path) -> None:
    count = 400
    limit = {"concurrency": 4}
    summed = run_on_cluster(calls, tmp_path, str(tmp_path), count, False, True, limit)
    assert summed == count * (count - 1)
    found = events(tmp_path)
    assert most_in_flight(found) == 4
    per_executor = [sum(e == one for _, e, _ in found) for one in {e for _, e, _ in found}]
    assert len(per_executor) == 2
    assert min(per_executor) > 100


@pytest.mark.nightly
@pytest.mark.parametrize("keyed", [False, True])
def test_what_an_executor_had_goes_to_others_when_its_lease_has_ended(
    tmp_path: Path, keyed: bool
) -> None:
    count = 1000
    limit = {"concurrency": 4}
    found = run_on_cluster(calls, tmp_path, str(tmp_path), count, True, False, limit, keyed)
    assert found == count * (count - 1)
    log = events(tmp_path)
    killed = next(at for event, _, at in log if event == "killed")
    assert most_in_flight(log) <= 4
    levels = in_flight(log)
    # Its last report, with which the lease began, is at most half a second older than its end.
    assert max(level for at, level in levels if killed < at < killed + 9) < 4
    assert max(level for at, level in levels if at > killed + 11) == 4


@pytest.mark.nightly
def test_calls_of_two_executors_start_at_one_rate(tmp_path: Path) -> None:
    count = 200
    limit = {"per_second": 50}
    found = run_on_cluster(calls, tmp_path, str(tmp_path), count, False, True, limit)
    assert found == count * (count - 1)
    starts = [at for event, _, at in events(tmp_path) if event == "start"]
    # A call is noted a little later than it begins.
    for i, first in enumerate(starts):
        assert sum(at < first + 0.95 for at in starts[i:]) <= 52
    assert starts[-1] - starts[0] < 8


def metered(folder: str, count: int, most: int):  # type: ignore[no-untyped-def]
    """Calls a service that allows ``most`` tokens in any minute. Two executors are killed."""
    conf = {"spark.task.maxFailures": "8", "spark.deploy.maxExecutorRetries": "-1"}
    spark = pb.configure(build(conf)).getOrCreate()

    def served(tokens):  # type: ignore[no-untyped-def]
        # The service: it knows nothing of the limiter, and counts calls as it hears them.
        import fcntl
        import time

        with open(f"{folder}/served", "a+") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            now = time.monotonic()
            log.seek(0)
            lines = [line.split() for line in log]
            used = sum(
                int(n) for at, n, status in lines if now - float(at) < 60 and status == "200"
            )
            status = 200 if used + tokens <= most else 429
            log.write(f"{now} {tokens} {status}\n")
        return status

    async def ask(row):  # type: ignore[no-untyped-def]
        import random

        tokens = 20 + row.id % 180
        status = served(tokens)
        pb.current_call().report_usage(tokens=tokens if status == 200 else 0)
        await asyncio.sleep(random.random())
        if status != 200:
            raise ConnectionError("429")
        if row.id in (count // 3, 2 * count // 3) and is_first(f"{folder}/killed {row.id}"):
            kill_executor()
        return tokens

    tokens = pb.Limit(per_minute=most * 0.97, unit="tokens", estimate="20 + id % 180")
    df = spark.range(0, count, 1, 12).transform(
        pb.async_io,
        ask,
        returns="tokens long",
        capacity=40,
        ordered=False,
        limit=[pb.Limit(concurrency=60), tokens],
    )
    return df.groupBy().sum("tokens").collect()[0][0]


@pytest.mark.nightly
def test_a_service_that_counts_tokens_by_itself_refuses_none_while_executors_are_killed(
    tmp_path: Path,
) -> None:
    count, most = 1000, 60_000
    folder = str(tmp_path)
    summed = run_on_cluster(metered, tmp_path, folder, count, most, executors=3, limit_s=300)
    assert summed == sum(20 + one % 180 for one in range(count))
    assert len(list(tmp_path.glob("killed *"))) == 2
    lines = [line.split() for line in (tmp_path / "served").read_text().splitlines()]
    served = [(float(at), int(tokens)) for at, tokens, status in lines if status == "200"]
    assert len(served) == len(lines), "it has refused none"
    # What it has allowed after the first minute, when the limit is used to the full.
    start = served[0][0] + 60
    used = sum(tokens for at, tokens in served if start <= at < start + 30)
    assert used > 0.9 * most / 2


def tenants(folder: str, count: int, most: int):  # type: ignore[no-untyped-def]
    """Calls a service that allows ``most`` calls of a tenant in any minute. Two operators share the
    limit of each tenant, and two executors are killed."""
    conf = {"spark.task.maxFailures": "8", "spark.deploy.maxExecutorRetries": "-1"}
    spark = pb.configure(build(conf)).getOrCreate()

    def served(tenant):  # type: ignore[no-untyped-def]
        # The service: it knows nothing of the limiter, and counts calls as it hears them.
        import fcntl
        import time

        with open(f"{folder}/served {tenant}", "a+") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            now = time.monotonic()
            log.seek(0)
            lines = [line.split() for line in log]
            used = sum(now - float(at) < 60 and status == "200" for at, status in lines)
            status = 200 if used < most else 429
            log.write(f"{now} {status}\n")
        return status

    async def ask(row):  # type: ignore[no-untyped-def]
        status = served(row.tenant)
        await asyncio.sleep(0.2)
        if status != 200:
            raise ConnectionError("429")
        if row.id in (count // 3, 2 * count // 3) and is_first(f"{folder}/killed {row.id}"):
            kill_executor()
        return 1

    def asked(name, start):  # type: ignore[no-untyped-def]
        rows = spark.range(start, count, 2, 6).selectExpr("id", "(id div 2) % 7 AS tenant")
        return rows.transform(
            pb.async_io,
            ask,
            returns="n long",
            ordered=False,
            name=name,
            limit=[
                pb.Limit(per_minute=int(most * 0.97), key="tenant", name="each tenant"),
                pb.Limit(concurrency=4, key="tenant"),
                pb.Limit(concurrency=60),
            ],
        )

    return asked("even", 0).union(asked("odd", 1)).groupBy().sum("n").collect()[0][0]


@pytest.mark.nightly
def test_a_service_that_counts_each_tenant_refuses_none_while_executors_are_killed(
    tmp_path: Path,
) -> None:
    count, most = 1820, 200
    folder = str(tmp_path)
    summed = run_on_cluster(tenants, tmp_path, folder, count, most, executors=3, limit_s=300)
    assert summed == count
    assert len(list(tmp_path.glob("killed *"))) == 2
    logs = list(tmp_path.glob("served *"))
    assert len(logs) == 7
    for log in logs:
        lines = [line.split() for line in log.read_text().splitlines()]
        assert {status for _, status in lines} == {"200"}, "it has refused none"
        assert len(lines) >= count / 7
        assert float(lines[-1][0]) - float(lines[0][0]) > 65, "the minute's limit was met"
