"""Frames between Spark and its workers are cut by bytes; what one can't carry is a named error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from spark_support import by_value, run_stream

by_value(__name__)

CUT, MOST = 4_000, 20_000


@pytest.fixture(autouse=True)
def small_frames(spark: SparkSession) -> Iterator[None]:
    settings = {"cut": CUT, "most": MOST}
    for name, value in settings.items():
        spark.conf.set(f"spark.pillarbox.internal.frame.{name}", str(value))
    yield
    for name in settings:
        spark.conf.unset(f"spark.pillarbox.internal.frame.{name}")


def texts(spark: SparkSession, sizes: list[int], partitions: int = 1) -> DataFrame:
    rows = list(enumerate(sizes))
    df = spark.createDataFrame(rows, "id long, n int").repartition(partitions)
    return df.select("id", F.expr("repeat('x', n)").alias("text"))


async def echo(row: Any) -> str:
    return str(row.text)


async def echo_all(rows: list[Any]) -> list[str]:
    # All of a group are there, whatever their bytes.
    return [f"{len(rows)}:{row.text}" for row in rows]


def test_rows_and_answers_of_many_frames_come_back_as_they_are(spark: SparkSession) -> None:
    sizes = [1_000, 3_900, 0, 10_000, 19_000, 17] * 30
    df = texts(spark, sizes).transform(pb.async_io, echo, returns="y string", engine="jvm")
    assert sorted((row.id, len(row.y)) for row in df.collect()) == list(enumerate(sizes))


def test_a_group_of_many_frames_is_one_call(spark: SparkSession) -> None:
    sizes = [3_000] * 40
    options: dict[str, Any] = {"batch_size": pb.BatchSize(40, wait="1 minute")}
    df = texts(spark, sizes).transform(
        pb.async_io, echo_all, returns="y string", engine="jvm", **options
    )
    answers = [row.y for row in df.collect()]
    assert answers == ["40:" + "x" * 3_000] * 40


@pytest.mark.parametrize("form", ["row", "batch"])
def test_a_row_that_is_too_large_to_send_is_its_own_failure(spark: SparkSession, form: str) -> None:
    sizes = [10, 30_000, 3_000, 25_000, 20, 30_000]
    options: dict[str, Any] = {"batch_size": 3} if form == "batch" else {}

    async def size(row: Any) -> int:
        return len(row.text)

    async def all_sizes(rows: list[Any]) -> list[int]:
        return [len(row.text) for row in rows]

    df = texts(spark, sizes).transform(
        pb.async_io, all_sizes if form == "batch" else size, returns="y int",
        engine="jvm", on_error="column", **options,
    )  # fmt: skip
    rows = {row.id: row for row in df.drop("text").collect()}
    assert {i: row.y for i, row in rows.items()} == {
        i: n if n < MOST else None for i, n in enumerate(sizes)
    }
    assert {i: row.error.kind for i, row in rows.items() if row.error} == {
        1: "ROW_TOO_LARGE", 3: "ROW_TOO_LARGE", 5: "ROW_TOO_LARGE",
    }  # fmt: skip
    assert "20,000 bytes" in rows[1].error.message
    assert "inputs" in rows[1].error.message


def test_an_answer_that_is_too_large_is_its_own_failure(spark: SparkSession) -> None:
    async def answer(row: Any) -> str:
        return "y" * (30_000 if row.id == 5 else 300)

    df = spark.range(0, 20, 1, 1).transform(
        pb.async_io, answer, returns="y string", engine="jvm", on_error="column",
        retry=pb.Retry(3, backoff="1ms"),
    )  # fmt: skip
    rows = {row.id: row for row in df.collect()}
    assert [i for i, row in rows.items() if row.error] == [5]
    assert rows[5].error.kind == "RESULT_TOO_LARGE"
    assert rows[5].error.attempts == 1
    assert all(row.y == "y" * 300 for i, row in rows.items() if i != 5)


class Keeps(pb.KeyedProcessFunction):
    """Keeps every text of a key in a value, a list and a map, and gives out what was there."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.value_state("last", "string")
        self.all = ctx.list_state("all", "string")
        self.by_id = ctx.map_state("by_id", "long", "string")

    def process(self, row: Any, ctx: Any) -> Any:
        before = self.last.value()
        self.last.update(row.text)
        self.all.add(row.text)
        self.by_id.put(row.id, row.text)
        lengths = sorted(len(text) for text in self.all.get())
        assert sorted(len(text) for text in self.by_id.values()) == lengths
        yield row.id, row.text, len(before or ""), sum(lengths)


