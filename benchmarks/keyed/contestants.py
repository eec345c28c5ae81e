"""Who takes part, and on what terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

import pillarbox as pb

from . import jvm_peer
from . import pillarbox_functions as ours
from . import spark_functions as theirs

OUTPUT = "k bigint, n bigint, total bigint"
Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Contestant:
    """One way to do it. `slow`: gets a tenth of the rows and keys, or a run would take minutes."""

    group: str
    who: str
    transform: Transform
    slow: bool = False
    mine: bool = False
    counts: bool = True  # emits a row with the running count n for each row
    no_data_batches: bool = False


def keyed(function: type, **options: str) -> Transform:
    is_arrow = issubclass(function, pb.ArrowKeyedProcessFunction)
    process: Any = pb.process_keyed_arrow if is_arrow else pb.process_keyed
    return lambda df: process(df, function(), by="k", returns=OUTPUT, **options)


def with_state(function: Callable[[], object], time: str) -> Transform:
    return lambda df: df.groupBy("k").transformWithState(function(), OUTPUT, "update", time)


def pandas_state(df: DataFrame) -> DataFrame:
    return df.groupBy("k").transformWithStateInPandas(
        theirs.RunningCountPandas(), OUTPUT, "update", "None"
    )


def apply_in_pandas(df: DataFrame) -> DataFrame:
    return df.groupBy("k").applyInPandasWithState(
        theirs.apply_in_pandas, OUTPUT, theirs.COUNT, "update", GroupStateTimeout.NoTimeout
    )


def scan(df: DataFrame, backend: str = "rocksdb") -> DataFrame:
    return pb.scan(
        df,
        by="k",
        state={"n": ("0L", "n + 1"), "total": ("0L", "total + v")},
        select=["k", "n", "total"],
        backend=backend,
    )


def aggregate(df: DataFrame) -> DataFrame:
    return df.groupBy("k").agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("total"))


def identity(df: DataFrame) -> DataFrame:
    return df.select("k", "v").mapInArrow(lambda batches: batches, "k bigint, v bigint")


ROW, COLUMNS, SCAN = "pb.process_keyed", "pb.process_keyed_arrow", "pb.scan"
TWS, TWS_JVM = "transformWithState (Row), PySpark", "transformWithState, JVM"
TWS_JVM_KEY = f"{TWS_JVM}, state once a key and batch"
PYFLINK_BEST = "PyFlink, thread mode"
IDENTITY, AGGREGATE = "identity mapInArrow", "groupBy().agg()"
COUNT, TTL, TIMER, MAP = "running count and sum", "with TTL", "with a timer a key", "map of ten"

ALL = [
    Contestant(COUNT, COLUMNS, keyed(ours.RunningCountColumns), mine=True),
    Contestant(COUNT, SCAN, scan, mine=True),
    Contestant(COUNT, ROW, keyed(ours.RunningCount), mine=True),
    Contestant(COUNT, f"{ROW}, heap", keyed(ours.RunningCount, backend="heap"), mine=True),
    Contestant(COUNT, IDENTITY, identity, counts=False),
    Contestant(COUNT, AGGREGATE, aggregate, counts=False),
    Contestant(COUNT, TWS_JVM_KEY, jvm_peer.running_count(False)),
    Contestant(COUNT, f"{TWS_JVM}, state for each row", jvm_peer.running_count(True)),
    Contestant(COUNT, TWS, with_state(theirs.RunningCount, "None"), slow=True),
    Contestant(COUNT, "transformWithStateInPandas", pandas_state, slow=True),
    Contestant(COUNT, "applyInPandasWithState", apply_in_pandas, slow=True),
    Contestant(TTL, ROW, keyed(ours.RunningCountTtl), mine=True),
    Contestant(TTL, TWS, with_state(theirs.RunningCountTtl, "ProcessingTime"), slow=True),
    Contestant(TTL, TWS_JVM, jvm_peer.running_count(True, theirs.TTL_MS)),
    Contestant(TIMER, ROW, keyed(ours.RunningCountTimer), mine=True, no_data_batches=True),
    Contestant(
        TIMER,
        COLUMNS,
        keyed(ours.RunningCountTimerColumns),
        mine=True,
        no_data_batches=True,
    ),
    Contestant(
        TIMER,
        TWS,
        with_state(theirs.RunningCountTimer, "EventTime"),
        slow=True,
        no_data_batches=True,
    ),
    Contestant(MAP, ROW, keyed(ours.MapOfTen), mine=True, counts=False),
    Contestant(MAP, TWS, with_state(theirs.MapOfTen, "None"), slow=True, counts=False),
]
