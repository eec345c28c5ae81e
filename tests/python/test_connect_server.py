"""Spark Connect with a server of its own, a client with ``pyspark-client`` alone, and workers that
have neither Pillarbox nor PySpark."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from connect_server import Server, connect_server, environments, run_client
from java_jars import compiled
from keyed.java_functions import SOURCE as COUNTING_SOURCE
from ports import free_port

# The applications below are sent as text: they see spark_apps' imports, not those above.

DOUBLE = """
package com.acme;

import io.pillarbox.api.AsyncFunction;
import io.pillarbox.api.ResultFuture;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

public class Double implements AsyncFunction<Row, Row> {
  public Double(Map<String, String> options) {}

  @Override public void asyncInvoke(Row row, ResultFuture<Row> future) {
    future.complete(List.of(RowFactory.create(2 * row.getLong(0))));
  }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with connect_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def batches(address, jar, log):  # type: ignore[no-untyped-def]
    import contextlib
    import glob
    import importlib.util

    spark = pb.configure(SparkSession.builder.remote(address)).getOrCreate()
    answers = {
        "client": [name for name in ("py4j", "pyspark.core") if importlib.util.find_spec(name)],
    }
    rows = spark.range(0, 40, 1, 2)
    keyed = rows.selectExpr("id % 3 as k", "id as v")

    async def where(row):
        import pyspark

        await asyncio.sleep(0.001)
        return sys.prefix, pyspark.__file__, pb.__file__

    returns = "prefix string, pyspark string, pillarbox string"
    found = pb.async_io(rows, where, returns=returns).drop("id").distinct().collect()
    answers["workers"] = [list(row) for row in found]

    async def limited(row, resource):
        def note(change):
            file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{os.getppid()} {change}\n".encode())
            os.close(file)

        note(1)
        await asyncio.sleep(0.03)
        note(-1)
        return row.id

    @contextlib.asynccontextmanager
    async def both_open():
        open(f"{log}.{os.getppid()}", "w").close()
        while len(glob.glob(f"{log}.*")) < 2:
            await asyncio.sleep(0.01)
        yield

    limit = pb.Limit(concurrency=4)
    many = pb.async_io(
        spark.range(0, 200, 1, 2), limited, returns="x long", limit=limit, resource=both_open
    )
    answers["limited"] = many.agg(F.sum("x")).first()[0]

    class Count(pb.KeyedProcessFunction):
        def open(self, ctx):
            self.n = ctx.value_state("n", "bigint")

        def process(self, row, ctx):
            n = (self.n.value() or 0) + 1
            self.n.update(n)
            if n == 2:
                ctx.output("second", {"v": row.v})
            yield {"k": ctx.key, "n": n}

    class Once(Count):
        def process(self, row, ctx):
            n = (self.n.value() or 0) + 1
            self.n.update(n)
            yield {"k": ctx.key, "n": n}

    class Counts(pb.ArrowKeyedProcessFunction):
        def open(self, ctx):
            self.n = ctx.value_state("n", "bigint")

        def process(self, batch, state, ctx):
            counts = pb.columns.running_count(state.index, state["n"])
            state["n"] = pb.columns.group_last(counts, state.index, state["n"])
            return {"k": batch["k"], "n": counts}

    class Slow(pb.AsyncKeyedProcessFunction):
        def open(self, ctx):
            self.n = ctx.value_state("n", "bigint")

        async def process(self, row, ctx):
            n = (self.n.value() or 0) + 1
            await asyncio.sleep(0.001)
            self.n.update(n)
            yield {"k": ctx.key, "n": n}

    def most(df):
        rows = df.groupBy("k").agg(F.max("n").alias("n")).collect()
        return sorted([row.k, row.n] for row in rows)

