"""A driver that runs programs, each in a session and a thread of its own: ``python -m kills.app FOLDER SETTINGS``.

What a query puts out goes to a file a micro-batch, which one that runs again writes anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.order_function import INPUT, FoldsColumns, Plays
from keyed.order_runners import DELAY_MS, OnSpark
from kills.programs import Calls, Program, Start, program
from spark_support import FILE_MANAGER

QUESTIONS = "id bigint, tenant string, ask string"
#: How often a query that fails is started again.
MOST_STARTS = 12


@dataclass(frozen=True)
class Gate:
    """The way to the service, from drivers and workers; ``start`` is that of the query."""

    port: int
    seed: int
    start: int = -1

    def line(self, op: str, what: dict[str, Any]) -> bytes:
        own = {"seed": self.seed, "start": self.start, "pid": os.getpid()}
        return json.dumps({"op": op, **own, **what}).encode() + b"\n"

    def tell(self, op: str, **what: Any) -> dict[str, Any]:
        """Waits for the reply in the thread."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(self.line(op, what))
            return replied(connection.makefile().readline())

    async def ask(self, op: str, **what: Any) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        try:
            writer.write(self.line(op, what))
            return replied((await reader.readline()).decode())
        finally:
            writer.close()


def replied(line: str) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(line) if line else {"again": "the service hung up"}
    if "again" in reply:
        raise ConnectionError(reply["again"])
    if "never" in reply:
        raise pb.NotRetryable(reply["never"])
    return reply


def request(rows: list[Any]) -> dict[str, Any]:
    return asking([row.ask for row in rows], getattr(rows[0], "tenant", ""))


def asking(asks: list[str], tenant: str = "") -> dict[str, Any]:
    return {"asks": asks, "tenant": tenant, "ids": list(pb.current_call().ids)}


def function_of(form: str, gate: Gate) -> Any:
    async def one(row: Any) -> Any:
        return (await gate.ask("call", **request([row])))["answers"][0]

    def plain(row: Any) -> Any:
        return gate.tell("call", **request([row]))["answers"][0]

    async def several(rows: list[Any]) -> Any:
        return (await gate.ask("call", **request(rows)))["answers"]

    async def value(ask: str) -> str:
        return str((await gate.ask("call", **asking([ask])))["answers"][0])

    async def submit(rows: list[Any]) -> Any:
        key = pb.current_call().id
        return (await gate.ask("submit", **request(rows), key=key))["ticket"]

    async def collect(ticket: str) -> Any:
        return (await gate.ask("collect", ticket=ticket))["answers"]

    forms: dict[str, Any] = {"def": plain, "list": several, "udf": value}
    return pb.Ticketed(submit, collect, poll="30ms") if form == "tickets" else forms.get(form, one)


def with_calls(rows: DataFrame, does: Calls, gate: Gate, folder: Path) -> DataFrame:
    """The columns id, ask, answer (what was asked, as the service has it), and kind of an error."""
    options: dict[str, Any] = {
        "capacity": does.capacity, "retry": pb.Retry(5, backoff="1ms"), "on_error": "column", "name": "asks",
    }  # fmt: skip
    if does.journal:
        options["journal"] = str(folder / "journal")
    if does.share:
        options["share_calls"] = does.share
    if does.concurrency or does.per_second:
        key = {"key": "tenant"} if does.limit_key else {}
        options["limit"] = pb.Limit(concurrency=does.concurrency, per_second=does.per_second, **key)
    if does.max_calls:
        options["budget"] = pb.Budget(max_calls=does.max_calls, on_exceeded="skip")
    if does.form in ("list", "tickets"):
        options["batch_size"] = pb.BatchSize(4, wait="5ms")
    function = function_of(does.form, gate)
    if does.form == "udf":
        udf = pb.async_udf(function, returns="string", **options)
        answered = rows.select("id", "ask", udf("ask").alias("a"))
        return answered.select("id", "ask", F.col("a.value").alias("answer"), F.col("a.error.kind"))
    if does.call_key:
        options["call_key"] = "ask"
    if does.by:
        options["by"] = "tenant"
    if does.mode == "carry_over":
        options["carry_over"] = pb.CarryOver(slots=2)
    if does.form == "python":
        options["engine"] = "python"
    inputs = ["ask", "tenant"] if does.limit_key else "ask"
    answered = rows.transform(
        pb.async_io, function, returns="answer string", inputs=inputs, ordered=does.ordered, **options
    )
    return answered.select("id", "ask", "answer", "error.kind")


