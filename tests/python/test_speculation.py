"""Two attempts of one task at the same time: one wins, the other leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pillarbox as pb
from local_cluster import executor_logs, two_hosts
from spark_apps import Job, note, parent_of
from spark_support import CallLog, eventually, is_running

# The application below is sent as text; this name is its own.
build: Any = None


def speculates(folder):  # type: ignore[no-untyped-def]
    from pyspark import TaskContext

    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    spark = pb.configure(build(settings)).getOrCreate()

    def write(event, **fields):
        line = json.dumps({"event": event, "at": 0, "pid": os.getpid(), **fields})
        note(folder + "/calls", line)

    async def slow_at_first(row):
        context = TaskContext.get()
        attempt, partition = context.attemptNumber(), context.partitionId()
        write("start", key=row.id, attempt=attempt, daemon=os.getppid())
        try:
            if partition == 0 and attempt == 0 and row.id >= 5:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            write("cancelled", key=row.id, attempt=attempt)
            raise
        return row.id * 2

    df = spark.range(0, 40, 1, 4).transform(
        pb.async_io, slow_at_first, returns="twice long", engine="jvm", capacity=20
    )
    df.write.parquet(folder + "/out")
    # The executors live as long as this session; the test looks at them meanwhile.
    open(folder + "/written", "w").close()
    sys.stdin.readline()
    return sorted((row.id, row.twice) for row in spark.read.parquet(folder + "/out").collect())


def task_threads(executor: int) -> list[str]:
    """Our threads in an executor that belong to a task."""
    stacks = subprocess.run(["jstack", str(executor)], capture_output=True, text=True, check=True)
    names = [line.split('"')[1] for line in stacks.stdout.splitlines() if line.startswith('"')]
    return [name for name in names if name.startswith("pillarbox ")]


def look_at_the_executors(log: CallLog) -> None:
    first = {record["daemon"] for record in log.events("start") if record["attempt"] == 0}
    lost = [record for record in log.events("start") if record["attempt"] == 0]
    lost = [record for record in lost if 5 <= record["key"] < 10]
    eventually(lambda: len(log.events("cancelled")) == 5, "the calls of the slow attempt to end")
    assert (
        {r["key"] for r in log.events("cancelled")} == {r["key"] for r in lost} == set(range(5, 10))
    )
    won = [record for record in log.events("start") if record["attempt"] == 1]
    assert {record["key"] for record in won} == set(range(10))
    assert {r["daemon"] for r in won}.isdisjoint({r["daemon"] for r in lost})
    for daemon in first:
        assert is_running(daemon)
        executor = parent_of(daemon)
        eventually(lambda executor=executor: not task_threads(executor), "threads to end")


@pytest.mark.nightly
def test_the_slower_of_two_attempts_is_cancelled_and_leaves_nothing(tmp_path: Path) -> None:
    log = CallLog(str(tmp_path / "calls"))
    with two_hosts(tmp_path) as env, Job(speculates, env, str(tmp_path)) as job:
        job.waits((tmp_path / "written").exists, "the job")
        look_at_the_executors(log)
        rows = job.answer(lambda: executor_logs(tmp_path), line="go on\n")
    assert rows == [[i, 2 * i] for i in range(40)]
