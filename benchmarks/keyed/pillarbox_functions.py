"""The running count and sum per key in every form that Pillarbox has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

import pillarbox as pb
from pillarbox.columns import group_first, group_last, running_count, running_sum

TIMER_MS = 600_000
MAP_ENTRIES = 10


class RunningCount(pb.KeyedProcessFunction):
    """State read, written, and a row emitted for each row."""

    ttl: pb.StateTtl | None = None

    def open(self, ctx: Any) -> None:
        self.state = ctx.value_state("count", "n bigint, total bigint", ttl=self.ttl)

    def process(self, row: Row, ctx: Any) -> Iterator[Any]:
        n, total = self.state.value() or (0, 0)
        n, total = n + 1, total + row.v
        self.state.update((n, total))
        yield row.k, n, total


class RunningCountTtl(RunningCount):
    ttl = pb.StateTtl("1 hour")


class RunningCountTimer(RunningCount):
    """Also one event-time timer a key, which forgets the key."""

    def process(self, row: Row, ctx: Any) -> Iterator[Any]:
        found = self.state.value()
        if found is None:
            ctx.timers.register_event_time(ctx.timestamp + TIMER_MS)
        n, total = found or (0, 0)
        n, total = n + 1, total + row.v
        self.state.update((n, total))
        yield row.k, n, total

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.state.clear()


class MapOfTen(pb.KeyedProcessFunction):
    """One of ten map entries of the key read and written for each row."""

    def open(self, ctx: Any) -> None:
        self.totals = ctx.map_state("totals", "bigint", "bigint")

    def process(self, row: Row, ctx: Any) -> Iterator[Any]:
        entry = row.v % MAP_ENTRIES
        total = (self.totals.get(entry) or 0) + row.v
        self.totals.put(entry, total)
        yield row.k, entry, total


class RunningCountColumns(pb.ArrowKeyedProcessFunction):
    """The column form: counts and sums within the batch by sorting, then added to the state."""

    def open(self, ctx: Any) -> None:
        ctx.value_state("n", "bigint")
        ctx.value_state("total", "bigint")

    def process(self, batch: pa.RecordBatch, state: Any, ctx: Any) -> dict[str, Any]:
        n = running_count(state.index, start=state["n"])
        total = running_sum(batch.column("v"), state.index, start=state["total"])
        state["n"] = group_last(n, state.index, start=state["n"])
        state["total"] = group_last(total, state.index, start=state["total"])
        return {"k": batch.column("k"), "n": n, "total": total}


class RunningCountTimerColumns(RunningCountColumns):
    """Also one event-time timer a key, which forgets the key."""

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        ctx.timer("due")

    def process(self, batch: pa.RecordBatch, state: Any, ctx: Any) -> dict[str, Any]:
        first = group_first(ctx.timestamps, state.index)
        state["due"] = pc.coalesce(state["due"], pc.add(first, TIMER_MS))
        return super().process(batch, state, ctx)

    def on_timers(self, batch: pa.RecordBatch, state: Any, ctx: Any) -> None:
        state["n"] = state["total"] = pa.nulls(len(state.keys), pa.int64())
