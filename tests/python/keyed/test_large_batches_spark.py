"""More rows in a micro-batch than a frame takes, and than the worker holds the keys of."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import settings
from pillarbox import columns
from spark_support import process_of, run_stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

ENTRIES = 5
RETURNS = "k bigint, entry bigint, n bigint, seen bigint"


class Entries(pb.KeyedProcessFunction):
    """Counts by key and entry in a map, and lists every hundredth value of a key."""

    def open(self, ctx):
        self.counts = ctx.map_state("counts", "bigint", "bigint")
        self.listed = ctx.list_state("listed", "bigint")
        self.rows = ctx.value_state("rows", "bigint")

    def process(self, row, ctx):
        entry = row.v % ENTRIES
        n = (self.counts.get(entry) or 0) + 1
        self.counts.put(entry, n)
        rows = (self.rows.value() or 0) + 1
        self.rows.update(rows)
        if rows % 100 == 0:
            self.listed.add(row.v)
            yield row.k, entry, n, len(self.listed.get())
        else:
            yield row.k, entry, n, 0


class Columns(pb.ArrowKeyedProcessFunction):
    """The count of rows alone."""

    def open(self, ctx):
        ctx.value_state("rows", "bigint")

    def process(self, batch, state, ctx):
        rows = columns.running_count(state.index, start=state["rows"])
        state["rows"] = columns.group_last(rows, state.index, start=state["rows"])
        nothing = pa.array(np.zeros(len(rows), np.int64))
        return {"k": batch.column("k"), "entry": nothing, "n": rows, "seen": nothing}


def write(path: Path, rows: int, keys: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    # A third of the rows are of one key, so that a batch has it in several frames.
    k = np.where(random.random(rows) < 0.3, 0, random.integers(1, keys, rows))
    table = pa.table({"k": k, "v": random.integers(0, 1000, rows)})
    pq.write_table(table, path)
    return table


def triangle(counts):
    return int((counts * (counts + 1) // 2).sum())


def summed(df):
    return df.agg(F.count(F.lit(1)), F.sum("n"), F.sum("seen")).first()


def expected(table: pa.Table, by_entry: bool) -> tuple[int, int, int]:
    k, v = table["k"].to_numpy(), table["v"].to_numpy()
    by_key = np.bincount(k)
    counts = np.bincount(k * ENTRIES + v % ENTRIES) if by_entry else by_key
    return len(k), triangle(counts), triangle(by_key // 100) if by_entry else 0


@pytest.mark.parametrize(
    ("function", "rows", "keys"), [(Entries, 150_000, 1_500), (Columns, 300_000, 10_000)]
)
def test_a_stream_counts_right_over_frames_and_micro_batches(spark, tmp_path, function, rows, keys):
    folder = tmp_path / "in"
    folder.mkdir()
    tables = [write(folder / f"{n}.parquet", rows // (1 + n), keys, n) for n in range(2)]
    with settings(spark, **{"spark.sql.shuffle.partitions": "1"}):
        stream = (
            spark.readStream.schema("k bigint, v bigint")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder))
        )
        run_stream(
            process_of(function())(stream, function(), by="k", returns=RETURNS), tmp_path, "parquet"
        )
    found = summed(spark.read.parquet(str(tmp_path / "out")))
    assert tuple(found) == expected(pa.concat_tables(tables), function is Entries)


@pytest.mark.parametrize("function", [Entries, Columns])
def test_a_batch_counts_right_over_frames(spark, tmp_path, function):
    table = write(tmp_path / "in.parquet", 150_000, 2_000, 3)
    with settings(spark, **{"spark.sql.shuffle.partitions": "1"}):
        df = spark.read.parquet(str(tmp_path / "in.parquet"))
        found = summed(process_of(function())(df, function(), by="k", returns=RETURNS))
    assert tuple(found) == expected(table, function is Entries)
