"""Random plans with calls of a ``pb.async_udf``, and how many calls they may make.

A plan is a chain of steps over one DataFrame. It runs as written, and once more beside it with each
result materialised where it stands, which tells the rows that reach each expression.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

SCHEMA = "id bigint, x bigint, at timestamp"
Step = Callable[[DataFrame], DataFrame]


def _other(df: DataFrame) -> DataFrame:
    """Rows to join with: some ids are missing, some come twice."""
    pairs = [(i, i % 7) for i in range(0, 16, 2)] + [(4, 1), (8, 1)]
    return df.sparkSession.createDataFrame(pairs, "oid bigint, ox bigint")


def _joined(how: str, on: str) -> Step:
    def step(df: DataFrame) -> DataFrame:
        joined = df.join(_other(df), F.expr(on), how)
        return joined.select(*df.columns)

    return step


def _ranked(df: DataFrame) -> DataFrame:
    window = Window.partitionBy("x").orderBy("id", "at")
    return df.withColumn("rank", F.row_number().over(window)).where("rank < 9").drop("rank")


ANYWHERE: dict[str, Step] = {
    "filter": lambda df: df.where("id % 3 <> 1"),
    "computed": lambda df: df.withColumn("x", F.col("x") + 1),
    "inner join": _joined("inner", "id = oid"),
    "join by the argument": _joined("inner", "x = ox"),
    "left join": _joined("left", "id = oid"),
    "semi join": _joined("semi", "id = oid"),
    "semi join by the argument": _joined("semi", "x = ox"),
    "explode": lambda df: df.withColumn("e", F.explode(F.array(F.lit(1), F.lit(2)))).drop("e"),
    "union": lambda df: df.where("id > 3").union(df.where("id < 9")),
    "coalesce": lambda df: df.coalesce(1),
    "repartition": lambda df: df.repartition(3, "x"),
    "watermark": lambda df: (
        df if "spark.watermarkDelayMs" in df.schema["at"].metadata
        else df.withWatermark("at", "1 minute")
    ),
}  # fmt: skip

IN_A_BATCH: dict[str, Step] = {
    "anti join": _joined("anti", "id = oid"),
    "right join": lambda df: _other(df).join(df, F.expr("id = oid"), "right").select(*df.columns),
    "full join": lambda df: (
        df.join(_other(df), F.expr("id = oid"), "full").where("id is not null").select(*df.columns)
    ),
    "distinct": lambda df: df.distinct(),
    "grouped": lambda df: df.groupBy(*df.columns).count().drop("count"),
    "window": _ranked,
    "except": lambda df: df.exceptAll(df.where("id = 5").limit(1)),
}


@dataclass(frozen=True)
class Called:
    """A step that calls: as it is written, and with what ``call`` gives in a column of the rows."""

    written: Callable[[DataFrame, Callable[[Any], Any], str], DataFrame]
    materialised: Callable[[DataFrame, str], DataFrame]


CALLS: dict[str, Called] = {
    "column": Called(
        lambda df, call, name: df.withColumn(name, call("x")), lambda df, name: df
    ),
    "in an expression": Called(
        lambda df, call, name: df.withColumn(name, call("x") + call("x") - call("x")),
        lambda df, name: df,
    ),
    "filter": Called(
        lambda df, call, name: df.where(call("x") > 30),
        lambda df, name: df.where(f"{name} > 30").drop(name),
    ),
    "filter that shows": Called(
        lambda df, call, name: df.where(call("x") > 20).withColumn(name, call("x")),
        lambda df, name: df.where(f"{name} > 20"),
    ),
    "join condition": Called(
        lambda df, call, name: (
            df.join(_other(df), call("x") == F.col("ox") * 10).select(*df.columns)
        ),
        lambda df, name: (
            df.join(_other(df), F.expr(f"{name} = ox * 10")).drop(name, "oid", "ox")
        ),
    ),
}  # fmt: skip

LAST: dict[str, Called] = {
    "group": Called(
        lambda df, call, name: df.groupBy(call("x").alias(name)).count(),
        lambda df, name: df.groupBy(name).count(),
    ),
    "distinct aggregates": Called(
        lambda df, call, name: df.agg(
            F.sum(call("x")), F.countDistinct(call("x")), F.countDistinct("id")
        ),
        lambda df, name: df.agg(F.sum(name), F.countDistinct(name), F.countDistinct("id")),
    ),
    "cube": Called(
        lambda df, call, name: df.cube("x").agg(F.sum(call("x"))),
        lambda df, name: df.cube("x").agg(F.sum(name)),
    ),
}


def results_in(df: DataFrame) -> list[str]:
    return [name for name in df.columns if name.startswith("s")]


def program(dice: random.Random, is_stream: bool) -> list[str]:
    """Return the names of a plan's steps. A filter on a result comes behind most calls."""
    calm = list(ANYWHERE) + ([] if is_stream else list(IN_A_BATCH))
    steps = dice.choices(calm, k=dice.randint(0, 3))
    for _ in range(dice.randint(1, 2)):
        steps.append(f"call {dice.choice(list(CALLS))}")
        steps += dice.choices([*calm, "result", "result", "both"], k=dice.randint(1, 4))
        if not is_stream and dice.random() < 0.2:
            steps.append("cache")
    if not is_stream and dice.random() < 0.3:
        steps.append(f"last {dice.choice(list(LAST))}")
    return steps


def _plain(df: DataFrame, step: str) -> DataFrame:
    if step in ("result", "both"):
        found = results_in(df)
        condition = f"{found[-1]} % 20 = 0" if found else "x % 2 = 0"
        return df.where(condition if step == "result" else f"{condition} AND id > 1")
    return (ANYWHERE | IN_A_BATCH)[step](df)


def _called(step: str) -> Called:
    kind, _, name = step.partition(" ")
    return (CALLS if kind == "call" else LAST)[name]


def written(df: DataFrame, steps: list[str], call: Callable[[Any], Any]) -> DataFrame:
    for number, step in enumerate(steps):
        if step == "cache":
            df = df.cache()
        elif step.startswith(("call", "last")):
            df = _called(step).written(df, call, f"s{number}")
        else:
            df = _plain(df, step)
    return df


def materialised(df: DataFrame, steps: list[str]) -> tuple[list[Any], int]:
    """Return the rows of the plan, and how many calls may be made for them.

    What is behind a union over a call, or an ``except``, computes it twice, since it is written so.
    """
    expected = 0
    for number, step in enumerate(steps):
        if step.startswith(("call", "last")):
            behind = steps[number + 1 :]
            behind = behind[: behind.index("cache")] if "cache" in behind else behind
            times = 2 ** sum(one in ("union", "except") for one in behind)
            # A filter that shows has the call twice, which is made once if they are equal.
            name = f"s{number}"
            df = _known(df.withColumn(name, F.col("x") * 10))
            expected += df.count() * times
            df = _called(step).materialised(df, name)
        elif step != "cache":
            df = _plain(df, step)
    return sorted(df.collect(), key=repr), expected


def _known(df: DataFrame) -> DataFrame:
    return df.sparkSession.createDataFrame(df.collect(), df.schema)


def rows(spark: SparkSession, folder: Path) -> DataFrame:
    """Return 16 rows in three partitions, from files that a stream can read, too."""
    at = F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id"))
    df = spark.range(0, 16, 1, 3).selectExpr("id", "id % 5 AS x").withColumn("at", at)
    df.write.parquet(str(folder))
    return spark.read.schema(SCHEMA).parquet(str(folder))