KEPT = "id long, text string, before int, total int"


def expected(sizes: list[int], keys: int) -> list[tuple[int, int, int, int]]:
    last: dict[int, int] = {}
    total: dict[int, int] = {}
    rows = []
    for i, n in enumerate(sizes):
        key = i % keys
        total[key] = total.get(key, 0) + n
        rows.append((i, n, last.get(key, 0), total[key]))
        last[key] = n
    return rows


def lengths(df: DataFrame) -> list[tuple[int, int, int, int]]:
    return sorted((r.id, len(r.text), r.before, r.total) for r in df.collect())


def test_keyed_rows_and_state_of_many_frames_are_complete_in_a_batch(spark: SparkSession) -> None:
    sizes = [1_000, 3_900, 0, 7_000, 17] * 40
    df = texts(spark, sizes).withColumn("k", F.col("id") % 7)
    kept = df.transform(pb.process_keyed, Keeps(), by="k", returns=KEPT, order_by="id")
    assert lengths(kept) == expected(sizes, 7)


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_keyed_rows_and_state_of_many_frames_are_complete_in_a_stream(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    sizes = [1_000, 3_900, 0, 7_000, 17] * 60
    keys, per_batch = 7, 100
    source = str(tmp_path / "in")
    for first in range(0, len(sizes), per_batch):
        part = [(i, n) for i, n in enumerate(sizes)][first : first + per_batch]
        rows = spark.createDataFrame(part, "id long, n int").coalesce(1)
        rows.select("id", F.expr("repeat('x', n)").alias("text")).write.mode("append").parquet(
            source
        )
    stream = spark.readStream.schema("id long, text string").option("maxFilesPerTrigger", 1)
    kept = stream.parquet(source).withColumn("k", F.col("id") % keys)
    kept = kept.transform(
        pb.process_keyed, Keeps(), by="k", returns=KEPT, order_by="id", backend=backend
    )
    run_stream(kept, tmp_path, "parquet")
    assert lengths(spark.read.parquet(str(tmp_path / "out"))) == expected(sizes, keys)


def test_the_column_form_gets_all_and_gives_all(spark: SparkSession) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    class Lengths(pb.ArrowKeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.last = ctx.value_state("last", "string")

        def process(self, rows: Any, state: Any, ctx: Any) -> Any:
            doubled = pc.binary_join_element_wise(rows["text"], rows["text"], "")
            return pa.table({"id": rows["id"], "twice": doubled})

    sizes = [1_000, 3_900, 0, 7_000, 17] * 40
    df = texts(spark, sizes).withColumn("k", F.col("id") % 7)
    out = df.transform(pb.process_keyed_arrow, Lengths(), by="k", returns="id long, twice string")
    assert sorted((r.id, len(r.twice)) for r in out.collect()) == [
        (i, 2 * n) for i, n in enumerate(sizes)
    ]


@pytest.mark.parametrize("what", ["row", "result", "state"])
def test_what_is_too_large_in_a_keyed_function_is_named_with_its_size(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    class Grows(pb.KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.blob = ctx.value_state("blob", "string")

        def process(self, row: Any, ctx: Any) -> Any:
            if what == "state":
                self.blob.update("s" * 30_000)
            yield ("r" * 30_000 if what == "result" and row.id == 3 else "r",)

    rows = texts(spark, [10, 10, 10, 30_000 if what == "row" else 10, 10])
    if what == "state":  # of a batch's key that has ended nothing is sent back
        rows.write.parquet(str(tmp_path / "in"))
        rows = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    grown = rows.transform(pb.process_keyed, Grows(), by="id", returns="y string")
    with pytest.raises(PySparkException) as caught:
        run_stream(grown, tmp_path) if what == "state" else grown.collect()
    message = str(caught.value)
    assert {"row": "ROW", "result": "RESULT", "state": "STATE"}[what] + "_TOO_LARGE" in message
    assert "20,000 bytes" in message
    if what == "result":
        assert "for the key 3" in message
    if what == "state":
        assert "'blob'" in message
