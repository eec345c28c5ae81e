"""A DataFrame with an operator of ours in it is found in Spark's cache."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

Make = Callable[[DataFrame], DataFrame]


class Counts(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        yield {"n": self.n.value()}


async def twice(row: Any) -> int:
    return int(row.id) * 2


def calls(df: DataFrame) -> DataFrame:
    return pb.async_io(df, twice, returns="twice bigint")


def counts(df: DataFrame, **options: Any) -> DataFrame:
    return pb.process_keyed(df, Counts(), by="id", returns="n bigint", **options)


def counts_on(df: DataFrame) -> DataFrame:
    start = df.sparkSession.range(7).select("id", (F.col("id") * 10).alias("n"))
    return counts(df, initial_state=start)


def sums(df: DataFrame) -> DataFrame:
    return pb.scan(df, by="id", state={"n": ("0L", "n + 1")})


@pytest.mark.parametrize("make", [calls, counts, counts_on, sums])
def test_an_operator_is_found_in_the_cache(spark: SparkSession, make: Make) -> None:
    assert is_found(make(spark.range(20)))


def test_read_state_is_found_in_the_cache(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, "id bigint", counts).add((1,), (2,), (1,))
    stream.run()
    kept = pb.read_state(spark, stream.checkpoint, 0, "n")
    assert is_found(kept)
    both = kept.alias("a").join(kept.alias("b"), F.col("a.key") == F.col("b.key"))
    assert sorted(map(tuple, both.select("a.key.id", "b.value").collect())) == [(1, 2), (2, 1)]


def is_found(df: DataFrame) -> bool:
    before = sorted(df.collect())
    kept = df.cache()
    try:
        assert sorted(kept.collect()) == before
        with redirect_stdout(io.StringIO()) as plan:
            kept.where("true").select("*").explain()
        return "InMemoryTableScan" in plan.getvalue()
    finally:
        kept.unpersist(blocking=True)
