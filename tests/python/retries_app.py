"""Applications for one driver that tries its tasks again: ``python retries_app.py FOLDER NAME...``.

A driver of its own has what the shared session can't: tasks with four attempts, a limit of memory
for Python, a UI with metrics, and local folders where nobody else's are. Prints a dict of the
answers by name.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from spark_apps import give
from spark_support import eventually

SETTINGS = {
    "spark.master": "local[2,4]",
    "spark.executor.pyspark.memory": "2g",
    "spark.pillarbox.state.maintenanceInterval": "1s",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.port": "0",
    "spark.metrics.conf.*.sink.prometheusServlet.class": (
        "org.apache.spark.metrics.sink.PrometheusServlet"
    ),
    "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
}


def session(folder: str) -> SparkSession:
    builder = SparkSession.builder.config("spark.local.dir", f"{folder}/local")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = pb.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def problem_of(action: Callable[[], Any]) -> str:
    try:
        action()
        return "no error"
    except Exception as problem:
        return str(problem)[:3000]


def loses_workers(spark: SparkSession, folder: str) -> list[Any]:
    async def dies_twice(row: Any) -> int:
        log = os.open(f"{folder}/ids", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{row.id} {pb.call_id()}\n".encode())
        await asyncio.sleep(0.001)
        if row.id == 150:
            for attempt in ("1", "2"):
                mark = f"{folder}/killed{attempt}"
                if not os.path.exists(mark):
                    open(mark, "w").close()
                    os.kill(os.getpid(), signal.SIGKILL)
        return int(row.id) * 2

    df = spark.range(0, 200, 1, 2).transform(
        pb.async_io, dies_twice, returns="twice long", engine="jvm", capacity=20
    )
    return sorted((row.id, row.twice) for row in df.collect())


class Does(pb.KeyedProcessFunction):
    def __init__(self, what: Callable[[], Any]) -> None:
        self.what = what

    def process(self, row: Any, ctx: Any) -> Any:
        return self.what()


def memory(spark: SparkSession, folder: str) -> dict[str, str]:
    """More than a worker may have, in a call and in a keyed function; and a worker that is killed
    as the system kills what needs too much."""

    async def greedy(row: Any) -> int:
        return len(bytes(8 << 30))

    def keyed(what: Callable[[], Any]) -> DataFrame:
        options = {"by": "id", "returns": "x bigint", "name": "Greedy"}
        return pb.process_keyed(spark.range(1), Does(what), **options)

    calls = pb.async_io(spark.range(1), greedy, returns="x long", engine="jvm")
    return {
        "calls": problem_of(calls.collect),
        "keyed": problem_of(keyed(lambda: len(bytes(8 << 30))).collect),
        "killed": problem_of(keyed(lambda: os.kill(os.getpid(), signal.SIGKILL)).collect),
    }


def fails_for_ever(spark: SparkSession, folder: str) -> tuple[str, int]:
    """A stream of files if there is a folder ``few``; otherwise rows go on coming."""

    async def failing(row: Any) -> Any:
        with open(f"{folder}/calls", "a") as calls:
            calls.write(f"{row.value}\n")
        await asyncio.sleep(0.3)
        if row.value == 3:
            raise ConnectionError("the service is down")
        return row.value

    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    if os.path.exists(f"{folder}/few"):
        rows = spark.readStream.schema("value long").parquet(f"{folder}/few")
    answers = pb.async_io(rows, failing, returns="x long", carry_over=pb.CarryOver(slots=2))
    writer = answers.writeStream.format("noop").option("checkpointLocation", f"{folder}/carried")
    query = writer.start()
    problem = problem_of(lambda: query.awaitTermination(120))
    query.stop()
    with open(f"{folder}/calls") as calls:
        return problem, calls.read().split().count("3")


class Slow(pb.KeyedProcessFunction):
    """Tells when it is in the middle of its rows, and stays there."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def open(self, ctx: Any) -> None:
        self.count = ctx.value_state("count", "long")

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        if row.id == 50:
            open(self.mark, "w").close()
            time.sleep(60)
        yield row.id, self.count.value()


def local_folders(folder: str) -> list[str]:
    found = [name for _, names, _ in os.walk(f"{folder}/local") for name in names]
    return [name for name in found if name.startswith("pillarbox-")]


def is_stopped_in_the_middle(spark: SparkSession, folder: str, stops: int = 2) -> int:
    """How many local folders there were; at the end there is none."""
    spark.range(0, 100, 1, 1).write.parquet(f"{folder}/in")
    mark = f"{folder}/in_the_middle"
    seen = 0
    for number in range(stops):
        rows = spark.readStream.schema("id long").parquet(f"{folder}/in")
        keyed = pb.process_keyed(
            rows.withColumn("k", F.col("id") % 7),
            Slow(mark),
            by="k",
            returns="id long, n long",
            backend="rocksdb",
        )
        writer = keyed.writeStream.format("noop")
        query = writer.option("checkpointLocation", f"{folder}/stopped-{number}").start()
        eventually(lambda: os.path.exists(mark), "the middle of a micro-batch")
        seen = max(seen, len(local_folders(folder)))
        query.stop()
        os.remove(mark)
    eventually(lambda: not local_folders(folder), "the end of all local folders", limit_s=60)
    return seen


def is_stopped_often(spark: SparkSession, folder: str) -> int:
    return is_stopped_in_the_middle(spark, folder, stops=6)


def is_stopped_very_often(spark: SparkSession, folder: str) -> int:
    return is_stopped_in_the_middle(spark, folder, stops=60)


def scraped(spark: SparkSession, operator: str) -> dict[str, int]:
    """What Prometheus reads of an operator from the driver."""
    url = f"{spark.sparkContext.uiWebUrl}/metrics/prometheus"
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(rf'_driver_pillarbox_{operator}_(\w+)_Value{{type="gauges"}} (\d+)', text)
    return {name: int(value) for name, value in found}


class Counts(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.value_state("count", "long")

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield row.id, self.count.value()


def metered(spark: SparkSession, folder: str) -> dict[str, Any]:
    async def second_time(row: Any) -> int:
        while not os.path.exists(f"{folder}/open"):
            await asyncio.sleep(0.01)
        if pb.current_call().attempt == 1:
            raise ConnectionError("once more")
        if row.id == 0:
            raise ValueError("never")
        return int(row.id)

    calls = spark.range(0, 10, 1, 2).transform(
        pb.async_io,
        second_time,
        returns="x long",
        name="prices (eur)",
        on_error="null",
        retry=pb.Retry(2, backoff="1ms"),
        engine="jvm",
    )
    action = threading.Thread(target=calls.collect)
    action.start()
    operator = "prices__eur_"
    eventually(lambda: scraped(spark, operator).get("callsInFlight") == 10, "10 calls in flight")
    open(f"{folder}/open", "w").close()
    action.join()
    calls.collect()

    spark.range(5).write.parquet(f"{folder}/metered")
    rows = spark.readStream.schema("id long").parquet(f"{folder}/metered")
    keyed = pb.process_keyed(rows, Counts(), by="id", returns="id long, n long", name="counts")
    writer = keyed.writeStream.format("noop").option("checkpointLocation", f"{folder}/counts")
    query = writer.start()
    query.processAllAvailable()
    answer = {"async": scraped(spark, operator), "keyed": scraped(spark, "counts")}
    query.stop()
    return answer


def main(folder: str, *names: str) -> None:
    spark = session(folder)
    give({name: globals()[name](spark, folder) for name in names})
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
