"""A restart with a function of another form is refused before anything is touched."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.java_functions import COUNTING, add_counting
from keyed.streams import Stream
from spark_support import process_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, v bigint"


class Rows(pb.KeyedProcessFunction):
    """Counts, and sets a timer."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.value_state("count", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timers.register_event_time(ctx.timestamp + 1)
        yield row.k, self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return None


class Columns(pb.ArrowKeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        ctx.value_state("count", "bigint")

    def process(self, batch: pa.RecordBatch, state: Any, ctx: Any) -> Any:
        state["count"] = pc.add(pc.coalesce(state["count"], 0), 1)
        return {"k": state.keys, "n": state["count"]}


def keyed(function: Any) -> Any:
    def build(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("v")).withWatermark("ts", "0 seconds")
        return timed.transform(
            process_of(function), function, by="k", returns="k string, n bigint", name="counts"
        )

    return build


def scan(df: DataFrame) -> DataFrame:
    return pb.scan(df, by="k", state={"n": ("0L", "n + 1")}, select=["k", "n"])


FORMS = {
    "row": keyed(Rows()),
    "arrow": keyed(Columns()),
    "jvm": keyed(pb.JvmFunction(COUNTING)),
    "scan": scan,
}


@pytest.mark.parametrize(
    ("first", "second"),
    [("row", "arrow"), ("arrow", "row"), ("row", "jvm"), ("jvm", "scan"), ("scan", "arrow")],
)
def test_another_form_is_refused_and_the_first_goes_on(
    spark: SparkSession, tmp_path: Path, first: str, second: str
) -> None:
    if "jvm" in (first, second):
        add_counting(spark, tmp_path)
    stream = Stream(spark, tmp_path / "stream", SCHEMA, FORMS[first])
    assert stream.add(("a", 1000)).run() == [("a", 1)]
    state = tmp_path / "stream" / "checkpoint" / "state"
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    stream.add(("b", 2000))
    with pytest.raises(Exception, match="CHECKPOINT_MISMATCH") as caught:
        stream.run(FORMS[second])
    assert f"the form {first}, the query now has {second}" in str(caught.value)
    assert {path: path.read_bytes() for path in state.rglob("*") if path.is_file()} == before
    assert sorted(stream.run()) == [("a", 1), ("b", 1)]
