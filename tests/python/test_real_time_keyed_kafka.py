"""Keyed functions, and calls, in real-time mode from Kafka to Kafka: latency, and kills of the
driver.

They need Spark 4.3, so ``make test-kafka`` skips them. After ``tools/build_line 4.3`` and
``tools/sbt kafka/jars``, in `python`: ``../.build/lines/4.3/bin/python -m pytest -m kafka`` and
this file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka_broker import broker, connector_jars

from java_jars import compiled, listed_jars, tool
from pillarbox._base.spark_versions import installed
from spark_apps import SOURCES, app_text, environment
from spark_support import eventually

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(
        installed() in ("4.0", "4.1", "4.2"), reason="Spark 4.3 brought the shuffle of the mode"
    ),
]

KEYS = 20

# Sends rows "key,nanoTime"; reads what became of them, with the time that has passed, until it has
# that of the last row of each key; tells the counts in those.
LOAD = """
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;

public class Load {
  static final Map<String, String> LAST = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    String address = args[0], source = args[1], sink = args[2];
    int perSecond = Integer.parseInt(args[3]), rows = Integer.parseInt(args[4]);
    int skipped = Integer.parseInt(args[5]);
    Properties settings = new Properties();
    settings.put("bootstrap.servers", address);
    for (String part : List.of("key", "value")) {
      String strings = "org.apache.kafka.common.serialization.String";
      settings.put(part + ".serializer", strings + "Serializer");
      settings.put(part + ".deserializer", strings + "Deserializer");
    }
    KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
    TopicPartition partition = new TopicPartition(sink, 0);
    consumer.assign(List.of(partition));
    consumer.seekToEnd(List.of(partition));
    consumer.position(partition);
    Thread producing = new Thread(() -> produce(settings, source, perSecond, rows));
    producing.start();
    List<Long> waits = new ArrayList<>();
    Map<String, Long> counts = new TreeMap<>();
    long last = System.nanoTime();
    while (counts.size() < KEYS && System.nanoTime() - last < 60_000_000_000L) {
      for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
        last = System.nanoTime();
        String[] row = record.value().split(",");
        waits.add(last - Long.parseLong(row[2]));
        if (row[2].equals(LAST.get(row[0]))) counts.put(row[0], Long.parseLong(row[1]));
      }
    }
    List<Long> warm = new ArrayList<>(waits.subList(Math.min(skipped, waits.size()), waits.size()));
    Collections.sort(warm);
    StringJoiner told = new StringJoiner(",", "{", "}");
    counts.forEach((key, count) -> told.add("\\"" + key + "\\":" + count));
    System.out.printf("{\\"rows\\":%d,\\"p50\\":%.2f,\\"p99\\":%.2f,\\"max\\":%.2f,\\"counts\\":%s}%n",
        waits.size(), at(warm, 0.5), at(warm, 0.99), at(warm, 1.0), told);
  }

  static double at(List<Long> sorted, double part) {
    return sorted.get(Math.min(sorted.size() - 1, (int) (part * sorted.size()))) / 1e6;
  }

  static void produce(Properties settings, String source, int perSecond, int rows) {
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
      long start = System.nanoTime();
      for (long i = 0; i < rows; i++) {
        long due = start + i * 1_000_000_000L / perSecond;
        while (System.nanoTime() < due) LockSupport.parkNanos(due - System.nanoTime());
        String key = "k" + i % KEYS, sent = String.valueOf(System.nanoTime());
        if (i >= rows - KEYS) LAST.put(key, sent);
        producer.send(new ProducerRecord<>(source, key + "," + sent));
      }
    }
  }
}
""".replace("KEYS", str(KEYS))

TOPICS = """
import java.util.*;
import org.apache.kafka.clients.admin.*;

public class Topics {
  public static void main(String[] args) throws Exception {
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
      for (int i = 1; i < args.length; i++)
        admin.createTopics(List.of(new NewTopic(args[i], 1, (short) 1))).all().get();
    }
  }
}
"""


COUNT = """
import io.pillarbox.api.*;
import io.pillarbox.spark.SparkSerializers;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

public class Count extends KeyedProcessFunction<Row, Row, Row> {
  private ValueState<Row> count;

  public Count(java.util.Map<String, String> options) {}

  @Override
  public void open(OpenContext context) {
    count = context.getState(StateDescriptor.value("n", SparkSerializers.rows("value bigint")));
  }

  @Override
  public void processElement(Row row, Context<Row> context, Collector<Row> out) {
    Row known = count.value();
    long n = known == null ? 1L : known.getLong(0) + 1;
    count.update(RowFactory.create(n));
    out.collect(RowFactory.create(context.currentKey().get(0), n, row.<String>getAs("sent")));
  }
}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


