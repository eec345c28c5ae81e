"""A streaming query that tests kill again and again: ``python chaos_app.py '<settings as JSON>'``.

A file is given to it when all before it is processed, so micro-batches see the same watermarks in
every run, and nothing that it puts out tells the wall clock: every run must end with the same rows.

Reads commands on its standard input (``task``: kill a running task; ``job``: cancel the jobs that
run, which fails the query; it is started again), and leaves the rows of the sink in a file. Tells
on standard error what it killed and why the query failed.

A setting ``partitions`` is a list: each start of the query takes the next number of partitions.

A setting ``beside`` makes a second query over the same files, with what it has in the place of the
first one's settings. Files are handed out to the first, and come to the second whatever it has in
flight.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb

INPUT = "seq bigint, k string, v bigint, ts timestamp, what string"
RETURNS = "k string, what string, n bigint, told string"


class Ledger(pb.KeyedProcessFunction):
    """All kinds of state, event-time TTL, and both kinds of timers, set, moved and deleted."""

    def __init__(self, slow_s: float) -> None:
        self.slow_s = slow_s

    def open(self, ctx: Any) -> None:
        ttl = pb.StateTtl("20 seconds", time_domain="event_time")
        self.count = ctx.value_state("count", "bigint")
        self.recent = ctx.list_state("recent", "bigint", ttl=ttl)
        self.last = ctx.map_state("last", "string", "bigint", ttl=ttl)
        self.total = ctx.reducing_state("total", "bigint", lambda a, b: a + b)
        self.rung = ctx.value_state("rung", "struct<times: bigint, at: bigint>")

    def process(self, row: Any, ctx: Any) -> Any:
        if self.slow_s:
            time.sleep(random.random() * self.slow_s)
        if row.what == "dump":
            yield {"k": ctx.key, "what": "state", "n": -1, "told": self.told(ctx)}
        elif row.what == "row":
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            self.recent.add(row.v)
            self.last.put(f"kind {row.v % 3}", row.seq)
            self.total.add(row.v)
            if row.v % 5 == 0:
                ctx.timers.delete_event_time(ctx.timestamp + 2000)
                self.last.remove("kind 1")
            else:
                ctx.timers.register_event_time(ctx.timestamp - ctx.timestamp % 1000 + 4000)
            ctx.timers.register_processing_time(ctx.processing_time + 1)
            told = f"{row.seq} {sorted(self.recent.get())} {self.total.get()}"
            yield {"k": ctx.key, "what": "row", "n": count, "told": told}

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if ctx.time_domain == "event_time":
            told = f"{timestamp} {sorted(self.recent.get())} {sorted(self.last.items())}"
            yield {"k": ctx.key, "what": "event", "n": self.count.value(), "told": told}
        else:
            times = 1 if self.rung.value() is None else self.rung.value().times + 1
            self.rung.update((times, 0))
            yield {"k": ctx.key, "what": "clock", "n": times, "told": ""}

    def told(self, ctx: Any) -> str:
        state = [self.count.value(), sorted(self.recent.get()), sorted(self.last.items())]
        timers = [timer[1] for timer in sorted(ctx.timers.list()) if timer[0] == "event"]
        return json.dumps([*state, self.total.get(), timers])


class AsyncLedger(pb.AsyncKeyedProcessFunction):
    """The rows of a ``Ledger`` as calls, some of which fail or hang after they have written."""

    open = Ledger.open

    async def process(self, row: Any, ctx: Any) -> Any:
        if row.what == "dump":
            state = [self.count.value(), sorted(self.recent.get()), sorted(self.last.items())]
            told = json.dumps([*state, self.total.get()])
            return {"k": ctx.key, "what": "state", "n": -1, "told": told}
        if row.what != "row":
            return None
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.recent.add(row.v)
        await asyncio.sleep(random.random() * 0.03)
        self.last.put(f"kind {row.v % 3}", row.seq)
        if row.v % 5 == 0:
            self.last.remove("kind 1")
        self.total.add(row.v)
        fate = random.random()
        if fate < 0.3:
            await asyncio.sleep(60 if fate < 0.1 else 0)
            raise ConnectionError("try again")
        await asyncio.sleep(random.random() * 0.03)
        told = f"{row.seq} {sorted(self.recent.get())} {self.total.get()}"
        return {"k": ctx.key, "what": "row", "n": count, "told": told}


async def looked_up(row: Any) -> dict[str, Any]:
    """Most calls take 20 ms; some outlive the micro-batches after theirs."""
    await asyncio.sleep(1.5 if row.seq % 13 == 5 else 0.02)
    return {"n": row.seq, "told": f"{row.k} {row.v}"}


def carried(rows: DataFrame, settings: dict[str, Any]) -> DataFrame:
    """Async I/O with carry-over; then the rows, or windows of them."""
    answers = rows.withWatermark("ts", "60 seconds").transform(
        pb.async_io,
        looked_up,
        returns="n bigint, told string",
        ordered=settings["ordered"],
        capacity=20,
        carry_over=pb.CarryOver(slots=3),
        name="looked_up",
        journal=settings.get("journal"),
    )
    if settings["after"] == "rows":
        return answers.select("k", "what", "n", "told")
    counted = answers.groupBy(F.window("ts", "5 seconds"), "k").agg(
        F.max("what").alias("what"), F.sum("n").alias("n"), F.count("*").alias("rows")
    )
    told = F.concat(F.col("window.start").cast("string"), F.lit(" "), F.col("rows"))
    return counted.select("k", "what", "n", told.alias("told"))


def processed(rows: DataFrame, settings: dict[str, Any]) -> DataFrame:
    if "after" in settings:
        return carried(rows, settings)
    ledger: Any = Ledger(settings.get("slow_s", 0.0))
    process: Any = pb.process_keyed
    calls: dict[str, Any] = {}
    if settings.get("async"):
        ledger, process = AsyncLedger(), pb.process_keyed_async
        calls = {
            "timeout": pb.Timeout(attempt="150 ms"),
            "retry": pb.Retry(100, backoff="5 ms"),
            "capacity": 3,
        }
    return rows.withWatermark("ts", "3 seconds").transform(
        process,
        ledger,
        by="k",
        returns=RETURNS,
        **calls,
        backend=settings["backend"],
        **({"time_sorted": True} if settings["time_sorted"] else {"order_by": "seq"}),
    )


def start(spark: SparkSession, settings: dict[str, Any]) -> Any:
    """To a file sink; under checkpoint format 2 to a folder a batch instead.

    Spark's file sink does not run a batch again that it has, and so can't tell the ids of the
    state that the batch left: under format 2 a crash between sink and query is for ever.
    """
    folder = settings["folder"]
    if "partitions" in settings and "after" not in settings:
        spark.conf.set("spark.sql.shuffle.partitions", next_number(settings))
    rows = spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1)
    given = settings.get("given", f"{folder}/in")
    writer = processed(rows.json(given), settings).writeStream.option(
        "checkpointLocation", settings.get("checkpoint", f"{folder}/checkpoint")
    )
    if settings["conf"].get("spark.sql.streaming.stateStore.checkpointFormatVersion") != "2":
        return writer.format("json").start(f"{folder}/out")

    def overwrite(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").json(f"{folder}/out/batch-{number}")

    return writer.foreachBatch(overwrite).start()


def next_number(settings: dict[str, Any]) -> str:
    """Of the starts, in all drivers."""
    with open(f"{settings['folder']}/starts", "a+") as starts:
        starts.write("x")
        number = starts.tell() - 1
    numbers = settings["partitions"]
    return str(numbers[number % len(numbers)])


def parts_of(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings of each query, those first that files are handed out to."""
    if "beside" not in settings:
        return [settings]
    folder = settings["folder"]
    other = {"folder": f"{folder}/beside", "given": f"{folder}/in", **settings["beside"]}
    return [settings, {**settings, **other}]


