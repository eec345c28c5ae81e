"""Real-time mode from Kafka to Kafka: what a row waits for beside its call."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_broker import broker, connector_jars

from java_jars import compiled
from spark_apps import SOURCES, answer_of, app_text, environment

pytestmark = pytest.mark.kafka

ROWS = 150

LATER = """
import java.util.concurrent.*;
import org.apache.spark.sql.*;
import io.pillarbox.api.*;

public class Later implements AsyncFunction<Row, Row> {
  private static final ScheduledExecutorService POOL = Executors.newScheduledThreadPool(1, body -> {
    Thread thread = new Thread(body);
    thread.setDaemon(true);
    return thread;
  });

  public void asyncInvoke(Row row, ResultFuture<Row> future) {
    long start = System.nanoTime();
    Runnable answer = () -> future.completeOne(RowFactory.create(System.nanoTime() - start));
    POOL.schedule(answer, 20, TimeUnit.MILLISECONDS);
  }
}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.mark.parametrize("kind", ["python", "jvm"])
def test_a_row_waits_at_the_operator_for_little_more_than_its_call(
    kind: str, address: str, tmp_path: Path
) -> None:
    jars = f"{connector_jars()},{compiled(tmp_path, 'later.jar', {'Later': LATER})}"

    def app(kind, jars, address, folder, count):  # type: ignore[no-untyped-def]
        import time

        builder = build({"spark.jars": jars, "spark.sql.shuffle.partitions": "2"})  # noqa: F821
        import pillarbox as pb

        spark = pb.configure(builder.master("local[3]")).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        source, sink = f"{kind}-in", f"{kind}-out"
        jvm = spark._jvm
        kafka = jvm.org.apache.kafka.clients
        settings = jvm.java.util.HashMap()
        settings.put("bootstrap.servers", address)
        for part in ("key", "value"):
            settings.put(
                f"{part}.serializer", "org.apache.kafka.common.serialization.StringSerializer"
            )
        admin = kafka.admin.AdminClient.create(settings)
        for topic in (source, sink):
            new = jvm.org.apache.kafka.clients.admin.NewTopic(topic, 1, 1)
            admin.createTopics(jvm.java.util.List.of(new)).all().get()
        producer = kafka.producer.KafkaProducer(settings)

        def send(number):
            producer.send(kafka.producer.ProducerRecord(source, str(number))).get()

        async def later(row):
            import asyncio
            import time

            start = time.perf_counter_ns()
            await asyncio.sleep(0.02)
            return time.perf_counter_ns() - start

        now = "cast(reflect('java.lang.System', 'nanoTime') as bigint)"
        function = later if kind == "python" else pb.JvmFunction("Later")
        rows = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", address)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("cast(value as string) as number", "timestamp as sent", f"{now} as came")
            .transform(pb.async_io, function, returns="took long", ordered=False, engine="jvm")
            .selectExpr(
                f"to_json(struct(number, unix_millis(sent) as sent, came, took, {now} as left))"
                " as value"
            )
        )

        def start():
            return (
                rows.writeStream.format("kafka")
                .option("kafka.bootstrap.servers", address)
                .option("topic", sink)
                .option("checkpointLocation", f"{folder}/checkpoint")
                .outputMode("update")
                .trigger(realTime="5 seconds")
                .start()
            )

        def answers():
            return (
                spark.read.format("kafka")
                .option("kafka.bootstrap.servers", address)
                .option("subscribe", sink)
                .load()
                .selectExpr("cast(value as string) as value", "unix_millis(timestamp) as written")
                .collect()
            )

        def wait(condition):
            deadline = time.monotonic() + 60
            while not condition():
                assert query.isActive, query.exception()
                assert time.monotonic() < deadline
                time.sleep(0.1)

        query = start()
        send(0)
        wait(lambda: len(answers()) == 1)
        for number in range(1, count):
            send(number)
            time.sleep(0.05)
        wait(lambda: len(answers()) == count)
        # A batch that has ended is not read again by a restarted query.
        wait(lambda: sum(p.numInputRows for p in query.recentProgress) == count)
        query.stop()
        send(count)
        query = start()
        wait(lambda: len(answers()) == count + 1)
        query.stop()
        return [[row.value, row.written] for row in answers()]

    command = app_text(app, kind, jars, address, str(tmp_path), ROWS)
    found = answer_of([sys.executable, "-c", command], environment(SOURCES), 240)
    rows = [{**json.loads(value), "written": written} for value, written in found]
    assert sorted(int(row["number"]) for row in rows) == list(range(ROWS + 1))
    own = [(row["left"] - row["came"] - row["took"]) / 1e6 for row in rows[1:ROWS]]
    whole = [row["written"] - row["sent"] for row in rows[1:ROWS]]
    print(
        f"{kind}: beside the call {statistics.median(own):.1f} ms, "
        f"9 of 10 rows below {statistics.quantiles(own, n=10)[-1]:.1f} ms; "
        f"from Kafka to Kafka {statistics.median(whole):.0f} ms with a call of 20 ms"
    )
    assert statistics.median(own) <= 15