    returns = "k long, n long"
    sides = pb.process_keyed(
        keyed, Count(), by="k", returns=returns, side_outputs={"second": "v long"}
    )
    answers["row"] = most(pb.main_output(sides))
    answers["side"] = sorted(row.v for row in pb.side_output(sides, "second").collect())
    answers["column"] = most(pb.process_keyed_arrow(keyed, Counts(), by="k", returns=returns))
    answers["async"] = most(pb.process_keyed_async(keyed, Slow(), by="k", returns=returns))
    start = spark.createDataFrame([(0, 100), (1, 200)], "k long, n long")
    started = pb.process_keyed(
        keyed, Once(), by="k", returns=returns, initial_state=start, name="started"
    )
    answers["initial"] = most(started)
    answers["scan"] = most(pb.scan(keyed, by="k", state={"n": ("0L", "n + 1")}))

    double = pb.JvmFunction("com.acme.Double")
    counting = pb.JvmFunction("pillarbox.tests.Counting")

    def failure(action):
        try:
            action()
        except Exception as problem:
            ours = pb.failure_of(problem)
            told = [getattr(ours, name, None) for name in ("condition", "row", "traceback")]
            return [type(problem).__name__, str(problem), told]

    answers["no class"] = failure(lambda: pb.async_io(rows, double, returns="x long").collect())
    spark.addArtifacts(jar)
    doubled = pb.async_io(rows, double, returns="x long")
    answers["jvm"] = sorted(row.x for row in doubled.collect())
    texts = keyed.selectExpr("cast(k as string) k", "v")
    sides, returns = {"even": "n long"}, "k string, n long"
    counted = pb.process_keyed(texts, counting, by="k", returns=returns, side_outputs=sides)
    answers["jvm keyed"] = most(pb.main_output(counted))

    def fails(row):
        return {}[row.id]

