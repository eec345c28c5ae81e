"""Several stateful operators in one query, ours and Spark's: the stream ends like the batch."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from spark_support import Kept, run_stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "seq bigint, k string, ts timestamp"
PASSED = "seq bigint, k string, ts timestamp, n bigint"


class Numbers(pb.KeyedProcessFunction):
    """Each row with its number in its key, in the order of time."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        yield {"seq": row.seq, "k": ctx.key, "ts": row.ts, "n": self.n.value()}


def numbered(rows: DataFrame) -> DataFrame:
    return rows.transform(
        pb.process_keyed, Numbers(), by="k", returns=PASSED, timestamp="ts", time_sorted=True
    )


def windowed(rows: DataFrame) -> DataFrame:
    window = F.window("ts", "10 seconds")
    counts = rows.groupBy("k", window).agg(F.count("*").alias("rows"), F.max("seq").alias("last"))
    return counts.select("k", F.col("window.start").alias("start"), "rows", "last")


def ours_then_windows(rows: DataFrame) -> DataFrame:
    return windowed(numbered(rows)).select("k", "start", "rows", "last")


def ours_twice_then_windows(rows: DataFrame) -> DataFrame:
    return windowed(numbered(numbered(rows).select("seq", "k", "ts")))


def deduplicated_then_ours(rows: DataFrame) -> DataFrame:
    return numbered(rows.dropDuplicates(["k", "ts"]).withColumn("seq", F.lit(0).cast("bigint")))


def ours_then_deduplicated(rows: DataFrame) -> DataFrame:
    return numbered(rows).select("k", "ts").dropDuplicates(["k", "ts"])


def windows_then_ours(rows: DataFrame) -> DataFrame:
    counts = rows.groupBy("k", F.window("ts", "10 seconds")).agg(F.count("*").alias("seq"))
    return numbered(counts.select("seq", "k", F.window_time("window").alias("ts")))


OPERATORS = {
    ours_then_windows: 2,
    ours_twice_then_windows: 3,
    deduplicated_then_ours: 2,
    ours_then_deduplicated: 2,
    windows_then_ours: 2,
}


def time(second: int) -> str:
    return f"2026-11-01T00:{second // 60:02}:{second % 60:02}Z"


# Out of order by up to 5 s; the last one closes every window before it.
SECONDS = [[1, 4, 3, 12, 8], [11, 15, 15, 12, 26], [24, 25, 38, 33], [34, 47, 42, 52], [300]]


def write(folder: Path) -> str:
    seq = 0
    for number, seconds in enumerate(SECONDS):
        lines = []
        for second in seconds:
            seq += 1
            key = "end" if second == 300 else "ab"[second % 2]
            lines.append(json.dumps({"seq": seq, "k": key, "ts": time(second)}))
        path = folder / f"{number}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    return str(folder)


def rows_of(df: DataFrame) -> list[Any]:
    """Without the row that closes the windows."""
    return sorted(tuple(row) for row in df.collect() if row.k != "end")


CASES = [
    (build, mode)
    for build in OPERATORS
    for mode in ("append", "update")
    # In update mode a window tells every change, and ours after it sees each as a row.
    if (build, mode) != (windows_then_ours, "update")
]


@pytest.mark.parametrize(
    ("build", "mode"), CASES, ids=[f"{build.__name__}-{mode}" for build, mode in CASES]
)
def test_the_stream_ends_like_the_batch(
    quick: SparkSession, tmp_path: Path, build: Callable[[DataFrame], DataFrame], mode: str
) -> None:
    (tmp_path / "in").mkdir()
    source = write(tmp_path / "in")
    result = build(quick.read.schema(INPUT).json(source))
    batch, query_columns = rows_of(result), result.columns
    stream = quick.readStream.schema(INPUT).option("maxFilesPerTrigger", 1).json(source)
    kept = Kept(f"{tmp_path}/kept", lambda batch, number: rows_of(batch))
    query = run_stream(build(stream.withWatermark("ts", "6 seconds")), tmp_path, kept, mode=mode)
    operators = query.recentProgress[-1]["stateOperators"]
    assert len(operators) == OPERATORS[build]
    dropped = [
        one["numRowsDroppedByWatermark"]
        for p in query.recentProgress
        for one in p["stateOperators"]
    ]
    assert sum(dropped) == 0
    if mode == "append" or "start" not in query_columns:
        assert sorted(kept.rows()) == batch
    else:
        # A window comes out whenever it has changed; the last time it is whole.
        last = {row[:2]: row for row in kept.rows()}
        assert set(last.values()) >= set(batch)
