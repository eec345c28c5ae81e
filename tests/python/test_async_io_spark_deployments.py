"""Settings of a cluster: kinds of workers, versions, what a worker keeps of memory."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import pillarbox as pb
from pillarbox._base.spark_versions import line_of
from pillarbox._driver.client import client_of
from python_archive import BARE
from spark_apps import SOURCES, run_app
from spark_support import eventually

# The applications below are sent as text; these names are theirs.
build: Any = None


def doubles(settings, folder):  # type: ignore[no-untyped-def]
    spark = pb.configure(build({"spark.master": "local[2]", **settings})).getOrCreate()

    class Client:
        async def __aenter__(self):
            open(f"{folder}/opened-{os.getpid()}", "x").close()

        async def __aexit__(self, *error):
            open(f"{folder}/closed-{os.getpid()}", "x").close()

    async def double(row, client):
        await asyncio.sleep(0)
        return row.id * 2

    df = spark.range(0, 100, 1, 4).transform(
        pb.async_io, double, returns="twice long", engine="jvm", resource=Client
    )
    rows = [[(row.id, row.twice) for row in df.collect()] for _ in range(2)]
    spark.stop()
    return rows


@pytest.mark.nightly
@pytest.mark.parametrize(
    "settings",
    [
        {"spark.python.use.daemon": "false"},
        {
            "spark.python.worker.reuse": "false",
            "spark.python.unix.domain.socket.enabled": "true",
        },
    ],
    ids=["no daemon", "no reuse, over unix domain sockets"],
)
def test_workers_that_serve_one_task_close_their_resource(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    rows = run_app(doubles, settings, str(tmp_path))
    assert rows == [[[i, 2 * i] for i in range(100)]] * 2

    def workers(event: str) -> set[str]:
        return {path.name.split("-")[1] for path in tmp_path.glob(f"{event}-*")}

    eventually(lambda: workers("closed") == workers("opened"), "resources to be closed")
    assert len(workers("opened")) == 8


# PySpark's daemon, whose workers don't answer as long as there is a file "hold", and the daemon.
SLOW_DAEMON = """
import os, time
from pyspark import daemon

real = os.fork

def fork():
    pid = real()
    if pid == 0:
        open("FOLDER/forked", "w").close()
        daemon_pid = os.getppid()
        while os.path.exists("FOLDER/hold") and os.getppid() == daemon_pid:
            time.sleep(0.01)
    return pid

os.fork = fork
daemon.manager()
"""


def one_waits_and_one_is_cancelled(folder):  # type: ignore[no-untyped-def]
    import threading
    import time

    settings = {"spark.master": "local[2]", "spark.python.daemon.module": "slow_daemon"}
    spark = pb.configure(build(settings)).getOrCreate()
    found = {}

    def mark(name):
        open(f"{folder}/{name}", "w").close()

    def wait(name):
        end = time.monotonic() + 60
        while not os.path.exists(f"{folder}/{name}"):
            assert time.monotonic() < end, name
            time.sleep(0.01)

    async def waits(row):
        open(f"{folder}/called", "w").close()
        while not os.path.exists(f"{folder}/go"):
            await asyncio.sleep(0.01)
        return row.id

    def run(group):
        spark.sparkContext.setJobGroup(group, "", interruptOnCancel=True)
        try:
            df = pb.async_io(spark.range(0, 1, 1, 1), waits, returns="x long", engine="jvm")
            found[group] = [row.x for row in df.collect()]
        except Exception as problem:
            found[group] = type(problem).__name__ + str(problem)

    first = threading.Thread(target=run, args=["waits"])
    first.start()
    wait("called")
    os.remove(f"{folder}/forked")
    mark("hold")
    second = threading.Thread(target=run, args=["cancelled"])
    second.start()
    wait("forked")
    spark.sparkContext.cancelJobGroup("cancelled")
    second.join()
    os.remove(f"{folder}/hold")
    mark("go")
    first.join()
    return found


@pytest.mark.nightly
def test_a_task_that_is_cancelled_while_its_worker_starts_takes_no_other_worker_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would take the interrupt for the end of its daemon, and end all that it has forked."""
    (tmp_path / "slow_daemon.py").write_text(SLOW_DAEMON.replace("FOLDER", str(tmp_path)))
    monkeypatch.setattr("spark_apps.SOURCES", f"{SOURCES}{os.pathsep}{tmp_path}")
    found = run_app(one_waits_and_one_is_cancelled, str(tmp_path))
    assert found["waits"] == [0]
    assert "cancelled part of cancelled job group" in found["cancelled"]


