"""``journal`` over executors: one that is killed, and a speculative copy on another host."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pillarbox as pb
from local_cluster import cluster_environment, executor_logs, run_on_cluster, two_hosts
from spark_apps import Job, is_first, kill_executor, note, parent_of
from spark_support import eventually, is_running

# The applications below are sent as text; this name is their own.
build: Any = None


def loses_an_executor(folder: str, count: int, capacity: int):  # type: ignore[no-untyped-def]
    spark = pb.configure(build({"spark.task.maxFailures": "4"})).getOrCreate()

    async def slow(row):  # type: ignore[no-untyped-def]
        note(f"{folder}/started", row.id)
        await asyncio.sleep(0.02)
        note(f"{folder}/ended", row.id)
        if row.id == count // 2 - 50 and is_first(f"{folder}/killed"):
            kill_executor()
            await asyncio.sleep(60)
        return row.id * 2

    df = spark.range(0, count, 1, 2).transform(
        pb.async_io,
        slow,
        returns="twice long",
        name="slow",
        journal=f"{folder}/journal",
        capacity=capacity,
        engine="jvm",
    )
    return df.groupBy().sum("twice").collect()[0][0]


def speculates(folder: str, count: int, capacity: int):  # type: ignore[no-untyped-def]
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.25",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    spark = pb.configure(build(settings)).getOrCreate()

    async def slow_at_last(row):  # type: ignore[no-untyped-def]
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt, partition = context.attemptNumber(), context.partitionId()
        note(f"{folder}/started", f"{row.id} {attempt}")
        if partition == 0 and attempt == 0 and row.id == count // 4 - 5:
            open(f"{folder}/hangs", "w").close()
            await asyncio.sleep(120)
        # A task that ends sooner would let copies begin before the first attempt has answers.
        while not os.path.exists(f"{folder}/hangs") and partition > 0:
            await asyncio.sleep(0.02)
        return row.id * 2

    df = spark.range(0, count, 1, 4).transform(
        pb.async_io,
        slow_at_last,
        returns="twice long",
        name="slow_at_last",
        journal=f"{folder}/journal",
        capacity=capacity,
        engine="jvm",
    )
    return df.groupBy().sum("twice").collect()[0][0]


def asks_twice(folder: str, count: int, capacity: int):  # type: ignore[no-untyped-def]
    """Asks each thing in two partitions; notes of calls the id, their name, and the processes."""
    conf = {"spark.sql.shuffle.partitions": "2", "spark.task.maxFailures": "100"}
    conf["spark.sql.adaptive.coalescePartitions.enabled"] = "false"
    spark = pb.configure(build(conf)).getOrCreate()

    async def slow(row):  # type: ignore[no-untyped-def]
        line = f"{row.id} {pb.call_id()} {os.getppid()} {os.getpid()}"
        note(f"{folder}/started", line)
        await asyncio.sleep(0.05)
        note(f"{folder}/ended", line)
        return row.id * 2

    rows = spark.range(0, 2 * count, 1, 4).selectExpr(f"id % {count} as id")
    df = rows.transform(
        pb.async_io,
        slow,
        returns="twice long",
        name="slow",
        journal=f"{folder}/journal",
        share_calls="query",
        capacity=capacity,
        engine="jvm",
    )
    return df.groupBy().sum("twice").collect()[0][0]


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.nightly
def test_of_an_executor_that_was_killed_only_what_was_in_flight_is_called_again(
    tmp_path: Path,
) -> None:
    count, capacity = 1000, 10
    total = run_on_cluster(loses_an_executor, tmp_path, str(tmp_path), count, capacity)
    assert total == count * (count - 1)
    assert (tmp_path / "killed").exists()
    started = lines(tmp_path / "started")
    assert set(started) == {str(n) for n in range(count)}
    assert 1 <= len(started) - count <= 2 * capacity


@pytest.mark.nightly
def test_over_five_kills_a_call_is_repeated_only_if_it_was_in_flight(tmp_path: Path) -> None:
    """Of executors and drivers by turns; each thing is asked for in two partitions."""
    count, capacity, kills = 3000, 10, 5
    script = asks_twice, cluster_environment(tmp_path), str(tmp_path), count, capacity
    job = Job(*script)
    for kill in range(1, kills + 1):
        wanted = count * kill // (kills + 1)
        eventually(lambda n=wanted: len(lines(tmp_path / "ended")) >= n, "its calls", limit_s=120)
        if kill % 2 == 0:
            daemon = int(lines(tmp_path / "started")[-1].split()[2])
            os.kill(parent_of(daemon), signal.SIGKILL)
        else:
            job.kill()
            workers_are_gone(tmp_path)
            job = Job(*script)
    assert job.answer(lambda: executor_logs(tmp_path)) == 2 * count * (count - 1)
    started = Counter(line.split()[0] for line in lines(tmp_path / "started"))
    assert len(started) == count
    repeated = {one for one, times in started.items() if times > 1}
    # Two tasks, and in each of them answers that the journal did not have yet.
    assert sum(started.values()) - count <= kills * 2 * 2 * capacity
    names = {tuple(line.split()[:2]) for line in lines(tmp_path / "started")}
    assert len(names) == count, "a call that is made again has its name"
    assert len(repeated) >= 1


def workers_are_gone(folder: Path) -> None:
    """A worker ends by itself when its executor has died, and notes calls until then."""

    def left() -> set[str]:
        workers = {line.split()[3] for line in lines(folder / "started")}
        return {one for one in workers if is_running(int(one))}

    eventually(lambda: not left(), f"the end of the workers {left()}", limit_s=60)


@pytest.mark.nightly
def test_a_speculative_copy_repeats_only_what_is_in_flight(tmp_path: Path) -> None:
    count, capacity = 200, 10
    with two_hosts(tmp_path) as env:
        job = Job(speculates, env, str(tmp_path), count, capacity)
        assert job.answer(lambda: executor_logs(tmp_path)) == count * (count - 1)
    copies = [line for line in lines(tmp_path / "started") if line.endswith(" 1")]
    assert 1 <= len(copies) <= capacity
    assert len(lines(tmp_path / "started")) == count + len(copies)