class Sums(pb.AsyncKeyedProcessFunction):
    """Counts the rows of a key, with a call for each of them."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def open(self, ctx: Any) -> None:
        self.count = ctx.value_state("count", "bigint")
        self.rows = ctx.list_state("rows", "bigint")

    async def process(self, row: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.rows.add(row.id)
        answer = (await self.gate.ask("call", **request([row])))["answers"][0]
        return ctx.key, count, json.dumps([row.id, answer, list(self.rows.get())])


class GatedRows(Plays):
    def __init__(self, on: dict[str, str], gate: Gate) -> None:
        super().__init__(on)
        self.gate = gate

    def process(self, row: Any, ctx: Any) -> Any:
        self.gate.tell("row")
        return super().process(row, ctx)


class GatedColumns(FoldsColumns):
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        self.gate.tell("row")
        return super().process(batch, state, ctx)


class Gated(OnSpark):
    gate: Gate

    def rows_function(self) -> Any:
        return GatedRows(self.group.on, self.gate)

    def columns_function(self) -> Any:
        return GatedColumns(self.gate)


def keyed(rows: DataFrame, of: Program, start: Start, gate: Gate) -> DataFrame:
    if of.golden:
        played = Gated(rows.sparkSession, of.group(), of.does.form, start.backend)
        played.gate = gate
        return played._transformed(rows)
    return rows.transform(
        pb.process_keyed_async, Sums(gate), by="tenant", returns="k string, n bigint, told string",
        order_by="id", capacity=of.does.capacity, retry=pb.Retry(5, backoff="1ms"), backend=start.backend,
        name="sums",
    )  # fmt: skip


def session_of(spark: SparkSession, of: Program, start: Start) -> SparkSession:
    session = spark.newSession()
    for key, value in {
        "spark.sql.shuffle.partitions": start.partitions,
        "spark.sql.leafNodeDefaultParallelism": start.cores,
        "spark.sql.files.openCostInBytes": 1,
        "spark.sql.streaming.stateStore.checkpointFormatVersion": of.format,
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution."
        "streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.minBatchesToRetain": 5,
        "spark.pillarbox.state.snapshotEvery": 3,
    }.items():
        session.conf.set(key, str(value))
    return session


def write(folder: Path, number: int, rows: list[Any]) -> None:
    out = folder / "out"
    out.mkdir(exist_ok=True)
    unfinished = out / f".{number}"
    unfinished.write_text(json.dumps([list(row) for row in rows]))
    unfinished.rename(out / f"{number}.json")


def transformed(spark: SparkSession, of: Program, start: Start, gate: Gate, folder: Path) -> DataFrame:
    session = session_of(spark, of, start)
    schema = INPUT if of.golden else QUESTIONS
    if isinstance(of.does, Calls) and of.does.mode == "batch":
        return with_calls(session.read.schema(schema).json(f"{folder}/in"), of.does, gate, folder)
    rows = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(f"{folder}/in")
    if isinstance(of.does, Calls):
        return with_calls(rows, of.does, gate, folder)
    return keyed(rows, of, start, gate)


def run(spark: SparkSession, of: Program, gate: Gate, folder: Path) -> None:
    """Once from where it stands to the end."""
    result = transformed(spark, of, of.starts[gate.start % len(of.starts)], gate, folder)
    if not result.isStreaming:
        write(folder, 0, result.collect())
        return

    def sink(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        gate.tell("sink", batch=number, rows=[list(row) for row in rows])
        write(folder, number, rows)
        gate.tell("written", batch=number)

    writer = result.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).foreachBatch(sink).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def live(spark: SparkSession, of: Program, port: int, folder: Path) -> None:
    """Starts it again when it fails."""
    gate = Gate(port, of.seed)
    for _ in range(MOST_STARTS):
        start = gate.tell("started", how=asdict(of.starts[0]))["start"]
        try:
            run(spark, of, Gate(port, of.seed, start), folder)
        except Exception as problem:
            gate.tell("failed", told=f"{type(problem).__name__}: {problem}"[:3000])
            continue
        gate.tell("done")
        return
    gate.tell("gave up")


def main() -> None:
    folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    builder = SparkSession.builder.config("spark.local.dir", f"{folder}/local")
    for key, value in settings["conf"].items():
        builder = builder.config(key, value)
    spark = pb.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    threads = [
        threading.Thread(target=live, args=(spark, program(seed), settings["port"], folder / str(seed)))
        for seed in settings["seeds"]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spark.stop()


if __name__ == "__main__":
    main()
