"""Delta Lake as source and sink, in batches and in streams whose driver is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from java_jars import listed_jars
from spark_apps import SOURCES, answer_of, app_text, environment

pytestmark = pytest.mark.integration
LIMIT_S = 240
ROWS = 100


def app(step, folder, jars):  # type: ignore[no-untyped-def]
    """Ends with a SIGKILL of the JVM in a call or after a write, or with the rows of all tables."""
    settings = {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    builder = build(settings)  # type: ignore[name-defined] # noqa: F821
    import os
    import signal
    import threading
    import time

    import pillarbox as pb

    spark = pb.configure(builder.master("local[2]")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    struck = f"{folder}/struck {step}"
    driver = spark._jvm.java.lang.ProcessHandle.current().pid()

    is_struck = False

    async def twice(row):  # type: ignore[no-untyped-def]
        import asyncio

        if is_struck and row.id == 60:
            open(struck, "w").close()
            await asyncio.sleep(600)
        return row.id * 2

    class Count(pb.KeyedProcessFunction):
        def open(self, ctx):  # type: ignore[no-untyped-def]
            self.n = ctx.value_state("n", "bigint")

        def process(self, row, ctx):  # type: ignore[no-untyped-def]
            self.n.update((self.n.value() or 0) + 1)
            yield {"id": row.id, "twice": row.twice, "k": row.k, "n": self.n.value()}

    def counted(df):  # type: ignore[no-untyped-def]
        called = df.transform(pb.async_io, twice, returns="twice long", timeout="20 minutes")
        returns = "id long, twice long, k long, n long"
        return called.transform(pb.process_keyed, Count(), by="k", returns=returns)

    def rows(name):  # type: ignore[no-untyped-def]
        table = spark.read.format("delta").load(f"{folder}/{name}")
        return sorted(list(row) for row in table.collect())

    def write_once(batch, number):  # type: ignore[no-untyped-def]
        once = batch.write.format("delta").option("txnAppId", "test").option("txnVersion", number)
        once.mode("append").save(f"{folder}/each")
        if step == "kill write" and number == 2:
            os.kill(driver, signal.SIGKILL)
            time.sleep(600)

    def stream(name):  # type: ignore[no-untyped-def]
        source = spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
        writer = counted(source.load(f"{folder}/source")).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint {name}")
        if name == "each":
            return writer.foreachBatch(write_once).start()
        return writer.format("delta").start(f"{folder}/{name}")

    def kill_when_struck():  # type: ignore[no-untyped-def]
        while not os.path.exists(struck):
            time.sleep(0.05)
        os.kill(driver, signal.SIGKILL)

    if step == "kill call":
        for first in range(0, 100, 25):
            some = spark.range(first, first + 25, 1, 1).selectExpr("id", "id % 3 AS k")
            some.write.format("delta").mode("append").save(f"{folder}/source")
        source = spark.read.format("delta").load(f"{folder}/source")
        counted(source).write.format("delta").save(f"{folder}/batch")
        is_struck = True
        threading.Thread(target=kill_when_struck, daemon=True).start()
    stream("sink").awaitTermination()
    stream("each").awaitTermination()
    return {name: rows(name) for name in ("batch", "sink", "each")}


def test_delta_is_source_and_sink_exactly_once_over_kills_of_the_driver(tmp_path: Path) -> None:
    jars = listed_jars("delta")
    if not jars:
        pytest.skip("Delta Lake is not there: make test-integration fetches it")

    def command(step: str) -> list[str]:
        return [sys.executable, "-c", app_text(app, step, str(tmp_path), ",".join(jars))]

    def killed(step: str) -> None:
        done = subprocess.run(
            command(step), env=environment(SOURCES), capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode != 0
        assert "ANSWER" not in done.stdout, done.stdout[-2000:]

    def batches(query: str, folder: str) -> int:
        return len(list(Path(tmp_path, f"checkpoint {query}", folder).glob("[0-9]*")))

    killed("kill call")
    assert Path(tmp_path, "struck kill call").exists()
    assert (batches("sink", "offsets"), batches("sink", "commits")) == (3, 2)
    killed("kill write")
    assert (batches("each", "offsets"), batches("each", "commits")) == (3, 2)
    for rows in answer_of(command("finish"), environment(SOURCES), LIMIT_S).values():
        assert_counted_once(rows)


def assert_counted_once(rows: list[list[int]]) -> None:
    """Each row once, and each key's numbers without a gap."""
    assert [row[:3] for row in rows] == [[n, 2 * n, n % 3] for n in range(ROWS)]
    for key in range(3):
        numbers = sorted(row[3] for row in rows if row[2] == key)
        assert numbers == list(range(1, len(range(key, ROWS, 3)) + 1))
