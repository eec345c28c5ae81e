"""What keyed functions do, as scripts that any runner can play: the parity suite's contents.

A script is a stream of micro-batches with the rows that come out in the end. Runners (the harness,
a worker under a small operator, Spark) play it by these rules: rows of a batch run under the
watermark that its predecessor ended with; then the watermark moves to the latest time of all
*earlier* batches less ``delay_ms`` and event-time timers fire; after the last batch it moves once
more, over all rows. ``batch`` is what the same rows give as one batch, where that is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pillarbox as pb

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Script:
    """Times are epoch ms in bigint columns; rows are in the order of ``input``."""

    name: str
    function: Callable[[], Any]
    input: str
    returns: str
    batches: list[list[Row]]
    stream: list[Row]
    batch: list[Row] | None = None
    by: tuple[str, ...] = ("k",)
    timestamp: str | None = "t"
    delay_ms: int = 0
    options: dict[str, Any] = field(default_factory=dict)


class CountAndSum(pb.KeyedProcessFunction):
    def open(self, ctx):
        self.seen = ctx.value_state("seen", "n bigint, total double")

    def process(self, row, ctx):
        before = self.seen.value()
        n, total = (before.n + 1, before.total + row.v) if before else (1, row.v)
        self.seen.update((n, total))
        yield row.k, n, total


class FirstOfADay(pb.KeyedProcessFunction):
    """Lets a key through once in 100 ms of event time."""

    def open(self, ctx):
        self.seen = ctx.value_state(
            "seen", "boolean", ttl=pb.StateTtl("100 ms", time_domain="event_time")
        )

    def process(self, row, ctx):
        if self.seen.value() is None:
            self.seen.update(True)
            return {"k": row.k, "t": row.t}
        return None


class Session(pb.KeyedProcessFunction):
    """Rows with less than 50 ms between them, told when the watermark has passed."""

    def open(self, ctx):
        self.times = ctx.list_state("times", "bigint")

    def process(self, row, ctx):
        times = self.times.get()
        if times:
            ctx.timers.delete_event_time(max(times) + 50)
        self.times.add(row.t)
        ctx.timers.register_event_time(max([*times, row.t]) + 50)

    def on_timer(self, timestamp, ctx):
        times = self.times.get()
        self.times.clear()
        yield ctx.key, min(times), len(times)


class Distinct(pb.KeyedProcessFunction):
    def open(self, ctx):
        self.counts = ctx.map_state("counts", "string", "int")
        self.largest = ctx.reducing_state("largest", "int", max)

    def process(self, row, ctx):
        count = (self.counts.get(row.w) or 0) + 1
        self.counts.put(row.w, count)
        self.largest.add(count)
        if count == 3:
            self.counts.remove(row.w)
        yield row.k, row.w, count, len(list(self.counts.items())), self.largest.get()


class Chain(pb.KeyedProcessFunction):
    """Each timer sets the next one, up to the third."""

    def open(self, ctx):
        self.left = ctx.value_state("left", "int")

    def process(self, row, ctx):
        self.left.update(3)
        ctx.timers.register_event_time(row.t + 10)
        ctx.timers.register_event_time(row.t + 10)

    def on_timer(self, timestamp, ctx):
        left = self.left.value() - 1
        self.left.update(left)
        if left:
            ctx.timers.register_event_time(timestamp + 10)
        yield ctx.key, timestamp, left


class Interleaved(pb.KeyedProcessFunction):
    """Tells rows and timers, and what the function knows of the time, in their order."""

    def open(self, ctx):
        self.order = ctx.value_state("order", "int")

    def process(self, row, ctx):
        ctx.timers.register_event_time(row.t + 10)
        yield self.next(ctx, "row")

    def on_timer(self, timestamp, ctx):
        yield self.next(ctx, "timer")

    def next(self, ctx, what):
        at = (self.order.value() or 0) + 1
        self.order.update(at)
        return ctx.key, at, what, ctx.timestamp, ctx.watermark - ctx.timestamp


class Split(pb.KeyedProcessFunction):
    def process(self, row, ctx):
        if row.v < 0:
            ctx.output("bad", {"why": f"{row.k} is {row.v:g}"})
        else:
            yield row.k, row.v


class ByTwo(pb.KeyedProcessFunction):
    def open(self, ctx):
        self.n = ctx.value_state("n", "int")

    def process(self, row, ctx):
        self.n.update((self.n.value() or 0) + 1)
        return [{"a": ctx.key.a, "b": ctx.key.b, "n": self.n.value()}]


class Sorted(pb.KeyedProcessFunction):
    def open(self, ctx):
        self.last = ctx.value_state("last", "bigint")

    def process(self, row, ctx):
        last, _ = self.last.value(), self.last.update(row.t)
        yield row.k, row.t, last


KV = "k string, t bigint, v double"

SCRIPTS = [
    Script(
        "running count and sum",
        CountAndSum,
        KV,
        "k string, n bigint, total double",
        batches=[[("a", 1, 1.5), ("b", 2, 2.0), ("a", 3, 1.0)], [("a", 4, 0.25), (None, 5, 7.0)]],
        stream=[("a", 1, 1.5), ("b", 1, 2.0), ("a", 2, 2.5), ("a", 3, 2.75), (None, 1, 7.0)],
        batch=[("a", 1, 1.5), ("b", 1, 2.0), ("a", 2, 2.5), ("a", 3, 2.75), (None, 1, 7.0)],
    ),
    Script(
        "deduplication with TTL in event time",
        FirstOfADay,
        "k string, t bigint",
        "k string, t bigint",
        batches=[[("a", 1000), ("b", 1010)], [("a", 1050)], [("a", 1099), ("b", 1105)],
                 [("a", 1200)], [("a", 1201)], [("a", 1202)]],
        # b of 1105 comes when the watermark is 1050; a of 1202 when it is 1200.
        stream=[("a", 1000), ("b", 1010), ("a", 1201)],
    ),
    Script(
        "sessions that end with a timer",
        Session,
        "k string, t bigint",
        "k string, start bigint, n int",
        batches=[[("a", 100), ("b", 120), ("a", 130)], [("a", 170)], [("c", 400)], [("c", 401)]],
        stream=[("a", 100, 3), ("b", 120, 1)],
        batch=[("a", 100, 3), ("b", 120, 1), ("c", 400, 2)],
    ),
    Script(
        "late rows are dropped",
        Session,
        "k string, t bigint",
        "k string, start bigint, n int",
        delay_ms=20,
        batches=[[("a", 100)], [("b", 300)], [("a", 80)], [("c", 280), ("c", 281)], [("b", 500)]],
        stream=[("a", 100, 1), ("c", 281, 1)],
    ),
    Script(
        "map and reducing state",
        Distinct,
        "k string, w string",
        "k string, w string, n int, words int, largest int",
        timestamp=None,
        batches=[[("a", "x"), ("a", "y")], [("a", "x"), ("b", "x")], [("a", "x")], [("a", "x")]],
        stream=[("a", "x", 1, 1, 1), ("a", "y", 1, 2, 1), ("a", "x", 2, 2, 2), ("b", "x", 1, 1, 1),
                ("a", "x", 3, 1, 3), ("a", "x", 1, 2, 3)],
        batch=[("a", "x", 1, 1, 1), ("a", "y", 1, 2, 1), ("a", "x", 2, 2, 2), ("b", "x", 1, 1, 1),
               ("a", "x", 3, 1, 3), ("a", "x", 1, 2, 3)],
    ),
    Script(
        "timers that set timers",
        Chain,
        "k string, t bigint",
        "k string, t bigint, left int",
        batches=[[("a", 100), ("b", 105)], [("c", 124)]],
        stream=[("a", 110, 2), ("b", 115, 2), ("a", 120, 1)],
        # At the end of a key in a batch, a timer can set no other.
        batch=[("a", 110, 2), ("b", 115, 2), ("c", 134, 2)],
    ),
    Script(
        "rows and timers in the order of time",
        Interleaved,
        "k string, t bigint",
        "k string, n int, what string, t bigint, behind bigint",
        options={"time_sorted": True},
        delay_ms=50,
        batches=[[("a", 120), ("a", 100), ("b", 110)], [("a", 110), ("b", 105)], [("a", 300)]],
        stream=[("a", 1, "row", 100, -1), ("a", 2, "row", 110, -1), ("a", 3, "timer", 110, 0),
                ("a", 4, "row", 120, -1), ("a", 5, "timer", 120, 0), ("a", 6, "timer", 130, 0),
                ("b", 1, "row", 105, -1), ("b", 2, "row", 110, -1), ("b", 3, "timer", 115, 0),
                ("b", 4, "timer", 120, 0)],
        batch=[("a", 1, "row", 100, -1), ("a", 2, "row", 110, -1), ("a", 3, "timer", 110, 0),
               ("a", 4, "row", 120, -1), ("a", 5, "timer", 120, 0), ("a", 6, "timer", 130, 0),
               ("a", 7, "row", 300, -1), ("a", 8, "timer", 310, 0),
               ("b", 1, "row", 105, -1), ("b", 2, "row", 110, -1), ("b", 3, "timer", 115, 0),
               ("b", 4, "timer", 120, 0)],
    ),
    Script(
        "several key columns",
        ByTwo,
        "a string, b int",
        "a string, b int, n int",
        by=("a", "b"),
        timestamp=None,
        batches=[[("x", 1), ("x", 2), (None, 1)], [("x", 1), (None, 1), (None, None)]],
        stream=[("x", 1, 1), ("x", 2, 1), (None, 1, 1), ("x", 1, 2), (None, 1, 2), (None, None, 1)],
        batch=[("x", 1, 1), ("x", 2, 1), (None, 1, 1), ("x", 1, 2), (None, 1, 2), (None, None, 1)],
    ),
]  # fmt: skip


def same_rows(found: list[Any], expected: list[Row]) -> None:
    """Spark promises no order between keys; what a key gives is numbered where order matters."""
    assert Counter(map(tuple, found)) == Counter(expected)
