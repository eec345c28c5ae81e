"""The code of the docs that wants a Kafka broker runs, and prints what its page says.

Blocks marked ``<!-- kafka -->`` run after all others, with ``servers`` and ``checkpoint``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from kafka_broker import broker, connector_jars

from spark_apps import SOURCES, answer_of, app_text, environment

pytestmark = pytest.mark.kafka
DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(
    r"<!-- (?:runnable|kafka) -->\n```python\n(.*?)^```$"
    r"(?:\s*<!-- output -->\s*```text\n(.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


def test_the_program_of_the_cookbook_goes_from_kafka_to_kafka(tmp_path: Path) -> None:
    def app(jars, servers, checkpoint, blocks):  # type: ignore[no-untyped-def]
        import contextlib
        import io

        settings = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}
        builder = build(settings)  # type: ignore[name-defined] # noqa: F821
        import pillarbox as pb

        spark = pb.configure(builder.master("local[2]")).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        names = {
            "__name__": "__main__",
            "spark": spark,
            "servers": servers,
            "checkpoint": checkpoint,
        }
        printed = []
        for block in blocks:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(block, names)
            printed.append(out.getvalue())
        return printed

    page = (DOCS / "cookbook/kafka.md").read_text("utf-8")
    blocks, said = zip(*BLOCK.findall(page), strict=True)
    assert len(blocks) == 3
    with broker(tmp_path) as address:
        command = app_text(app, connector_jars(), address, str(tmp_path / "checkpoint"), blocks)
        printed = answer_of([sys.executable, "-c", command], environment(SOURCES), 240)
    assert [text.strip() for text in printed] == [text.strip() for text in said]


def test_a_query_moves_to_a_new_checkpoint_as_the_page_says(tmp_path: Path) -> None:
    def app(jars, servers, folder, blocks):  # type: ignore[no-untyped-def]
        settings = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}
        builder = build(settings)  # type: ignore[name-defined] # noqa: F821
        from pyspark.sql import functions as F

        import pillarbox as pb

        spark = pb.configure(builder.master("local[2]")).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")

        class Total(pb.KeyedProcessFunction):
            def open(self, ctx):  # type: ignore[no-untyped-def]
                self.total = ctx.value_state("total", "bigint")

            def process(self, row, ctx):  # type: ignore[no-untyped-def]
                # An input of a tagged union is a struct of its own.
                amount = row.amount if hasattr(row, "amount") else getattr(row, row.tag).amount
                self.total.update((self.total.value() or 0) + amount)

        def send(topic, first, last):  # type: ignore[no-untyped-def]
            rows = spark.range(first, last)
            rows = rows.selectExpr("string(id % 2) AS key", "string(id) AS value")
            writer = rows.write.format("kafka").option("kafka.bootstrap.servers", servers)
            writer.option("topic", topic).save()

        def ended(df, name):  # type: ignore[no-untyped-def]
            writer = df.writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", f"{folder}/{name}").start()
            query.awaitTermination()
            return query

        def counted(name):  # type: ignore[no-untyped-def]
            state = pb.read_state(spark, f"{folder}/{name}", "totals", "total")
            rows = state.select("key.account", "value").orderBy("account").collect()
            return [list(row) for row in rows]

        def totals(df, **options):  # type: ignore[no-untyped-def]
            return df.transform(
                pb.process_keyed, Total(), by="account", returns="nothing int", name="totals",
                **options,
            )  # fmt: skip

        names = {"spark": spark, "servers": servers, "pb": pb, "F": F, "Total": Total}
        definitions = blocks[0][blocks[0].index("def topic") : blocks[0].index("payments = ")]
        exec(definitions, names)
        topic = names["topic"]

        send("payments", 0, 10)
        one = totals(topic("payments", "earliest").withWatermark("at", "1 minute"))
        names["query"], names["old"] = ended(one, "old"), f"{folder}/old"
        send("payments", 10, 20)
        spark.conf.set("spark.sql.shuffle.partitions", "3")
        exec(blocks[0], names)
        ended(names["moved"], "new")
        found = [counted("old"), counted("new")]

        send("orders", 0, 10)
        names["offsets"] = {"0": "earliest", "1": names["offsets"]["0"]}
        exec(blocks[1], names)
        ended(totals(names["both"]), "two")
        found.append(counted("two"))
        send("orders", 10, 20)
        ended(totals(names["both"]), "two")  # its second micro-batch has a watermark
        send("orders", 20, 30)
        names["offsets"] = pb.read_offsets(spark, f"{folder}/two")
        exec(blocks[1], names)
        exec(blocks[2], names)
        initial = pb.read_state(spark, f"{folder}/two", "totals", "total")
        ended(totals(names["both"], initial_state={"total": initial}), "two moved")
        return [*found, counted("two moved"), names["offsets"].watermark is not None]

    page = (DOCS / "state.md").read_text("utf-8")
    section = page[page.index("### A query that moves") :]
    blocks = [block for block, _ in BLOCK.findall(section)]
    assert len(blocks) == 3
    with broker(tmp_path) as address:
        command = app_text(app, connector_jars(), address, str(tmp_path), blocks)
        found = answer_of([sys.executable, "-c", command], environment(SOURCES), 300)
    first, second, third = (20, 25), (70, 75), (120, 125)  # of 0 to 9, 10 to 19, 20 to 29
    sums = [first], [first, second], [first, second], [first, second, second, third]
    totals = [
        [[key, sum(one)] for key, one in zip("01", zip(*parts, strict=True), strict=True)]
        for parts in sums
    ]
    assert found == [*totals, True]