def run(form, jars, address, folder, trigger, partitions):  # type: ignore[no-untyped-def]
    """Counts the rows of a key, in a query of ``form``, until the process is killed."""
    import pathlib
    import time

    settings = {
        "spark.jars": jars,
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "2",
    }
    builder = build(settings)  # type: ignore[name-defined]  # noqa: F821
    import pillarbox as pb

    spark = pb.configure(builder.master("local[4]")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    class Count(pb.KeyedProcessFunction):
        def open(self, ctx):  # type: ignore[no-untyped-def]
            self.n = ctx.value_state("n", "long")

        def process(self, row, ctx):  # type: ignore[no-untyped-def]
            n = (self.n.value() or 0) + 1
            self.n.update(n)
            yield row.key, n, row.sent

    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", f"{form}-in")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("split(string(value), ',')[0] AS key", "split(string(value), ',')[1] AS sent")
    )
    if form == "calls":

        async def same(row):  # type: ignore[no-untyped-def]
            return 0

        counted = pb.async_io(rows, same, returns="n long", ordered=False)
    elif form == "scan":
        state = {"n": ("0L", "n + 1")}
        select = ["key", "n", "sent"]
        counted = pb.scan(rows, by="key", state=state, select=select, partitions=partitions)
    else:
        returns = "key string, n long, sent string"
        function = pb.JvmFunction("Count") if form == "jvm" else Count()
        counted = pb.process_keyed(rows, function, by="key", returns=returns, partitions=partitions)
    query = (
        counted.selectExpr("concat_ws(',', key, n, sent) AS value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("topic", f"{form}-out")
        .option("checkpointLocation", f"{folder}/{form}")
        .outputMode("update")
        .trigger(realTime=trigger)
        .start()
    )
    while query.isActive and query.status["message"] != "Processing new data":
        time.sleep(0.1)
    pathlib.Path(folder, "runs").touch()
    query.awaitTermination()


@contextmanager
def running(
    form: str, address: str, folder: Path, trigger: str, partitions: int = 1
) -> Iterator[None]:
    """The query, which at the end is killed with its JVM and workers."""
    jars = f"{connector_jars()},{compiled(folder, 'count.jar', {'Count': COUNT})}"
    command = app_text(run, form, jars, address, str(folder), trigger, partitions)
    log, ready = folder / "app.log", folder / "runs"
    ready.unlink(missing_ok=True)
    with log.open("a") as out:
        app = subprocess.Popen(
            [sys.executable, "-c", command],
            env=environment(SOURCES),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        eventually(lambda: ready.exists() or app.poll() is not None, "the query runs", 120)
        assert app.poll() is None, log.read_text()[-4000:]
        yield
    finally:
        os.killpg(app.pid, signal.SIGKILL)
        app.wait()


def topics(address: str, form: str, folder: Path) -> None:
    (folder / "Topics.java").write_text(TOPICS)
    names = (f"{form}-in", f"{form}-out")
    subprocess.run([*java(), str(folder / "Topics.java"), address, *names], check=True)


def java() -> list[str]:
    return [tool("java"), "-cp", ":".join(listed_jars("kafkaBroker"))]


def load(
    address: str, form: str, folder: Path, per_second: int, rows: int, skipped: int
) -> dict[str, object]:
    (folder / "Load.java").write_text(LOAD)
    numbers = map(str, (per_second, rows, skipped))
    arguments = [address, f"{form}-in", f"{form}-out", *numbers]
    done = subprocess.run(
        [*java(), str(folder / "Load.java"), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def await_commit(commits: Path, after: int) -> None:
    eventually(lambda: len(list(commits.glob("[0-9]*"))) > after, "a commit")


@pytest.mark.parametrize("form", ["row", "jvm", "scan", "calls"])
def test_latency_at_a_thousand_rows_a_second(form: str, address: str, tmp_path: Path) -> None:
    topics(address, form, tmp_path)
    with running(form, address, tmp_path, "10 minutes"):
        found = load(address, form, tmp_path, per_second=1000, rows=40_000, skipped=15_000)
    print(f"{form}: {found['p50']} ms, 99 of 100 rows below {found['p99']} ms, {found['max']} ms")
    assert found["rows"] == 40_000
    count = 0 if form == "calls" else 40_000 // KEYS
    assert found["counts"] == {f"k{i}": count for i in range(KEYS)}


@pytest.mark.parametrize("partitions", [(1, 1, 1, 1), (1, 2, 3, 1)], ids=["same", "changing"])
def test_a_driver_that_is_killed_leaves_state_that_has_each_row_once(
    partitions: tuple[int, ...], address: str, tmp_path: Path
) -> None:
    form = f"row-killed-{max(partitions)}"
    commits = tmp_path / form / "commits"
    topics(address, form, tmp_path)
    rows = 0
    for start, number in enumerate(partitions):
        with running(form, address, tmp_path, "5 seconds", number):
            last = load(address, form, tmp_path, per_second=500, rows=1000, skipped=0)
            rows += 1000
            assert last["counts"] == {f"k{i}": rows // KEYS for i in range(KEYS)}
            if start != 1:
                # The second one is killed when nothing of its rows may be committed.
                await_commit(commits, after=start)
