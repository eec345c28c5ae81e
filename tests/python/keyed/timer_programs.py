"""One program with one timer a key, as rows and as columns; both see and emit the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import pillarbox as pb
from pillarbox import columns

RETURNS = "k string, at bigint, n bigint"


class Rows(pb.KeyedProcessFunction):
    """Adds up ``v``. The last row of a key moves its timer, or deletes it if ``v`` is even."""

    def __init__(self, time_domain: str, ttl: Any = None) -> None:
        self.time_domain, self.ttl = time_domain, ttl

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint", ttl=self.ttl)
        self.due = ctx.value_state("due", "bigint")

    def process(self, row: Any, ctx: Any) -> None:
        self.n.update((self.n.value() or 0) + row.v)
        now = ctx.timestamp if self.time_domain == "event_time" else ctx.processing_time
        self.move(ctx, None if row.v % 2 == 0 else now + row.v)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.due.clear()
        n = self.n.value()
        if timestamp % 3:
            self.move(ctx, timestamp + 2)
        self.n.update((n or 0) + timestamp % 2)
        return ctx.key, timestamp, n

    def move(self, ctx: Any, to: int | None) -> None:
        due = self.due.value()
        if due is not None:
            getattr(ctx.timers, f"delete_{self.time_domain}")(due)
        self.due.update(to) if to is not None else self.due.clear()
        if to is not None:
            getattr(ctx.timers, f"register_{self.time_domain}")(to)


class Columns(pb.ArrowKeyedProcessFunction):
    def __init__(self, time_domain: str, ttl: Any = None) -> None:
        self.time_domain, self.ttl = time_domain, ttl

    def open(self, ctx: Any) -> None:
        ctx.value_state("n", "bigint", ttl=self.ttl)
        ctx.timer("due", time_domain=self.time_domain)

    def process(self, batch: pa.RecordBatch, state: Any, ctx: Any) -> None:
        v = batch["v"]
        state["n"] = columns.group_sum(v, state.index, pc.coalesce(state["n"], 0))
        now = ctx.timestamps if self.time_domain == "event_time" else ctx.processing_time
        to = pc.if_else(pc.equal(pc.bit_wise_and(v, 1), 0), None, pc.add(v, now))
        state["due"] = columns.group_last(to, state.index)

    def on_timers(self, batch: pa.RecordBatch, state: Any, ctx: Any) -> Any:
        assert ctx.timer == "due"
        assert state["due"].null_count == len(state.keys)
        at, n = ctx.timestamps.to_numpy(), state["n"]
        state["due"] = pa.array(at + 2, mask=at % 3 == 0)
        state["n"] = pc.add(pc.coalesce(n, 0), pa.array(at % 2))
        return {"k": batch["k"], "at": ctx.timestamps, "n": n}