def process_all(query: Any, settings: dict[str, Any]) -> None:
    """Hands out file after file. What an earlier run handed out counts."""
    given = f"{settings['folder']}/in"
    if "after" in settings:
        hand_out(query, settings, given)
        return
    query.processAllAvailable()
    for name in sorted(os.listdir(settings["input"])):
        if not os.path.exists(f"{given}/{name}"):
            os.link(f"{settings['input']}/{name}", f"{given}/{name}")
            query.processAllAvailable()


def hand_out(query: Any, settings: dict[str, Any], given: str) -> None:
    """A file now and then, whatever is in flight: what comes out does not depend on when."""
    for name in sorted(os.listdir(settings["input"])):
        if not os.path.exists(f"{given}/{name}"):
            os.link(f"{settings['input']}/{name}", f"{given}/{name}")
            if query.awaitTermination(0.7):
                break
    query.processAllAvailable()


def tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} chaos: {what}", file=sys.stderr, flush=True)


def run(spark: SparkSession, settings: dict[str, Any]) -> list[list[Any]]:
    """Processes all, starting again whenever the query fails; all that is in the sink then."""
    failures = 0
    os.makedirs(f"{settings['folder']}/in", exist_ok=True)
    parts = parts_of(settings)
    while True:
        queries: list[Any] = []
        try:
            for part in parts:
                queries.append(start(spark, part))
            process_all(queries[0], settings)
            for query in queries:
                query.processAllAvailable()
            break
        except Exception as problem:
            failures += 1
            tell(f"failure {failures} of the query: {str(problem)[:1500]}")
            if failures > settings["restarts"]:
                raise
        finally:
            for query in queries:
                query.stop()
    with Orders.lock:
        Orders.over = True
    nothing_is_left(spark)
    return [row for part in parts for row in sink(spark, part)]


