"""Async I/O that outlives a micro-batch: a restart on another master."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pillarbox as pb
from spark_apps import run_app

# The applications find it where they run.
build: Any = None


def other_parallelism(folder: str, master: str, crash: bool) -> str:
    spark = pb.configure(build({"spark.master": master})).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    async def same(row):  # type: ignore[no-untyped-def]
        return row.value

    def keep(batch, number):  # type: ignore[no-untyped-def]
        batch.collect()
        if crash:
            raise ValueError("crash")

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    answers = pb.async_io(rows, same, returns="x long", carry_over=True)
    writer = answers.writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
    try:
        query.awaitTermination(60)
    except Exception as problem:
        return str(problem)[:3000]
    return "ended"


@pytest.mark.nightly
def test_the_noted_number_of_slots_counts_even_if_no_micro_batch_was_committed(
    tmp_path: Path,
) -> None:
    assert "crash" in run_app(other_parallelism, str(tmp_path), "local[2]", True)
    assert run_app(other_parallelism, str(tmp_path), "local[3]", False) == "ended"
