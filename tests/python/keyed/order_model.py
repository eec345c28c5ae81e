"""The order of a key's rows and timers, and the watermark that each sees, as a plain program.

It reads like ``docs/time-sorted.md`` and knows nothing of frames, handles or queues. A case is one
key's program (``tests/golden/README.md``); a key sees nothing of any other.
"""

from __future__ import annotations

import math
from typing import Any

TTL_MS = 10
BEFORE_ALL = -(1 << 63)  # stands for no watermark


class Key:
    """One key: its state, its timers, and what its function was called with."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.on, self.is_sorted = case.get("on", {}), case.get("time_sorted", False)
        initial = case.get("initial", {})
        self.value, self.elements = initial.get("value"), list(initial.get("list", ()))
        self.brief: tuple[int, int | None] | None = None
        self.timers = {parsed(timer) for timer in initial.get("timers", ())}
        self.can_register, self.reached = True, None
        self.first_watermark: int | None = None
        self.calls: list[str] = []

    def stream(self, rows: list[Any], clock: list[Any]) -> None:
        """``rows`` are (micro-batch, time, ops); ``clock`` what each micro-batch comes to."""
        watermark, waiting = None, []
        for number, (after, now) in enumerate(clock, 1):
            on_time = [row for row in rows if row[0] == number and not is_late(row[1], watermark)]
            if self.is_sorted:
                waiting += on_time
            else:
                for _, time, ops in on_time:
                    self.row(None if time is None else math.floor(time), ops, sees=watermark)
            watermark = after
            if self.first_watermark is None:
                self.first_watermark = after
            while self.is_due(watermark, now) or any(is_at(row, watermark) for row in waiting):
                if self.is_sorted:
                    self.in_order_of_time(waiting, watermark)
                    self.reached = later(self.reached, watermark)
                else:
                    self.fire("event", watermark, sees=watermark)
                self.fire("clock", now, sees=watermark)

    def batch(self, rows: list[Any]) -> None:
        """All rows, then all timers; none can be set any more by then."""
        if self.is_sorted:
            self.in_order_of_time(list(rows), max((up(row[1]) for row in rows), default=None))
        else:
            for _, time, ops in rows:
                self.row(None if time is None else math.floor(time), ops, sees=None)
        self.can_register = False
        while (time := self.first("event")) is not None:
            self.reached = later(self.reached, time)
            self.fire("event", time, sees=self.reached)
        self.fire("clock", math.inf, sees=self.reached)

    def in_order_of_time(self, waiting: list[Any], end: int | None) -> None:
        """Up to ``end``: all rows of a time, then the timers that are due by then."""
        while end is not None:
            times = [up(row[1]) for row in waiting]
            if (first := self.first("event")) is not None:
                times.append(first)
            if not times or min(times) > end:
                return
            time = min(times)
            here = sorted((row for row in waiting if up(row[1]) == time), key=lambda row: row[1])
            for row in here:
                waiting.remove(row)
                self.row(time, row[2], sees=time - 1)
            self.reached = later(self.reached, time)
            self.fire("event", self.reached, sees=self.reached)

    def fire(self, kind: str, until: float | None, sees: int | None) -> None:
        """In order of time, also what is set meanwhile."""
        while until is not None and (time := self.first(kind)) is not None and time <= until:
            self.timers.remove((kind, time))
            ops = self.on.get(f"{kind} {time}", "")
            self.call(kind, time, ops, sees, record=time if kind == "event" else None)

    def row(self, time: int | None, ops: str, sees: int | None) -> None:
        self.call("row", time, ops, sees, record=time)

    def first(self, kind: str) -> int | None:
        return min((time for of, time in self.timers if of == kind), default=None)

    def is_due(self, watermark: int | None, now: int) -> bool:
        return any(until is not None and first is not None and first <= until
                   for first, until in ((self.first("event"), watermark),
                                        (self.first("clock"), now)))  # fmt: skip

    def call(
        self, what: str, time: int | None, ops: str, sees: int | None, record: int | None
    ) -> None:
        told = [what, shown(time), f"@{shown(None if sees == BEFORE_ALL else sees)}"]
        for op in filter(None, ops.split(", ")):
            answer = self.do(op, sees, record)
            told += [] if answer is None else [answer]
        self.calls.append(" ".join(told))

    def do(self, op: str, watermark: int | None, record: int | None) -> str | None:
        name, _, argument = op.rpartition(" ")
        if name in ("event", "clock"):
            self.timers |= {(name, int(argument))} if self.can_register else set()
        elif name in ("no event", "no clock"):
            self.timers -= {(name[3:], int(argument))}
        elif name == "put":
            self.value = int(argument)
        elif name == "add":
            self.elements.append(int(argument))
        elif name == "ttl.put":
            now = watermark if record is None else record
            self.brief = int(argument), later(self.began() if self.brief else None, now)
        else:
            return {"get": lambda: shown(self.value), "all": lambda: str(self.elements),
                    "timers": lambda: str(listed(self.timers)),
                    "ttl.get": lambda: shown(self.read_brief(watermark))}[op]()  # fmt: skip
        return None

    def read_brief(self, watermark: int | None) -> int | None:
        """A value without a time starts its life at the first watermark that is known."""
        if self.brief is None:
            return None
        value, since = self.brief[0], self.began()
        if watermark is not None:
            since = watermark if since is None else since
            self.brief = None if since + TTL_MS <= watermark else (value, since)
        return None if self.brief is None else value

    def began(self) -> int | None:
        """When the life of the value began, as far as it is known."""
        assert self.brief is not None
        return self.first_watermark if self.brief[1] is None else self.brief[1]

    def left(self) -> dict[str, Any]:
        """What is there in the end; TTL apart."""
        there = {"value": self.value, "list": self.elements, "timers": listed(self.timers)}
        return {name: what for name, what in there.items() if what not in (None, [])}


def run(case: dict[str, Any], clock: list[Any]) -> dict[str, Any]:
    """What a case gives: the calls in a stream and in a batch, and what a stream leaves."""
    stream, batch = Key(case), Key(case)
    stream.stream(case["rows"], case.get("clock", clock))
    batch.batch(case["rows"])
    return {"stream": stream.calls, "left": stream.left(), "batch": batch.calls}


def parsed(timer: str) -> tuple[str, int]:
    kind, time = timer.split()
    return kind, int(time)


def listed(timers: set[tuple[str, int]]) -> list[str]:
    return [f"{kind} {time}" for time, kind in sorted((time, kind) for kind, time in timers)]


def shown(number: int | None) -> str:
    return "-" if number is None else str(number)


def later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def up(time: float) -> int:
    """Of time-sorted rows: to whole milliseconds."""
    return math.ceil(time)


def is_late(time: float | None, watermark: int | None) -> bool:
    return time is not None and watermark is not None and time <= watermark


def is_at(row: Any, watermark: int | None) -> bool:
    return watermark is not None and row[1] <= watermark
