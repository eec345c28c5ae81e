"""A driver that runs programs, each in a session and a thread of its own.

``python -m kills.app FOLDER SETTINGS``. What a query puts out goes to a file a micro-batch, which
one that runs again writes anew.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.order_function import INPUT
from keyed.order_runners import OnSpark
from kills.functions import Gate, GatedColumns, GatedRows, Sums, function_of
from kills.programs import Calls, Program, Start, program
from spark_support import FILE_MANAGER

QUESTIONS = "id bigint, tenant string, ask string"
#: How often a query that fails is started again.
MOST_STARTS = 12
RETRY = pb.Retry(5, backoff="1ms")


def with_calls(rows: DataFrame, does: Calls, gate: Gate, folder: Path) -> DataFrame:
    """The columns id, ask, answer (what was asked, as the service has it), and kind of an error."""
    options: dict[str, Any] = {"capacity": does.capacity, "on_error": "column", "name": "asks"}
    options["retry"] = RETRY
    if does.journal:
        options["journal"] = str(folder / "journal")
    if does.share:
        options["share_calls"] = does.share
    if does.concurrency or does.per_second:
        key = {"key": "tenant"} if does.limit_key else {}
        options["limit"] = pb.Limit(concurrency=does.concurrency, per_second=does.per_second, **key)
    if does.max_calls:
        keep = str(folder / "budget") if does.keep else None
        options["budget"] = pb.Budget(max_calls=does.max_calls, on_exceeded="skip", keep=keep)
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
        pb.async_io,
        function,
        returns="answer string",
        inputs=inputs,
        ordered=does.ordered,
        **options,
    )
    return answered.select("id", "ask", "answer", "error.kind")


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
        order_by="id", capacity=of.does.capacity, retry=RETRY,
        backend=start.backend, name="sums",
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


def transformed(
    spark: SparkSession, of: Program, start: Start, gate: Gate, folder: Path
) -> DataFrame:
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
        threading.Thread(
            target=live, args=(spark, program(seed), settings["port"], folder / str(seed))
        )
        for seed in settings["seeds"]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spark.stop()


if __name__ == "__main__":
    main()
