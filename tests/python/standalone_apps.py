"""Applications for a standalone cluster: ``python standalone_apps.py NAME FOLDER``.

Each prints its answer. What its calls and functions did, and in which executors, is in the file
``calls`` of the folder.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession

import pillarbox as pb
from spark_apps import give
from spark_support import CallLog, Latch, eventually, is_running

cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "id bigint, k string, ts timestamp"
RETURNS = "k string, what string, n bigint, at bigint"
FILES, ROWS, KEYS = 6, 40, 7
HELD = 7


def session(**settings: str) -> SparkSession:
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    # Tasks go to executors that have just come, not to those with state.
    builder = builder.config("spark.locality.wait", "0s")
    for key, value in settings.items():
        builder = builder.config(f"spark.{key}", value)
    return pb.configure(builder).getOrCreate()


def executors(spark: SparkSession) -> int:
    """How many the driver knows."""
    java: Any = spark.sparkContext._jsc.sc()
    return int(java.getExecutorMemoryStatus().size()) - 1


def wait_for_executors(spark: SparkSession, count: int) -> None:
    eventually(lambda: executors(spark) == count, f"{count} executors", limit_s=90)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def executor() -> int:
    """The process of the executor whose Python worker this is."""
    return parent_of(os.getppid())


def host_of(executor: int) -> str:
    command = Path(f"/proc/{executor}/cmdline").read_bytes().decode().split("\0")
    return command[command.index("--hostname") + 1]


def here() -> dict[str, Any]:
    return {"executor": executor(), "host": host_of(executor())}


# --- figures of calls


def watched(folder: str, count: int = 100) -> dict[str, Any]:
    """The lines of a progress, and the calls that each executor's metrics system has put into a
    file."""
    sink, files = "metrics.conf.executor.sink.csv", Path(folder, "csv")
    files.mkdir()
    settings = {"class": "org.apache.spark.metrics.sink.CsvSink", "period": "1", "unit": "seconds"}
    settings["directory"] = str(files)
    named = {f"{sink}.{key}": value for key, value in settings.items()}
    spark = session(**named, **{"metrics.namespace": "app"})
    wait_for_executors(spark, 2)

    async def call(row: Any) -> int:
        await asyncio.sleep(0.1)
        return int(row.id)

    def calls() -> dict[str, int]:
        found = {
            path.name.split(".")[1]: path for path in files.glob("app.*.pillarbox.call.calls.csv")
        }
        lines = {executor: path.read_text().splitlines() for executor, path in found.items()}
        return {one: int(lines[-1].split(",")[1]) for one, lines in lines.items() if lines[1:]}

    errors = io.StringIO()
    rows = spark.range(0, count, 1, 4).transform(
        pb.async_io, call, returns="same long", name="call", capacity=5, engine="jvm"
    )
    with redirect_stderr(errors), pb.progress(spark):
        rows.collect()
    eventually(lambda: sum(calls().values()) == count, "the figures of executors")
    spark.stop()
    return {"lines": errors.getvalue().splitlines(), "executors": len(calls())}


# --- calls under the limit of a query


def limited(folder: str, count: int = 400) -> int:
    spark = session()
    log = CallLog(f"{folder}/calls")

    async def twice(row: Any) -> int:
        log.write("start", key=row.id, **here())
        await asyncio.sleep(0.03)
        log.write("end", key=row.id, **here())
        return int(row.id) * 2

    wait_for_executors(spark, 2)
    # Both have started Python before the first call.
    spark.sparkContext.parallelize([0, 1], 2).barrier().mapPartitions(list).collect()
    options = {"capacity": 30, "limit": pb.Limit(concurrency=4)}
    df = spark.range(0, count, 1, 2)
    answers = df.transform(pb.async_io, twice, returns="twice long", engine="jvm", **options)
    return int(answers.groupBy().sum("twice").collect()[0][0])


# --- keyed state, when executors and workers are lost


class Visits(pb.KeyedProcessFunction):
    """Counts, and timers that tell the count. At some rows it kills what it runs in, once."""

    def __init__(self, folder: str, strikes: dict[int, str]) -> None:
        self.folder, self.strikes = folder, strikes
        self.log = CallLog(f"{folder}/calls")

    def open(self, ctx: Any) -> None:
        self.count = ctx.value_state("count", "bigint")

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.log.write("row", key=row.id, **here())
        self.strike(self.strikes.get(row.id))
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timers.register_event_time(ctx.timestamp + 3000)
        yield {"k": ctx.key, "what": "row", "n": count, "at": row.id}

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield {"k": ctx.key, "what": "timer", "n": self.count.value(), "at": timestamp}

    def strike(self, what: str | None) -> None:
        """Kills the executor, or the daemon of Spark's that started it, on which it ends itself."""
        if what is None or os.path.exists(f"{self.folder}/{what}"):
            return
        mine = executor()
        victim = mine if what == "executor" else parent_of(mine)
        Path(f"{self.folder}/{what}.new").write_text(f"{victim}")
        os.rename(f"{self.folder}/{what}.new", f"{self.folder}/{what}")
        os.kill(victim, signal.SIGKILL)
        while is_running(mine):
            time.sleep(0.01)


def write_file(folder: str, number: int) -> None:
    """Rows of five seconds, out of order, in a file that is there at once."""
    Path(f"{folder}/in").mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(ROWS):
        second, ms = divmod(5000 * number + (i * 17 % ROWS) * 125, 1000)
        at = f"2026-01-01T00:00:{second:02}.{ms:03}Z"
        rows.append({"id": number * ROWS + i, "k": f"key {i % KEYS}", "ts": at})
    Path(f"{folder}/in/.{number}").write_text("\n".join(map(json.dumps, rows)))
    os.rename(f"{folder}/in/.{number}", f"{folder}/in/{number}.json")


