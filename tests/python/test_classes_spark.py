"""Classes in the place of DDL, on Spark in every form."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, TypedDict

import pydantic
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.streams import Stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclasses.dataclass
class Seen:
    k: str
    n: int
    old: list[int]


class Keys(TypedDict):
    k: str
    n: int
    old: list[int]


class Model(pydantic.BaseModel):
    k: str
    n: int
    old: list[int]


class Small(pydantic.BaseModel):
    n: int = pydantic.Field(lt=2)


KINDS: Any = pytest.mark.parametrize("kind", [Seen, Keys, Model])
TYPES = "struct<k:string,n:bigint,old:array<bigint>>"


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", 1), ("a", 2)], "k string, v bigint").coalesce(1)


def shown(df: DataFrame) -> list[Any]:
    return sorted(tuple(row) for row in df.collect())


@KINDS
@pytest.mark.parametrize("engine", ["jvm", "python"])
def test_async_io(df: DataFrame, kind: Any, engine: Any) -> None:
    async def ask(row: Any) -> Any:
        return kind(k="a", n=row.v, old=[]) if row.v < 2 else None

    done = pb.async_io(df.select("v"), ask, returns=kind, engine=engine)
    assert all(field.nullable for field in done.schema.fields[1:])
    assert shown(done) == [(1, "a", 1, []), (2, None, None, None)]


class Remember(pb.KeyedProcessFunction):
    def __init__(self, kind: Any, tag: str | None = None) -> None:
        self.kind, self.tag = kind, tag

    def open(self, ctx: Any) -> None:
        self.last = ctx.value_state("last", self.kind)

    def process(self, row: Any, ctx: Any) -> Any:
        before = self.last.value()
        old = [] if before is None else [*get(before, "old"), get(before, "n")]
        now = self.kind(k=ctx.key, n=row.v, old=old)
        self.last.update(now)
        if self.tag is not None:
            ctx.output(self.tag, now)
        yield now


def get(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, dict) else getattr(value, name)


@KINDS
def test_process_keyed(df: DataFrame, kind: Any) -> None:
    done = pb.process_keyed(
        df, Remember(kind, "side"), by="k", order_by="v", returns=kind, side_outputs={"side": kind}
    )
    wanted = [("a", 1, []), ("a", 2, [1])]
    assert pb.main_output(done).schema.simpleString() == TYPES
    assert shown(pb.main_output(done)) == wanted
    assert shown(pb.side_output(done, "side")) == wanted


class Awaits(pb.AsyncKeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.value_state("last", Seen)

    async def process(self, row: Any, ctx: Any) -> Any:
        before = self.last.value()
        now = Seen(ctx.key, row.v, [] if before is None else [before.n])
        self.last.update(now)
        return now


def test_process_keyed_async(df: DataFrame) -> None:
    done = pb.process_keyed_async(df, Awaits(), by="k", order_by="v", returns=Seen)
    assert shown(done) == [("a", 1, []), ("a", 2, [1])]


class Columns(pb.ArrowKeyedProcessFunction):
    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        return {"k": batch["k"], "n": batch["v"], "old": [[]] * batch.num_rows}


def test_process_keyed_arrow(df: DataFrame) -> None:
    done = pb.process_keyed_arrow(df, Columns(), by="k", returns=Seen)
    assert shown(done) == [("a", 1, []), ("a", 2, [])]


def test_what_pydantic_refuses_is_the_rows_error(df: DataFrame) -> None:
    async def ask(row: Any) -> Any:
        return Small(n=row.v)

    done = pb.async_io(df, ask, returns=Small, on_error="column")
    good, bad = sorted(done.collect(), key=lambda row: row.v)
    assert (good.n, good.error) == (1, None)
    assert (bad.n, bad.error.kind) == (None, "ValidationError")
    assert "\nn\n" in bad.error.message


def test_a_field_that_is_no_column_is_told_before_any_job(df: DataFrame) -> None:
    kind = dataclasses.make_dataclass("Kind", [("x", complex)])
    with pytest.raises(
        pb.InvalidSchema, match=r"INVALID_RETURNS\].*its field x is of type complex"
    ):
        pb.async_io(df, len, returns=kind)


@KINDS
def test_a_state_of_a_class_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path, kind: Any
) -> None:
    def build(df: DataFrame) -> DataFrame:
        return pb.process_keyed(df, Remember(kind), by="k", returns=kind)

    stream = Stream(spark, tmp_path, "k string, v bigint", build)
    stream.add(("a", 1)).run()
    assert sorted(stream.add(("a", 2)).run()) == [("a", 1, []), ("a", 2, [1])]
