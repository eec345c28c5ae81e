"""A list and a map of one key, larger than a worker should hold, written and read by iteration."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import pillarbox as pb
from keyed.streams import Stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

FILL, READ = 0, 1
ROWS = 20  # of a micro-batch that fills
RETURNS = "elements bigint, added bigint, entries bigint, summed bigint, grown_kb bigint"


def resident_kb() -> int:
    """What this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


class Collects(pb.KeyedProcessFunction):
    """Adds ``step`` elements and entries a row, or reads all of them."""

    def __init__(self, step: int) -> None:
        self.step = step

    def open(self, ctx):
        self.list = ctx.list_state("list", "bigint")
        self.map = ctx.map_state("map", "bigint", "bigint")

    def process(self, row, ctx):
        if row.what == FILL:
            start = row.i * self.step
            self.list.add_all(range(start, start + self.step))
            for i in range(start, start + self.step):
                self.map.put(i, -i)
        else:
            self.before = self.most = resident_kb()
            elements = self.read(iter(self.list))
            entries = self.read(value for _, value in self.map.items())
            yield (*elements, *entries, self.most - self.before)

    def read(self, values):
        count = total = 0
        for value in values:
            count += 1
            total += value
            if count % 10_000 == 0:
                self.most = max(self.most, resident_kb())
        return count, total


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("count", [60_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_a_large_list_and_map_of_one_key_are_read_page_by_page(
    spark: SparkSession, tmp_path: Path, count: int, backend: str
) -> None:
    batches = 3 if count < 100_000 else 10
    function = Collects(count // (batches * ROWS))

    def build(df):
        return pb.process_keyed(df, function, by="k", returns=RETURNS, backend=backend)

    stream = Stream(spark, tmp_path, "k string, what int, i bigint", build)
    for batch in range(batches):
        stream.add(*(("a", FILL, batch * ROWS + i) for i in range(ROWS)))
    stream.add(("a", READ, 0), ("b", READ, 0))
    nothing, (*found, grown_kb) = sorted(stream.run())
    assert nothing[:4] == (0, 0, 0, 0)
    total = count * (count - 1) // 2
    assert found == [count, total, count, -total]
    # A million of these integers alone take 32 MB, and 100 MB as the entries of a dict.
    assert grown_kb < 24_000, f"the worker grew by {grown_kb} kB"
