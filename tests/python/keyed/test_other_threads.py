"""A thread that a call has started has no key, whichever is current by then."""

import threading
from datetime import datetime, timezone

import pytest
from pyspark.sql import Row

import pillarbox as pb
from pillarbox.testing import KeyedHarness


class Sum(pb.AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator


class Function(pb.KeyedProcessFunction):
    """Key a starts a thread, which uses ``use(function, ctx)`` while the call for b runs."""

    def __init__(self, use):
        self.use = use
        self.raised = None

    def open(self, ctx):
        self.n = ctx.value_state("n", "bigint")
        self.all = ctx.list_state("all", "bigint")
        self.by = ctx.map_state("by", "string", "bigint")
        self.total = ctx.reducing_state("total", "bigint", lambda a, b: a + b)
        self.sum = ctx.aggregating_state("sum", "bigint", Sum())

    def process(self, row, ctx):
        if row.k == "a":
            self.is_b, self.thread = (
                threading.Event(),
                threading.Thread(target=self.late, args=[ctx]),
            )
            self.thread.start()
        else:
            self.by.put("x", 1)
            self.n.value(), self.total.get(), self.sum.get(), self.all.get()  # all are loaded
            self.is_b.set()
            self.thread.join()
        return row.k, 0

    def on_timer(self, timestamp, ctx):
        return "timer", 0

    def late(self, ctx):
        self.is_b.wait(60)
        try:
            self.raised = self.use(self, ctx)
        except pb.StateError as problem:
            self.raised = problem.condition


START = datetime(2024, 1, 1, tzinfo=timezone.utc)

USES = {
    "value": lambda fn, ctx: fn.n.value(),
    "update": lambda fn, ctx: fn.n.update(1),
    "clear": lambda fn, ctx: fn.n.clear(),
    "reducing get": lambda fn, ctx: fn.total.get(),
    "reducing add": lambda fn, ctx: fn.total.add(1),
    "aggregating get": lambda fn, ctx: fn.sum.get(),
    "aggregating add": lambda fn, ctx: fn.sum.add(1),
    "list get": lambda fn, ctx: fn.all.get(),
    "list add": lambda fn, ctx: fn.all.add(1),
    "list update": lambda fn, ctx: fn.all.update([1]),
    "list clear": lambda fn, ctx: fn.all.clear(),
    "map get": lambda fn, ctx: fn.by.get("x"),
    "map put": lambda fn, ctx: fn.by.put("y", 1),
    "map remove": lambda fn, ctx: fn.by.remove("x"),
    "map items": lambda fn, ctx: list(fn.by.items()),
    "map is_empty": lambda fn, ctx: fn.by.is_empty(),
    "map clear": lambda fn, ctx: fn.by.clear(),
    "timer": lambda fn, ctx: ctx.timers.register_event_time(1 << 50),
    "timer of processing time": lambda fn, ctx: ctx.timers.register_processing_time(1 << 50),
    "delete a timer": lambda fn, ctx: ctx.timers.delete_event_time(5),
    "delete timers": lambda fn, ctx: ctx.timers.delete_all(),
    "list timers": lambda fn, ctx: ctx.timers.list(),
    "output": lambda fn, ctx: ctx.output("side", (1,)),
    "key": lambda fn, ctx: ctx.key,
}


@pytest.mark.parametrize("time_sorted", [False, True])
@pytest.mark.parametrize("use", USES)
def test_it_is_refused_and_nothing_is_written(use, time_sorted):
    function = Function(USES[use])
    one = KeyedHarness(
        function,
        by="k",
        schema="k string, t timestamp",
        returns="k string, n int",
        timestamp="t",
        time_sorted=time_sorted,
        side_outputs={"side": "n bigint"},
    )
    rows = one.run_micro_batch([Row(k="a", t=START), Row(k="b", t=START)], watermark=START)
    assert function.raised == "NO_CURRENT_KEY"
    assert [row.k for row in rows] == ["a", "b"]
    for key in "ab":
        assert [one.state(name, key) for name in ("n", "total", "sum")] == [None, None, None]
        assert (one.state("all", key), one.timers(key)) == ([], [])
        assert one.state("by", key) == ({} if key == "a" else {"x": 1})
    assert one.side_output("side") == []


def test_nothing_is_current_between_micro_batches():
    function = Function(None)
    one = KeyedHarness(function, by="k", schema="k string", returns="k string, n int")
    function.is_b, function.thread = threading.Event(), threading.Thread()
    function.thread.start()
    one.process(("b",))
    with pytest.raises(pb.StateError, match="NO_CURRENT_KEY"):
        function.n.update(1)
