"""What Spark's UI shows of a keyed operator: the SQL metrics of its node in the plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.java_functions import COUNTING, add_counting
from keyed.streams import Stream
from spark_support import process_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, v string"
OF_PYTHON = [
    "data sent to Python workers",
    "data returned from Python workers",
    "time to start Python workers",
    "time to initialize Python workers",
    "time to run Python workers",
]


class Twice(pb.KeyedProcessFunction):
    def process(self, row: Any, ctx: Any) -> Any:
        yield row.k, row.v
        yield row.k, row.v


class Columns(pb.ArrowKeyedProcessFunction):
    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        return {"k": batch["k"], "v": batch["v"]}


@pytest.fixture(scope="module")
def java(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    add_counting(spark, tmp_path_factory.mktemp("java"))


def in_the_ui(spark: SparkSession) -> list[tuple[str, str]]:
    """Names and values of the metrics of the last keyed node that has run."""
    jspark: Any = SparkSession._instantiatedSession._jsparkSession
    jspark.sparkContext().listenerBus().waitUntilEmpty()
    store = jspark.sharedState().statusStore()
    executions = store.executionsList()
    for index in reversed(range(executions.size())):
        execution = executions.apply(index).executionId()
        values = store.executionMetrics(execution)
        nodes = store.planGraph(execution).allNodes()
        for node in (nodes.apply(i) for i in range(nodes.size())):
            metrics = [node.metrics().apply(i) for i in range(node.metrics().size())]
            ids = [(metric.name(), metric.accumulatorId()) for metric in metrics]
            if node.name().startswith("KeyedProcess") and all(values.contains(i) for _, i in ids):
                return [(name, str(values.get(i).get())) for name, i in ids]
    raise AssertionError("no keyed node has run")


def processed(fn: Any) -> Any:
    def build(df: DataFrame) -> DataFrame:
        if fn is None:
            return pb.scan(df, by="k", state={"n": ("0L", "n + 1")}, select=["k", "v"])
        returns = "k string, n bigint" if isinstance(fn, pb.JvmFunction) else SCHEMA
        sides = {"even": "n bigint"} if isinstance(fn, pb.JvmFunction) else None
        more = {"side_outputs": sides} if sides else {}
        return df.transform(process_of(fn), fn, by="k", returns=returns, **more)

    return build


@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize("form", ["row", "arrow", "jvm", "scan"])
def test_metrics_show_what_went_out_and_to_and_from_python(
    spark: SparkSession, java: None, tmp_path: Path, form: str, is_stream: bool
) -> None:
    jvm = pb.JvmFunction(COUNTING)
    fn = {"row": Twice(), "arrow": Columns(), "jvm": jvm, "scan": None}[form]
    build = processed(fn)
    schema = "k string, v bigint" if form == "jvm" else SCHEMA
    rows = [(str(n % 7), n if form == "jvm" else "v" * 1000) for n in range(100)]
    if is_stream:
        stream = Stream(spark, tmp_path, schema, build)
        stream.add(*rows).run()
    else:
        build(spark.createDataFrame(rows, schema)).write.format("noop").mode("overwrite").save()
    shown = in_the_ui(spark)
    outputs = [value for name, value in shown if name == "number of output rows"]
    assert outputs == ["200" if form == "row" else "100"]
    values = dict(shown)
    found = [name for name in values if "Python" in name]
    if form in ("jvm", "scan"):
        assert found == []
    else:
        assert sorted(found) == sorted(OF_PYTHON)
        for name in OF_PYTHON[:2]:
            # The largest are 100 rows of 1,000 bytes, which two tasks share.
            assert "KiB" in values[name], values[name]
