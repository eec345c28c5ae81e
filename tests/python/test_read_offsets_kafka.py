"""A query that moves to a new checkpoint reads Kafka on from where the old one stood."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from kafka_broker import broker, connector_jars

from spark_apps import SOURCES, answer_of, app_text, environment

pytestmark = pytest.mark.kafka


def test_a_query_that_moves_counts_every_record_once(tmp_path: Path) -> None:
    def app(jars, address, folder):  # type: ignore[no-untyped-def]
        settings = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}
        builder = build(settings)  # type: ignore[name-defined] # noqa: F821
        import pillarbox as pb

        spark = pb.configure(builder.master("local[2]")).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")

        class Counts(pb.KeyedProcessFunction):
            def open(self, ctx):  # type: ignore[no-untyped-def]
                self.n = ctx.value_state("n", "bigint")

            def process(self, row, ctx):  # type: ignore[no-untyped-def]
                self.n.update((self.n.value() or 0) + 1)
                yield {"k": row.k, "n": self.n.value()}

        def send(first, last):  # type: ignore[no-untyped-def]
            (
                spark.range(first, last)
                .selectExpr("cast(id % 3 as string) as key", "cast(id as string) as value")
                .write.format("kafka")
                .option("kafka.bootstrap.servers", address)
                .option("topic", "payments")
                .save()
            )

        def run(name, offsets, initial):  # type: ignore[no-untyped-def]
            rows = []
            (
                spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", address)
                .option("subscribe", "payments")
                .option("startingOffsets", offsets)
                .load()
                .selectExpr("cast(key as string) as k")
                .transform(
                    pb.process_keyed,
                    Counts(),
                    by="k",
                    returns="k string, n bigint",
                    initial_state=initial,
                )
                .writeStream.foreachBatch(lambda df, _: rows.extend(df.collect()))
                .option("checkpointLocation", f"{folder}/{name}")
                .trigger(availableNow=True)
                .start()
                .awaitTermination()
            )
            return [list(row) for row in rows]

        send(0, 30)
        rows = run("old", "earliest", None)
        send(30, 60)
        spark.conf.set("spark.sql.shuffle.partitions", "3")
        old = f"{folder}/old"
        state = {"n": pb.read_state(spark, old, 0, "n")}
        return rows + run("new", pb.read_offsets(spark, old)["0"], state)

    with broker(tmp_path) as address:
        command = app_text(app, connector_jars(), address, str(tmp_path))
        found = answer_of([sys.executable, "-c", command], environment(SOURCES), 240)
    assert sorted(found) == [[key, n] for key in "012" for n in range(1, 21)]