def visits(
    spark: SparkSession,
    folder: str,
    strikes: dict[int, str],
    before: Callable[[], None] = lambda: None,
    files: int = FILES,
) -> dict[str, Any]:
    """A stream, file by file; ``before`` is called before each. Its output, and its state."""
    Path(f"{folder}/in").mkdir(parents=True)
    log = CallLog(f"{folder}/calls")
    rows = spark.readStream.schema(INPUT).json(f"{folder}/in").withWatermark("ts", "1 second")
    counted = rows.transform(
        pb.process_keyed,
        Visits(folder, strikes),
        by="k",
        returns=RETURNS,
        order_by="id",
        backend="rocksdb",
    )
    writer = counted.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.format("json").start(f"{folder}/out")
    for number in range(files):
        before()
        log.write("file", number=number)
        write_file(folder, number)
        query.processAllAvailable()
    query.stop()
    out = spark.read.schema(RETURNS).json(f"{folder}/out")
    state = pb.read_state(spark, f"{folder}/checkpoint", 0, "count").select("key.k", "value")
    return {
        "rows": sorted(list(row) for row in out.collect()),
        "state": sorted(list(row) for row in state.collect()),
    }


def lost_and_found(folder: str) -> dict[str, Any]:
    """The second run loses an executor in its second file, and a worker of Spark in its fourth."""
    spark = session()
    strikes = {ROWS + ROWS // 2: "executor", 3 * ROWS + ROWS // 2: "worker"}
    both = lambda: wait_for_executors(spark, 2)  # noqa: E731
    quiet = visits(spark, f"{folder}/quiet", {}, both)
    return {"quiet": quiet, "killed": visits(spark, f"{folder}/killed", strikes, both)}


# --- dynamic allocation


def come_and_go(folder: str) -> dict[str, Any]:
    """Executors are taken away after a second without tasks."""
    spark = session(
        **{
            "dynamicAllocation.enabled": "true",
            "dynamicAllocation.shuffleTracking.enabled": "true",
            "dynamicAllocation.shuffleTracking.timeout": "1s",
            "dynamicAllocation.minExecutors": "0",
            "dynamicAllocation.maxExecutors": "2",
            "dynamicAllocation.executorIdleTimeout": "1s",
            "dynamicAllocation.cachedExecutorIdleTimeout": "1s",
            "dynamicAllocation.schedulerBacklogTimeout": "1s",
            "executor.cores": "1",
        }
    )
    # Without a pause executors stay; with one there is none when a file comes.
    busy = visits(spark, f"{folder}/busy", {}, files=2)
    idle = visits(spark, f"{folder}/idle", {}, lambda: wait_for_executors(spark, 0), files=2)
    return {"busy": busy, "idle": idle, "carried": carried(spark, f"{folder}/carried")}


def carried(spark: SparkSession, folder: str) -> list[list[int]]:
    """Calls of which one goes on between micro-batches, when no task runs."""
    log, latch = CallLog(f"{folder}/calls"), Latch(f"{folder}/latch")
    Path(f"{folder}/in").mkdir(parents=True)

    async def twice(row: Any) -> int:
        log.write("start", key=row.id, call_id=pb.call_id(), **here())
        if row.id == HELD:
            await latch.wait()
        log.write("end", key=row.id, **here())
        return int(row.id) * 2

    rows = spark.readStream.schema(INPUT).json(f"{folder}/in").select("id")
    options = {"ordered": False, "carry_over": pb.CarryOver(slots=2, max_lag="1 hour")}
    answers = rows.transform(pb.async_io, twice, returns="twice long", engine="jvm", **options)
    writer = answers.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.format("json").start(f"{folder}/out")

    def called_in() -> set[int]:
        return {event["executor"] for event in log.events("start") if event["key"] == HELD}

    write_file(folder, 0)
    eventually(lambda: len(called_in()) == 2, "the call in another executor", limit_s=120)
    log.write("opened")
    latch.open()
    write_file(folder, 1)
    query.processAllAvailable()
    query.stop()
    out = spark.read.schema("id long, twice long").json(f"{folder}/out")
    return sorted(list(row) for row in out.collect())


# --- Python from an archive


def shipped(folder: str, other: str) -> dict[str, Any]:
    """What ran calls and keyed functions; and what a Python without packages answers."""
    spark = session()

    def told() -> dict[str, str]:
        import pyarrow

        return {"python": sys.executable, "pyarrow": pyarrow.__file__, "pillarbox": pb.__file__}

    async def where(row: Any) -> dict[str, str]:
        return told()

    class Where(pb.KeyedProcessFunction):
        def process(self, row: Any, ctx: Any) -> Iterator[Any]:
            yield {**told(), "cwd": os.getcwd()}

    columns = "python string, pyarrow string, pillarbox string"
    df = spark.range(0, 20, 1, 2)
    calls = df.transform(pb.async_io, where, returns=columns, engine="jvm")
    keyed = df.transform(pb.process_keyed, Where(), by="id", returns=f"{columns}, cwd string")
    found = {
        "calls": [list(row) for row in calls.drop("id").distinct().collect()],
        "keyed": [list(row) for row in keyed.distinct().collect()],
        "rows": keyed.count(),
    }
    spark.sparkContext.pythonExec = other
    try:
        df.transform(pb.async_io, where, returns=columns, engine="jvm").collect()
        return {**found, "problem": ""}
    except Exception as problem:
        return {**found, "problem": str(problem)}


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    try:
        give(globals()[name](*arguments))
    finally:
        # A cluster that is not stopped starts its executors again while the driver goes down.
        running = SparkSession.getActiveSession()
        if running is not None:
            running.stop()
