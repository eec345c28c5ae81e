"""``pb.read_offsets``: a query that moves to a new checkpoint reads on where the old one stood."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
import pillarbox._driver.read_offsets as module
from keyed.streams import Stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

STEP_MS = 1000


class Counts(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        yield {"n": self.n.value(), "at": row.timestamp}


def run(
    spark: SparkSession, folder: Path, start_ms: int, initial: Any, batches: int, **options: Any
) -> list[list[Any]]:
    """Counts the rows of some micro-batches, each of one time; those that each one emits."""
    source = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=5, advanceMillisPerBatch=STEP_MS, startTimestamp=start_ms)
        .load()
    )
    counted = source.withColumn("k", F.lit("all")).withWatermark("timestamp", "0 seconds")
    counted = counted.transform(
        pb.process_keyed, Counts(), by="k", returns="n bigint, at timestamp",
        initial_state=initial, **options,
    )  # fmt: skip
    rows: list[list[Any]] = []
    enough = threading.Event()

    def keep(df: DataFrame, batch: int) -> None:
        # Only a micro-batch behind them tells that all are committed.
        if batch > batches:
            enough.set()
        else:
            rows.append(df.collect())

    query = counted.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder)).start()
    try:
        assert enough.wait(120), query.exception()
    finally:
        query.stop()
    return rows


@pytest.mark.classic
def test_a_query_that_moves_reads_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    before = run(spark, first, 0, None, 2)[:2]
    start = pb.read_offsets(spark, first, batch_id=1)
    assert list(start) == ["0"]
    state = {"n": pb.read_state(spark, first, 0, "n", batch_id=1)}
    after = run(spark, second, json.loads(start["0"])["timestamp"], state, 2)
    assert_each_once(before + after)


@pytest.mark.classic
def test_rows_that_wait_move_with_the_offsets(spark: SparkSession, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    before = run(spark, first, 0, None, 3, time_sorted=True)[:3]
    start = json.loads(pb.read_offsets(spark, first, batch_id=2)["0"])["timestamp"]
    names = ("n", pb.TIMERS, pb.WAITING_ROWS)
    old = {name: pb.read_state(spark, first, 0, name, batch_id=2) for name in names}
    assert old[pb.WAITING_ROWS].count() > 0
    after = run(spark, second, start, old, 3, time_sorted=True)
    assert_each_once(before + after)


def assert_each_once(batches: list[list[Any]]) -> None:
    """Each row was counted once, in the order of time, and none is missing."""
    rows = [row for batch in batches for row in batch]
    assert len(rows) > 10
    assert [row.n for row in rows] == list(range(1, len(rows) + 1))
    times = sorted({round(row.at.timestamp() * 1000) for row in rows})
    assert times == [STEP_MS * at for at in range(len(times))]


def test_each_source_has_its_own(spark: SparkSession, tmp_path: Path) -> None:
    def both(df: DataFrame) -> DataFrame:
        empty = tmp_path / "empty"
        empty.mkdir(exist_ok=True)
        return df.unionByName(spark.readStream.schema("id bigint").parquet(str(empty)))

    stream = Stream(spark, tmp_path / "two", "id bigint", both).add((1,)).add((2,))
    stream.run()
    checkpoint = Path(stream.checkpoint).rename(tmp_path / "an [odd] {name}")
    assert pb.read_offsets(spark, checkpoint)["0"] == '{"logOffset":1}'
    assert pb.read_offsets(spark, checkpoint, batch_id=0)["0"] == '{"logOffset":0}'
    with pytest.raises(
        pb.InvalidOption, match="nothing of the micro-batch 9; there are those of 0 to 1"
    ):
        pb.read_offsets(spark, checkpoint, batch_id=9)


@pytest.mark.classic
def test_the_watermark_is_that_of_the_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, 0, None, 3)
    watermarks = [pb.read_offsets(spark, tmp_path, batch_id=at).watermark for at in range(4)]
    # With no delay it is the time of the newest row of the micro-batch before.
    assert watermarks[0] is None
    assert [at.timestamp() for at in watermarks[2:] if at is not None] == [1, 2]
    times = spark.range(1, 4).select(F.timestamp_seconds("id").alias("at"))
    assert times.where(F.col("at") > F.lit(watermarks[3])).count() == 1


def test_spark_may_name_its_sources(spark: SparkSession, tmp_path: Path) -> None:
    log(tmp_path, 'v2\n{"batchWatermarkMs":0}\npayments:{"t":{"0":7}}\norders:-')
    offsets = pb.read_offsets(spark, tmp_path)
    assert offsets == {"payments": '{"t":{"0":7}}'}
    assert offsets.watermark is None
    log(tmp_path, "v3\n{}")
    with pytest.raises(pb.InvalidOption, match=r"OFFSETS_FORMAT_UNKNOWN.*v3"):
        pb.read_offsets(spark, tmp_path)


def log(checkpoint: Path, text: str, batch_id: int = 0) -> None:
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(exist_ok=True)
        (checkpoint / name / str(batch_id)).write_text(text)


@pytest.mark.classic
def test_a_query_that_runs_may_delete_its_oldest_commit_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def then_deleted(spark: SparkSession, path: str, **options: bool) -> DataFrame:
        files = listed(spark, path, **options)
        assert files.inputFiles()
        (tmp_path / "commits" / "0").unlink(missing_ok=True)
        return files

    for batch_id in (0, 1):
        log(tmp_path, f'v1\n{{"batchWatermarkMs":0}}\n{batch_id}', batch_id)
    listed = module._files
    monkeypatch.setattr(module, "_files", then_deleted)
    assert pb.read_offsets(spark, tmp_path) == {"0": "1"}


def test_what_is_no_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(pb.InvalidOption, match="no micro-batch that is committed"):
        pb.read_offsets(spark, tmp_path / "nowhere")
    with pytest.raises(pb.InvalidOption, match="spark must be a SparkSession"):
        pb.read_offsets(3, tmp_path)  # type: ignore[arg-type]