    answers["failure"] = failure(lambda: pb.async_io(rows, fails, returns="x long").collect())
    metered = pb.async_io(rows, double, returns="x long", name="metered")
    metered.collect()
    told = {}
    for node in metered.executionInfo.metrics._metrics:
        told.update({metric.name: metric.value for metric in node.metrics})
    answers["metrics"] = told
    options = {"returns": "x long", "call_key": "no", "share_calls": True, "name": "asked"}
    answers["refused"] = failure(lambda: pb.async_io(rows, fails, **options))
    deep = rows
    for at in range(60):
        deep = deep.withColumn(f"c{at}", deep.id + at)
    deep = pb.async_io(deep, lambda row: row.c59, returns="x long")
    answers["deep"] = deep.agg(F.sum("x")).first()[0]
    twice = pb.async_io(rows, lambda row: row.id, returns="x long")
    joined = twice.join(twice.selectExpr("id as other", "x as y"), twice.id == F.col("other"))
    answers["self-join"] = joined.where(twice.x == F.col("y")).count()
    spark.stop()
    return answers


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the calls under a limit: the daemon of the executor's workers, and 1 or -1."""
    return tmp_path_factory.mktemp("calls") / "log"


@pytest.fixture(scope="module")
def answers(server: Server, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    sources = {"Double": DOUBLE, "Counting": COUNTING_SOURCE}
    jar = compiled(tmp_path_factory.mktemp("jar"), "user.jar", sources)
    return run_client(batches, server.address, str(jar), str(log))


COUNTS = [[0, 14], [1, 13], [2, 13]]


def test_client_and_workers_have_no_more_than_they_need(answers: Any) -> None:
    assert answers["client"] == []
    assert answers["workers"]
    for prefix, spark_at, ours_at in answers["workers"]:
        assert prefix == str(environments() / "workers")
        assert "pyspark.zip" in spark_at
        assert "pillarbox-spark_" in ours_at


def test_two_executors_share_the_limit_of_a_query(answers: Any, log: Path) -> None:
    """Both executors have a task open before either calls."""
    assert answers["limited"] == sum(range(200))
    notes = [line.split() for line in log.read_text().splitlines()]
    flying: Counter[str] = Counter()
    levels = []
    for executor, change in notes:
        flying[executor] += int(change)
        levels.append(dict(flying))
    assert len(notes) == 400
    assert max(sum(level.values()) for level in levels) == 4
    shared = [level for level in levels if len(level) == 2 and all(level.values())]
    assert len(shared) > 20


@pytest.mark.parametrize("form", ["row", "column", "async", "scan"])
def test_each_form_keeps_its_state(answers: Any, form: str) -> None:
    assert answers[form] == COUNTS


def test_side_outputs_and_initial_state(answers: Any) -> None:
    assert len(answers["side"]) == 3
    assert answers["initial"] == [[0, 114], [1, 213], [2, 13]]


def test_functions_of_the_jvm_come_by_artifact(answers: Any) -> None:
    assert "com.acme.Double" in answers["no class"][1]
    assert answers["jvm"] == [2 * i for i in range(40)]
    assert answers["jvm keyed"] == [["0", 13], ["1", 13], ["2", 13]]


def test_the_users_traceback_arrives(answers: Any) -> None:
    kind, text, (name, row, traceback) = answers["failure"]
    assert (kind, name) == ("PythonException", "ASYNC_CALL_FAILED")
    assert row.startswith("id=")
    assert "return {}[row.id]" in text or "in fails" in traceback
    assert traceback.splitlines()[-1].startswith("KeyError: ")


def test_what_can_not_work_is_refused_before_any_job(answers: Any) -> None:
    kind, text, _ = answers["refused"]
    assert kind == "InvalidOption"
    assert "UNKNOWN_COLUMN" in text


def test_metrics_are_in_the_execution_info(answers: Any) -> None:
    assert answers["metrics"]["calls"] == 40


def test_plans_may_be_deep_and_used_twice(answers: Any) -> None:
    assert answers["deep"] == sum(range(40)) + 40 * 59
    assert answers["self-join"] == 40


def after_another_session(address):  # type: ignore[no-untyped-def]
    """The first session of the process stays its active one, also when it has ended."""
    first = SparkSession.builder.remote(address).create()
    first.range(1).collect()
    second = SparkSession.builder.remote(address).create()
    first.stop()

    async def double(row):
        return 2 * row.id

    class Counts(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            ctx.output("side", (row.id,))
            yield (row.id,)

    calls = pb.async_io(second.range(3), double, returns="v long")
    keyed = pb.process_keyed(
        calls, Counts(), by="id", returns="id long", side_outputs={"side": "id long"}
    )
    counted = pb.main_output(keyed).count(), pb.side_output(keyed, "side").count()
    problem = None
    try:
        pb.async_io(second.range(3), double, returns="v lng")
    except pb.InvalidSchema as refused:
        problem = refused.condition
    second.stop()
    return [*counted, problem]


@pytest.mark.nightly
def test_a_session_works_after_the_one_that_was_there_first(server: Server) -> None:
    assert run_client(after_another_session, server.address) == [3, 3, "INVALID_RETURNS"]


def two_sessions(address, libraries):  # type: ignore[no-untyped-def]
    import time

    first, second = (SparkSession.builder.remote(address).create() for _ in range(2))

    def version(row):
        import mylib

        return mylib.VERSION

    class Versions(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            import mylib

            yield {"v": mylib.VERSION}

    def seen(spark):
        rows = spark.range(0, 20, 1, 2)
        calls = pb.async_io(rows, version, returns="v int").select("v")
        keyed = pb.process_keyed(rows, Versions(), by="id", returns="v int")
        return [row.v for row in calls.union(keyed).distinct().collect()]

    for session, library in zip((first, second), libraries, strict=True):
        session.addArtifacts(library, pyfile=True)

    def streamed(spark):
        """Before any batch of the session, whose files the executors would have then."""
        rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        rows = rows.withColumnRenamed("value", "id")
        calls = pb.async_io(rows, version, returns="v int").select("v", "id")
        out = pb.process_keyed(calls, Versions(), by="id", returns="v int")
        query = out.writeStream.format("memory").queryName("versions").start()
        while query.isActive and not spark.table("versions").count():
            time.sleep(0.2)
        problem = query.exception()
        query.stop()
        assert problem is None, str(problem)
        return [row.v for row in spark.table("versions").distinct().collect()]

    answers = [streamed(first), streamed(second)]
    answers += [seen(session) for session in (first, second, first)]
    second.range(1).selectExpr("id", "1 as n").createTempView("begin")
    options = {"by": "id", "returns": "v int", "initial_state": second.table("begin")}
    try:
        pb.process_keyed(first.range(1), Versions(), **options)
    except pb.InvalidOption as problem:
        answers.append(str(problem))
    for session in (first, second):
        session.stop()
    return answers


@pytest.mark.nightly
def test_two_sessions_see_their_own_files(server: Server, tmp_path: Path) -> None:
    libraries = []
    for version in (1, 2):
        folder = tmp_path / str(version)
        folder.mkdir()
        (folder / "mylib.py").write_text(f"VERSION = {version}\n")
        libraries.append(str(folder / "mylib.py"))
    *seen, refused = run_client(two_sessions, server.address, libraries)
    assert seen == [[1], [2], [1], [2], [1]]
    assert refused.startswith("[OTHER_SESSION] initial_state is a DataFrame of another")


def interrupted(address, log):  # type: ignore[no-untyped-def]
    import threading
    import time

    spark = SparkSession.builder.remote(address).getOrCreate()

    async def hangs(row):
        with open(log, "a") as file:
            file.write(f"start {row.id}\n")
        try:
            await asyncio.sleep(600)
        finally:
            with open(log, "a") as file:
                file.write(f"cancelled {row.id}\n")

    told = []

    def run():
        try:
            pb.async_io(spark.range(0, 4, 1, 2), hangs, returns="x long").collect()
        except Exception as problem:
            told.append(str(problem))

    def lines(word):
        if not os.path.exists(log):
            return []
        with open(log) as file:
            return [line for line in file if line.startswith(word)]

    thread = threading.Thread(target=run)
    thread.start()
    while len(lines("start")) < 4:
        time.sleep(0.05)
    begun = time.monotonic()
    spark.interruptAll()
    thread.join(60)
    took = time.monotonic() - begun
    while len(lines("cancelled")) < 4 and time.monotonic() - begun < 60:
        time.sleep(0.05)
    left = pb.async_io(spark.range(3), lambda row: row.id, returns="x long").count()
    spark.stop()
    return [told, took, len(lines("cancelled")), left]


@pytest.mark.nightly
def test_an_interrupt_ends_the_job_and_cancels_its_calls(server: Server, tmp_path: Path) -> None:
    (told,), took, cancelled, left = run_client(
        interrupted, server.address, str(tmp_path / "calls")
    )
    assert "OPERATION_CANCELED" in told
    assert took < 10
    assert (cancelled, left) == (4, 3)


def stream(address, folder, last):  # type: ignore[no-untyped-def]
    """One file of 30 rows a run; the query of the first run is not stopped."""
    spark = SparkSession.builder.remote(address).getOrCreate()
    rows = spark.range(30).selectExpr("id % 3 as k", "timestamp_seconds(id) as t")
    rows.coalesce(1).write.mode("append").parquet(f"{folder}/in")

    class Count(pb.KeyedProcessFunction):
        def open(self, ctx):
            self.n = ctx.value_state("n", "bigint")

        def process(self, row, ctx):
            n = (self.n.value() or 0) + 1
            self.n.update(n)
            ctx.timers.register_event_time(1_000_000_000)
            yield {"k": ctx.key, "n": n}

        def on_timer(self, timestamp, ctx):
            return None

    def outcome(row):
        return row.n * 10

    read = spark.readStream.schema("k long, t timestamp").parquet(f"{folder}/in")
    keyed = pb.process_keyed(
        read.withWatermark("t", "1 second"), Count(), by="k", returns="k long, n long", name="count"
    )
    called = pb.async_io(keyed, outcome, returns="x long")
    query = (
        called.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start(f"{folder}/out")
    )
    query.processAllAvailable()
    out = sorted([row.k, row.n, row.x] for row in spark.read.parquet(f"{folder}/out").collect())
    states = pb.read_state(spark, f"{folder}/checkpoint", "count", "n")
    answer = {
        "out": out,
        "state": sorted([row.key.k, row.value] for row in states.collect()),
        "timers": pb.read_state(spark, f"{folder}/checkpoint", 0, pb.TIMERS).count(),
        "rows": [p.stateOperators[0].numRowsTotal for p in query.recentProgress][-1:],
        "metrics": sorted(query.lastProgress.stateOperators[0].customMetrics),
    }
    if not last:
        print("ANSWER " + json.dumps(answer), flush=True)
        os._exit(0)
    query.stop()
    spark.stop()
    return answer


@pytest.mark.nightly
def test_a_stream_goes_on_after_its_server_was_killed(tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "stream"
    folder.mkdir()
    with connect_server(tmp_path / "one", port=port) as server:
        first = run_client(stream, server.address, str(folder), False)
        server.kill()
    with connect_server(tmp_path / "two", port=port) as server:
        second = run_client(stream, server.address, str(folder), True)
    for answer, most in ((first, 10), (second, 20)):
        expected = [[k, n, 10 * n] for k in range(3) for n in range(1, most + 1)]
        assert answer["out"] == expected
        assert answer["state"] == [[k, most] for k in range(3)]
        assert answer["timers"] == 3
        assert answer["rows"] == [3]
        assert "numEventTimersFired" in answer["metrics"]


def greeted(address, parameters=""):  # type: ignore[no-untyped-def]
    def refusal(action):
        try:
            return [row.x for row in action().collect()]
        except Exception as problem:
            return [type(problem).__name__, str(problem)]

    import logging

    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("pillarbox").addHandler(handler)
    spark = SparkSession.builder.remote(address + parameters).getOrCreate()
    rows = spark.range(3)

    class Nothing(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            return None

    answers = {
        "auto": refusal(lambda: pb.async_io(rows, lambda row: row.id, returns="x long")),
        "jvm": refusal(
            lambda: pb.async_io(rows, lambda row: row.id, returns="x long", engine="jvm")
        ),
        "keyed": refusal(lambda: pb.process_keyed(rows, Nothing(), by="id", returns="x long")),
        "said": said,
    }
    spark.stop()
    return answers


@pytest.mark.nightly
@pytest.mark.parametrize("jar", [False, True], ids=["plugin named, no jar", "jar, no plugin"])
def test_a_server_that_lacks_something_is_told_what_to_start_with(
    tmp_path: Path, jar: bool
) -> None:
    with connect_server(tmp_path / "server", jar=jar, plugin=not jar) as server:
        answers = run_client(greeted, server.address)
    for what in ("jvm", "keyed"):
        kind, text = answers[what]
        assert kind == "EngineUnavailable"
        assert "the Spark Connect server of this session has no Pillarbox plugin" in text
        assert "Start the server with --jars " in text
        assert "spark.connect.extensions.relation.classes=io.pillarbox.spark.connect." in text
    assert answers["auto"] == [0, 1, 2]
    assert 'takes "python"' in answers["said"][0]
    assert "Start the server" in answers["said"][0]


def without_pyspark(address):  # type: ignore[no-untyped-def]
    spark = SparkSession.builder.remote(address).getOrCreate()
    told = {}
    for engine in ("auto", "python"):
        try:
            pb.async_io(spark.range(3), lambda r: r.id, returns="x long", engine=engine).collect()
        except Exception as problem:
            told[engine] = str(pb.failure_of(problem))
    return told


@pytest.mark.nightly
def test_workers_that_have_no_pyspark_at_all_are_told_as_that(tmp_path: Path) -> None:
    """Not even the one of SPARK_HOME, which is put together without its folder ``python``."""
    home = tmp_path / "home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    with connect_server(tmp_path / "server", home=home) as server:
        told = run_client(without_pyspark, server.address)
    assert set(told) == {"auto", "python"}
    for text in told.values():
        assert text.startswith("[PYSPARK_NOT_ON_WORKERS] The Python of the workers, ")
        assert str(environments() / "workers/bin/python") in text


@pytest.mark.nightly
def test_a_client_is_let_in_by_its_token(tmp_path: Path) -> None:
    settings = {"spark.connect.authenticate.token": "sesame"}
    with connect_server(tmp_path / "server", settings=settings) as server:
        address = server.address.replace("127.0.0.1", "localhost")
        answers = run_client(greeted, address, "/;token=sesame")
        refused = run_client(greeted, address, "/;token=open")
    assert answers["auto"] == [0, 1, 2]
    assert answers["jvm"] == [0, 1, 2]
    assert "token" in refused["jvm"][1]
