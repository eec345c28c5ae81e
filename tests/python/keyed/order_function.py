"""The cases of ``tests/golden``, and the function that plays them: what it does is in the rows."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pillarbox as pb
from pillarbox.columns import group_last

FOLDER = Path(__file__).parents[2] / "golden"
INPUT = "k string, i int, ts timestamp, ops string"
RETURNS = "k string, n int, told string"
TTL = pb.StateTtl("10 ms", time_domain="event_time")


@dataclass(frozen=True)
class Group:
    """Cases that run together, each as the key of its name: of one order and one clock."""

    time_sorted: bool
    clock: list[Any]
    cases: list[dict[str, Any]]

    def __str__(self) -> str:
        order = "sorted" if self.time_sorted else "as they come"
        return f"{order}, {len(self.cases)} keys, {len(self.clock)} micro-batches"

    @property
    def on(self) -> dict[str, str]:
        """What the function does in timers: by key, kind and time."""
        return {
            f"{case['name']} {timer}": ops
            for case in self.cases
            for timer, ops in case.get("on", {}).items()
        }

    def rows(self, step: int | None = None) -> list[tuple[str, int, Any, str]]:
        """(key, place in its program, time, ops), of one micro-batch or of all."""
        return [
            (case["name"], i, time, ops)
            for case in self.cases
            for i, (of, time, ops) in enumerate(case["rows"])
            if step in (None, of)
        ]

    def expected(self, form: str) -> dict[str, Any]:
        """ "stream", "batch" or "left", by key; nothing of keys that have nothing."""
        return {case["name"]: case[form] for case in self.cases if case.get(form)}


def groups(*names: str) -> list[Group]:
    """The cases of some files of ``tests/golden``, and of that which ``PILLARBOX_GOLDEN`` names."""
    found: dict[tuple[bool, str], list[Any]] = defaultdict(list)
    for name in [*names, *filter(None, [os.environ.get("PILLARBOX_GOLDEN")])]:
        golden = json.loads((FOLDER / name).read_text())
        for case in golden["cases"]:
            clock = json.dumps(case.get("clock", golden["clock"]))
            found[case.get("time_sorted", False), clock].append(case)
    return [Group(key[0], json.loads(key[1]), cases) for key, cases in found.items()]


class Plays(pb.KeyedProcessFunction):
    """Does what the rows say, and tells what came of it; ``n`` numbers what a key tells."""

    def __init__(self, on: dict[str, str]) -> None:
        self.on = on

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "int")
        self.value = ctx.value_state("value", "bigint")
        self.list = ctx.list_state("list", "bigint")
        self.brief = ctx.value_state("brief", "bigint", ttl=TTL)

    def process(self, row: Any, ctx: Any) -> Any:
        return self.tell(ctx, "row", row.ops)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        kind = "event" if ctx.time_domain == "event_time" else "clock"
        assert ctx.timestamp == timestamp
        return self.tell(ctx, kind, self.on.get(f"{ctx.key} {kind} {timestamp}", ""))

    def tell(self, ctx: Any, what: str, ops: str) -> Any:
        told = [what, shown(ctx.timestamp), f"@{shown(ctx.watermark)}"]
        answers = [self.do(op, ctx) for op in ops.split(", ") if op]
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        return ctx.key, n, " ".join([*told, *filter(None, answers)])

    def do(self, op: str, ctx: Any) -> str | None:
        name, _, argument = op.rpartition(" ")
        number = int(argument) if name else None
        answer = {
            "event": lambda: ctx.timers.register_event_time(number),
            "clock": lambda: ctx.timers.register_processing_time(number),
            "no event": lambda: ctx.timers.delete_event_time(number),
            "no clock": lambda: ctx.timers.delete_processing_time(number),
            "put": lambda: self.value.update(number),
            "add": lambda: self.list.add(number),
            "ttl.put": lambda: self.brief.update(number),
            "get": lambda: shown(self.value.value()),
            "all": lambda: str(list(self.list.get())),
            "ttl.get": lambda: shown(self.brief.value()),
            "timers": lambda: str(listed(ctx.timers.list())),
        }[name or op]
        return answer()


def listed(timers: Iterable[Any]) -> list[str]:
    kinds = {"event_time": "event", "processing_time": "clock"}
    told = sorted((timer.timestamp, kinds[timer.time_domain]) for timer in timers)
    return [f"{kind} {time}" for time, kind in told]


def shown(number: int | None) -> str:
    return "-" if number is None else str(number)


def by_key(rows: Iterable[Sequence[Any]], numbered: bool = True) -> dict[str, list[str]]:
    """What each key told, in its order; ``numbered``: from 1, with nothing left out."""
    told: dict[str, list[Any]] = defaultdict(list)
    for key, n, text in rows:
        told[key].append((n, text))
    for key, calls in told.items():
        numbers = [n for n, _ in sorted(calls)]
        assert not numbered or numbers == list(range(1, len(calls) + 1)), f"{key}: {numbers}"
    return {key: [text for _, text in sorted(calls)] for key, calls in told.items()}


FOLD = "ttl.get, ttl.put "


def folds(case: dict[str, Any]) -> bool:
    """Whether a case only reads and writes its value once a row, one row a micro-batch: what the
    column form and a scan can do."""
    steps = [row[0] for row in case["rows"]]
    is_plain = not case.get("initial") and len(steps) == len(set(steps)) > 0
    return is_plain and all(ops.startswith(FOLD) for _, _, ops in case["rows"])


class FoldsColumns(pb.ArrowKeyedProcessFunction):
    """The column form of ``Plays``, for cases that fold."""

    def open(self, ctx: Any) -> None:
        ctx.value_state("n", "int")
        ctx.value_state("brief", "bigint", ttl=TTL)

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        keys = [state.keys[int(place)].as_py() for place in state.index]
        known = state["brief"].take(state.index).to_pylist()
        numbers = [(n or 0) + 1 for n in state["n"].take(state.index).to_pylist()]
        news = [int(ops.removeprefix(FOLD)) for ops in batch["ops"].to_pylist()]
        state["brief"] = group_last(news, state.index)
        state["n"] = group_last(numbers, state.index)
        told = [
            f"row {shown(time)} @{shown(ctx.watermark)} {shown(value)}"
            for time, value in zip(ctx.timestamps.to_pylist(), known, strict=True)
        ]
        return {"k": keys, "n": numbers, "told": told}


def differences(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """By key what was found, and what should have been."""
    keys = sorted({*found, *expected})
    return {
        key: {"found": found.get(key), "expected": expected.get(key)}
        for key in keys
        if found.get(key) != expected.get(key)
    }