def undisturbed(spark: SparkSession, settings: dict[str, Any]) -> list[list[Any]]:
    """All that is in the sink after a run in a session of the caller's."""
    os.makedirs(f"{settings['folder']}/in")
    query = start(spark, settings)
    try:
        process_all(query, settings)
    finally:
        query.stop()
    return sink(spark, settings)


def sink(spark: SparkSession, settings: dict[str, Any]) -> list[list[Any]]:
    reader = spark.read.schema(RETURNS)
    if os.path.exists(f"{settings['folder']}/out/batch-0"):
        reader = reader.option("recursiveFileLookup", True)
    out = reader.json(f"{settings['folder']}/out")
    return [list(row) for row in out.orderBy(*out.columns).collect()]


def nothing_is_left(spark: SparkSession) -> None:
    """Whatever was killed, no live executor keeps local folders of a query that has ended."""

    def here(_: Any) -> list[str]:
        folder = os.path.dirname(os.environ["SPARK_LOCAL_DIRS"].split(",")[0])
        return [name for name in os.listdir(folder) if name.startswith("pillarbox-")]

    deadline = time.monotonic() + 60
    while True:
        found = spark.sparkContext.parallelize(range(16), 16).mapPartitions(here).distinct()
        left = sorted(found.collect())
        if not left:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(left)} local folders are left: {left}")
        time.sleep(1)


class Orders:
    """Whether to kill is over: reading the sink is none of what is tested."""

    lock = threading.Lock()
    over = False


def obey(spark: SparkSession) -> None:
    """Does what the lines on standard input say."""
    for line in sys.stdin:
        strike = cancel_jobs if line.strip() == "job" else kill_a_task
        done = None
        while done is None and not Orders.over:
            with Orders.lock:
                done = None if Orders.over else strike(spark)
            time.sleep(0.005)
        tell(f"killed {done}" if done else f"too late for a {line.strip()}")


def cancel_jobs(spark: SparkSession) -> str | None:
    """Cancels the jobs that run, if any do; tells which."""
    jobs = spark.sparkContext.statusTracker().getActiveJobsIds()
    if not jobs:
        return None
    spark.sparkContext.cancelAllJobs()
    return f"jobs {list(jobs)}"


def kill_a_task(spark: SparkSession) -> str | None:
    """Kills the first task that is seen running, if one is; tells which."""
    sc: Any = spark.sparkContext._jsc.sc()
    stages = sc.statusStore().activeStages()
    for i in range(stages.size()):
        stage = stages.apply(i)
        tasks = sc.statusStore().taskList(stage.stageId(), stage.attemptId(), 100)
        for j in range(tasks.size()):
            task = tasks.apply(j)
            if task.status() == "RUNNING" and sc.killTaskAttempt(task.taskId(), True, "a test"):
                return f"task {task.taskId()} of stage {stage.stageId()}"
    return None


def session(settings: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.master(settings["master"])
    # Not where other sessions of this machine have their local folders.
    builder = builder.config("spark.local.dir", f"{settings['folder']}/local")
    for key, value in settings["conf"].items():
        builder = builder.config(key, value)
    spark = pb.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel(settings.get("log", "OFF"))
    return spark


def main() -> None:
    settings = json.loads(sys.argv[1])
    spark = session(settings)
    threading.Thread(target=obey, args=(spark,), daemon=True).start()
    rows = run(spark, settings)
    with open(f"{settings['folder']}/answer.tmp", "w") as file:
        json.dump(rows, file)
    os.rename(f"{settings['folder']}/answer.tmp", f"{settings['folder']}/answer.json")
    spark.stop()


if __name__ == "__main__":
    main()