def pages_of_a_second_frame(settings):  # type: ignore[no-untyped-def]
    spark = pb.configure(build({"spark.master": "local[1]", **settings})).getOrCreate()

    async def pages(row):
        import resource

        def frame():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            blocks = [bytearray(size << 20) for size in (4, 12, 20)]
            del blocks
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        frame()
        return frame()

    df = spark.range(1).transform(pb.async_io, pages, returns="pages long", engine="jvm")
    return df.head().pages


@pytest.mark.nightly
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to")
@pytest.mark.parametrize(
    ("settings", "is_kept"),
    [({}, True), ({"spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "131072"}, False)],
    ids=["by default", "not where the user says otherwise"],
)
def test_memory_that_a_frame_freed_is_there_for_the_next(
    settings: dict[str, str], is_kept: bool
) -> None:
    whole = (36 << 20) // resource.getpagesize()
    assert (run_app(pages_of_a_second_frame, settings) < whole / 4) == is_kept


async def unused(row: Any) -> int:
    return 0


@pytest.mark.classic
def test_a_worker_of_another_python_version_is_told_with_both(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where executors have another interpreter than the driver, which sends its version."""
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.7")
    df = spark.range(0, 1, 1, 1).transform(pb.async_io, unused, returns="x int", engine="jvm")
    with pytest.raises(PythonException, match=r"PYTHON_VERSION_MISMATCH(?s:.)*3\.7"):
        df.collect()


@pytest.mark.classic
@pytest.mark.parametrize("engine", ["jvm", "python"])
def test_a_worker_that_lacks_a_package_is_told_with_its_interpreter(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    if not subprocess.run([BARE, "-c", "import pyarrow"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("the Python that this environment was made from has PyArrow")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", BARE)
    df = spark.range(0, 1, 1, 1).transform(pb.async_io, unused, returns="x int", engine=engine)
    with pytest.raises(PythonException) as raised:
        df.collect()
    told = pb.failure_of(raised.value)
    assert told is not None
    assert (told.condition, told.operator) == ("WORKER_IMPORT_FAILED", "async_io(unused)")
    assert f"No module named 'pyarrow'. It runs on {BARE}." in str(told)


def test_the_versions_come_from_the_jar(spark: SparkSession) -> None:
    version, line = client_of(spark).jar()
    base, _, commit = version.partition("+g")
    assert (base, line) == (pb.__version__, line_of(spark.version))
    assert len(commit) == (12 if Path(SOURCES).parents[1].joinpath(".git").exists() else 0)


def test_the_python_that_the_session_names_runs_the_functions(
    spark: SparkSession, tmp_path: Path
) -> None:
    setting, named = "spark.sql.execution.pyspark.python", tmp_path / "python"
    named.write_text(f'#!/bin/sh\nSTARTED_AS=named exec {sys.executable} "$@"\n')
    named.chmod(0o755)

    async def started_as(row: Any) -> str:
        return os.environ.get("STARTED_AS", "")

    class StartedAs(pb.KeyedProcessFunction):
        def process(self, row: Any, ctx: pb.Context[Any]) -> Any:
            return os.environ.get("STARTED_AS", "")

    def found() -> set[str]:
        rows = spark.range(2)
        called = rows.transform(pb.async_io, started_as, returns="by string", engine="jvm")
        keyed = rows.transform(pb.process_keyed, StartedAs(), by="id", returns="by string")
        return {row.by for row in called.select("by").union(keyed).collect()}

    spark.conf.set(setting, str(named))
    try:
        assert found() == {"named"}
    finally:
        spark.conf.unset(setting)
    assert found() == {""}
