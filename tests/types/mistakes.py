# ruff: noqa: B018, B015, E501, F401
# fmt: off
"""Mistakes that mypy and pyright must find; test_types.py holds them to it, line by line.

A line that ends with ``# found: CODE RULE`` gives mypy's error of that code and pyright's of that
rule; ``-`` stands for a type checker that does not find it. Nothing else gives any.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

from pydantic import BaseModel
from pyspark.sql import DataFrame, Row, SparkSession

import pillarbox as pb
from pillarbox import asnc_io  # found: attr-defined reportAttributeAccessIssue


async def price(row: Row) -> float:
    return float(row.id)


def options(df: DataFrame, spark: SparkSession) -> None:
    pb.async_io(df, price, returns="p double", on_error="column", timeout="5s")
    pb.async_oi(df, price, returns="p double")  # found: attr-defined reportAttributeAccessIssue
    pb.async_io(df, price)  # found: call-arg reportCallIssue
    pb.async_io(df, price, retruns="p double", returns="x int")  # found: call-arg reportCallIssue
    pb.async_io(df, price, returns="p double", on_error="nul")  # found: arg-type reportArgumentType
    pb.async_io(df, price, returns="p double", engine="java")  # found: arg-type reportArgumentType
    pb.async_io(df, price, returns="p double", capacity="9")  # found: arg-type reportArgumentType
    pb.async_io(df, price, returns="p double", timeout=5)  # found: arg-type reportArgumentType
    pb.async_io(df, price, returns="p double", retry="3")  # found: arg-type reportArgumentType
    pb.async_io(df, 5, returns="p double")  # found: arg-type reportArgumentType
    pb.Retry("3")  # found: arg-type reportArgumentType
    pb.Retry(3, back_off="1s")  # found: call-arg reportCallIssue
    pb.StateTtl("1 day", update="on_write")  # found: arg-type reportArgumentType
    pb.StateTtl("1 day", time_domain="event")  # found: arg-type reportArgumentType
    pb.JvmFunction("com.acme.F", {"n": 1})  # found: dict-item reportArgumentType
    pb.scan(df, by="k", state={"n": "n + 1"})  # found: dict-item reportArgumentType
    pb.read_state(spark, "/checkpoint", 0)  # found: call-arg reportCallIssue
    pb.side_output(df)  # found: call-arg reportCallIssue
    pb.columns.runing_count([0])  # found: attr-defined reportAttributeAccessIssue
    pb.testing.Harnes  # found: attr-defined reportAttributeAccessIssue
    pb.configure(spark)  # found: arg-type reportArgumentType


class Sums(pb.KeyedProcessFunction):
    def open(self, ctx: pb.OpenContext) -> None:
        self.total = ctx.value_state("total", "bigint")
        self.prices = ctx.list_state("prices", "double", ttl="1 day")
        self.seen = ctx.map_state("seen", "string", "timestamp")
        self.most = ctx.reducing_state("most", "int", max)
        self.row: pb.ValueState[Row] = ctx.value_state("row", "a int, b string")
        self.text: pb.ValueState[str] = ctx.value_state("n", "int")  # found: assignment reportAttributeAccessIssue
        ctx.value_state("other", int)  # found: type-var reportCallIssue,reportArgumentType
        ctx.value_state("other", "int", ttl=5)  # found: call-overload reportCallIssue,reportArgumentType
        ctx.valu_state("other", "int")  # found: attr-defined reportAttributeAccessIssue
        ctx.reducing_state("least", "int", lambda a: a)  # found: arg-type,misc reportCallIssue,reportArgumentType
        ctx.aggregating_state("mean", "int", max)  # found: arg-type reportArgumentType

    def process(self, row: Row, ctx: pb.Context[str]) -> Iterator[dict[str, object]]:
        self.total.update((self.total.value() or 0) + row.amount)
        self.total.update("5")  # found: arg-type reportArgumentType
        self.total.value() + 1  # found: operator reportOptionalOperand
        self.total.get()  # found: attr-defined reportAttributeAccessIssue
        self.prices.add("5")  # found: arg-type reportArgumentType
        self.seen.put(5, row.at)  # found: arg-type reportArgumentType
        self.seen.get("a").year  # found: union-attr reportOptionalMemberAccess
        self.most.add(None)  # found: arg-type reportArgumentType
        ctx.timestamp.year  # found: union-attr reportAttributeAccessIssue
        ctx.watermark + 60_000  # found: operator reportOptionalOperand
        ctx.time_domain == "processing"  # found: comparison-overlap -
        ctx.timers.register_event_time("12:00")  # found: arg-type reportArgumentType
        ctx.timers.register_event(5)  # found: attr-defined reportAttributeAccessIssue
        ctx.output({"a": 1})  # found: call-arg,arg-type reportCallIssue
        yield {"account": ctx.key + 1}  # found: operator reportOperatorIssue

    def on_timer(self, timestamp: str, ctx: pb.Context[str]) -> None:  # found: override reportIncompatibleMethodOverride
        pass


class Columns(pb.ArrowKeyedProcessFunction):
    def process(self, batch: object, ctx: pb.ArrowContext) -> None:  # found: override reportIncompatibleMethodOverride
        ctx.timers  # found: attr-defined reportAttributeAccessIssue


class Mean(pb.AggregateFunction[float, Row, float]):
    def create_accumulator(self) -> Row:
        return Row(n=0, total=0.0)

    def add(self, value: float, accumulator: Row) -> Row:
        return Row(n=accumulator.n + 1, total=accumulator.total + value)

    def get_result(self, accumulator: Row) -> str:  # found: override reportIncompatibleMethodOverride
        return str(accumulator.total / accumulator.n)


class Credit(pb.AsyncKeyedProcessFunction):
    def open(self, ctx: pb.OpenContext) -> None:
        self.limit = ctx.value_state("limit", "bigint")

    async def process(self, row: Row, ctx: pb.AsyncContext[str]) -> tuple[str, int]:
        limit = self.limit.value() or await ctx.resource.limit_of(ctx.key)
        await self.limit.update(limit)  # found: misc reportGeneralTypeIssues
        self.limit.update("5")  # found: arg-type reportArgumentType
        return ctx.key, limit


class Yields(pb.AsyncKeyedProcessFunction):
    async def process(self, row: Row, ctx: pb.AsyncContext) -> AsyncIterator[str]:
        yield str(ctx.timestamp)


def keyed(df: DataFrame) -> None:
    pb.process_keyed_async(df, Credit(), by="a", returns="a string", timeout="5s", on_error="null")
    pb.process_keyed_async(df, Yields(), by="a", returns="a string", retry=3)
    pb.process_keyed_async(df, Yields(), by="a", returns="a string", retry="3")  # found: arg-type reportArgumentType
    pb.process_keyed(df, Yields(), by="a", returns="a string")  # found: arg-type reportArgumentType
    pb.process_keyed_arrow(df, Sums(), by="a", returns="a string")  # found: arg-type reportArgumentType
    pb.process_keyed(df, Sums(), by="a", returns="a string", timeout="5s")  # found: call-arg reportCallIssue
    pb.process_keyed(df, Sums(), by="account", returns="account string")
    pb.process_keyed(df, Sums, by="account", returns="a string")  # found: arg-type reportArgumentType
    pb.process_keyed(df, Sums(), by="a", returns="a string", backend="rocks")  # found: arg-type reportArgumentType
    pb.process_keyed(df, Sums(), by="a", returns="a string", backend="ram")  # found: arg-type reportArgumentType
    pb.process_keyd(df, Sums(), by="a", returns="a int")  # found: attr-defined reportAttributeAccessIssue
    # PySpark types the arguments of transform as Any: nobody sees this one.
    df.transform(pb.process_keyed, Sums(), bye="account", returns="account string")


@dataclass
class Price:
    amount: float


class Keys(TypedDict):
    amount: float


class Model(BaseModel):
    amount: float


class Named(NamedTuple):
    amount: float


class Objects(pb.KeyedProcessFunction):
    def open(self, ctx: pb.OpenContext) -> None:
        self.last = ctx.value_state("last", Price)
        self.keys = ctx.list_state("keys", Keys)
        self.named = ctx.map_state("named", "string", Price)
        self.most = ctx.reducing_state("most", Price, lambda a, b: a if a.amount > b.amount else b)
        self.model = ctx.value_state("model", Model)
        self.pair = ctx.value_state("pair", Named)
        ctx.map_state("by_price", Price, "string")  # found: call-overload reportCallIssue,reportArgumentType
        ctx.value_state("last", 5)  # found: call-overload reportCallIssue,reportArgumentType

    def process(self, row: Row, ctx: pb.Context[str]) -> Iterator[Price]:
        self.last.update(Price(1.0))
        self.last.update("1.0")  # found: arg-type reportArgumentType
        self.last.value().amount  # found: union-attr reportOptionalMemberAccess
        self.keys.add({"amount": 1.0})
        self.keys.add(Price(1.0))  # found: arg-type reportArgumentType
        self.named.put(1, Price(1.0))  # found: arg-type reportArgumentType
        self.most.add(1.0)  # found: arg-type reportArgumentType
        self.model.update(Model(amount=1.0))
        self.pair.update(Named(1.0))
        self.model.update(Named(1.0))  # found: arg-type reportArgumentType
        yield from self.named.values()


def classes(df: DataFrame) -> None:
    pb.async_io(df, price, returns=Price)
    pb.async_io(df, price, returns=Keys)
    pb.async_io(df, price, returns=Model)
    pb.async_io(df, price, returns=5)  # found: arg-type reportArgumentType
    pb.process_keyed(df, Objects(), by="k", returns=Price, side_outputs={"x": Keys, "y": "z int"})
