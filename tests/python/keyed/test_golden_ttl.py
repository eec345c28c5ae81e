"""The cases of tests/golden/ttl.json, on handles of the row form, on columns and on the harness."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as t

import pillarbox as pb
from keyed.support import AtKeys
from pillarbox._arrow.fields import Place
from pillarbox._harness.memory import dump
from pillarbox._keyed.arrow import ArrowContext
from pillarbox._keyed.columnar import StateColumn
from pillarbox._keyed.context import UNKNOWN
from pillarbox._keyed.state import Declaration
from pillarbox._keyed.values import ValueType
from pillarbox._keyed.whole_columns import ColumnConverter
from pillarbox.testing import KeyedHarness

GOLDEN = Path(__file__).parents[2] / "golden" / "ttl.json"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
CASES = json.loads(GOLDEN.read_text())["cases"]
STATES = {"put": "one", "get": "one", "add": "many", "all": "many", "sum": "sum", "total": "sum"}


def playing(cases: list[Any]) -> Any:
    return pytest.mark.parametrize("case", [pytest.param(one, id=one["name"]) for one in cases])


def is_of_columns(case: Any) -> bool:
    return all(step[3].split()[0] in ("put", "get") for step in case["steps"])


class Plays(pb.KeyedProcessFunction):
    """Does what a row says, and tells the answer."""

    def __init__(self, ttl: dict[str, str], told: list[str]) -> None:
        self.ttl, self.told = ttl, told

    def tell(self, key: Any, map_key: Any, value: Any) -> None:
        self.told.append(str(value) if map_key is None else f"{map_key}={value}")

    def open(self, ctx: Any) -> None:
        ttl = pb.StateTtl("10 ms", on_expire=self.tell, **self.ttl)  # type: ignore[arg-type]
        self.states = {
            "one": ctx.value_state("one", "bigint", ttl=ttl),
            "many": ctx.list_state("many", "bigint", ttl=ttl),
            "named": ctx.map_state("named", "string", "bigint", ttl=ttl),
            "sum": ctx.reducing_state("sum", "bigint", lambda a, b: a + b, ttl=ttl),
        }

    def process(self, row: Any, ctx: Any) -> Any:
        yield (self.run(*row.op.split()),)

    def run(self, op: str, *args: str) -> str:
        one, many, named, total = self.states.values()
        if op == "put":
            return shown(one.update(int(args[0])))
        if op == "get":
            return shown(one.value())
        if op == "add":
            return shown(many.add(int(args[0])))
        if op == "all":
            return ", ".join(map(str, many.get()))
        if op == "set":
            return shown(named.put(args[0], int(args[1])))
        if op == "at":
            return shown(named.get(args[0]))
        if op == "entries":
            return ", ".join(sorted(f"{key}={value}" for key, value in named.items()))
        if op == "empty":
            return "yes" if named.is_empty() else "no"
        return shown(total.add(int(args[0])) if op == "sum" else total.get())

    def stamps(self, op: str) -> list[int]:
        """Of the state that the operation is for; a map's in the order of its keys."""
        state = self.states[STATES.get(op.split()[0], "named")]
        return [state._policy.known(stamp) for _, _, stamp in sorted(dump(state, 0), key=by_key)]


def by_key(entry: tuple[Any, Any, int]) -> str:
    return entry[0] or ""


def shown(value: Any) -> str:
    return "-" if value is None else str(value)


def known(time: int | None) -> int:
    return UNKNOWN if time is None else time


def check(step: Any, answer: str | None, stamps: list[int]) -> None:
    if step[4] is not None:
        assert answer == step[4], step
    if step[5] is not None:
        assert stamps == list(map(known, step[5])), step


@playing(CASES)
def test_handles(case: Any) -> None:
    told: list[str] = []
    function = Plays(case["ttl"], told)
    keys = AtKeys(lambda ctx: function.open(ctx))
    context = keys.runtime.context
    for step in case["steps"]:
        watermark, now, time, op = step[:4]
        if context._first_watermark == UNKNOWN:
            context._first_watermark = known(watermark)
        keys.at(now=now, watermark=known(watermark), timestamp=time)
        check(step, function.run(*op.split()), function.stamps(op))
    assert told == case["told"]


@playing(CASES)
def test_harness(case: Any) -> None:
    told: list[str] = []
    function = Plays(case["ttl"], told)
    harness = KeyedHarness(
        function, by="k", schema="k string, ts timestamp, op string", returns="answer string",
        timestamp="ts", processing_time=0, on_late="process",
    )  # fmt: skip
    for step in case["steps"]:
        watermark, now, time, op = step[:4]
        if watermark is not None:
            harness.advance_watermark(watermark)
        row = ("a", None if time is None else moment(time), op)
        ((answer,),) = harness.run_micro_batch([row], processing_time=now)
        check(step, answer, function.stamps(op))
    assert told == case["told"]


def moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


@playing([case for case in CASES if is_of_columns(case)])
def test_columns(case: Any) -> None:
    """As on Spark, where stored stamps come as what they stand for."""
    told: list[str] = []
    ttl = pb.StateTtl("10 ms", on_expire=lambda *what: told.append(str(what[2])), **case["ttl"])
    declaration = Declaration("one", "value", ValueType(t.LongType(), Place("one")), ttl=ttl)
    converter = ColumnConverter(t.StructField("one", t.LongType()), pa.int64(), Place("one"))
    stored: tuple[int | None, int] = (None, UNKNOWN)
    first = UNKNOWN
    for step in case["steps"]:
        watermark, now, time, op = step[:4]
        first = known(watermark) if first == UNKNOWN else first
        value, stamp = (
            stored[0],
            first if stored[1] == UNKNOWN and ttl.time_domain == "event_time" else stored[1],
        )
        context = ArrowContext("test", known(watermark), now, pa.array([time], pa.int64()))
        column = StateColumn(
            declaration, converter,
            lambda cell=(value, stamp): (pa.array([cell[0]], pa.int64()), np.array([cell[1]])),
            context, lambda time=time: np.array([known(time)]), pa.array(["a"]),
        )  # fmt: skip
        if op == "get":
            answer = shown(column.read()[0].as_py())
        else:
            answer = column.write([int(op.split()[1])])
        changes = column.changes()
        stored = (value, stamp) if changes is None else (changes[1][0].as_py(), int(changes[2][0]))
        check(step, answer, [] if stored[0] is None else [stored[1]])
    assert told == case["told"]
