"""``journal`` over executors: one that is killed, and a speculative copy on another host."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pillarbox as pb
from local_cluster import executor_logs, run_on_cluster, two_hosts
from spark_apps import answer_in, app_text
from spark_support import eventually

# The applications below are sent as text; this name is their own.
build: Any = None


def loses_an_executor(folder: str, count: int, capacity: int):  # type: ignore[no-untyped-def]
    spark = pb.configure(build({"spark.task.maxFailures": "4"})).getOrCreate()

    async def slow(row):  # type: ignore[no-untyped-def]
        def note(event):  # type: ignore[no-untyped-def]
            file = os.open(f"{folder}/{event}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{row.id}\n".encode())
            os.close(file)

        note("started")
        await asyncio.sleep(0.02)
        note("ended")
        if row.id == count // 2 - 50:
            try:
                os.close(os.open(f"{folder}/killed", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return row.id * 2
            with open(f"/proc/{os.getppid()}/stat") as stat:
                executor = int(stat.read().rsplit(")", 1)[1].split()[1])
            os.kill(executor, signal.SIGKILL)
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
        file = os.open(f"{folder}/started", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{row.id} {attempt}\n".encode())
        os.close(file)
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


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.whole
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


@pytest.mark.whole
def test_a_speculative_copy_repeats_only_what_is_in_flight(tmp_path: Path) -> None:
    count, capacity = 200, 10
    with two_hosts(tmp_path) as env:
        app = subprocess.Popen(
            [sys.executable, "-c", app_text(speculates, str(tmp_path), count, capacity)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            eventually(lambda: app.poll() is not None, "the job", limit_s=100)
            output, errors = app.communicate()
        finally:
            app.kill()
            app.wait()
    assert answer_in(output, errors + executor_logs(tmp_path)) == count * (count - 1)
    copies = [line for line in lines(tmp_path / "started") if line.endswith(" 1")]
    assert 1 <= len(copies) <= capacity
    assert len(lines(tmp_path / "started")) == count + len(copies)
