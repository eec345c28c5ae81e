"""Timers of the column form over the worker's protocol, beside those of the row form."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import pillarbox as pb
from keyed.timer_programs import RETURNS, Columns, Rows
from worker.keyed_driver import BATCH, NONE, KeyedInProcess, Store

KINDS = {"event_time": 1, "processing_time": 2}
INPUTS = "k string, v bigint"


def start(worker, function, form: str, **spec) -> Store:
    started = worker.start_keyed(function, form=form, inputs=INPUTS, returns=RETURNS, **spec)
    return Store(started, timers_on_demand=True)


@pytest.fixture
def both():
    """Workers of the row form and of the column form."""
    workers = KeyedInProcess(), KeyedInProcess()
    yield workers
    for worker in workers:
        worker.close()


@pytest.fixture
def one():
    worker = KeyedInProcess()
    yield worker
    worker.close()


@pytest.mark.parametrize("ttl", [None, "event_time", "processing_time"])
@pytest.mark.parametrize("domain", ["event_time", "processing_time"])
@pytest.mark.parametrize("seed", range(4))
def test_a_stream_of_columns_fires_and_keeps_what_one_of_rows_does(both, domain, ttl, seed):
    dice = random.Random(f"{domain} {ttl} {seed}")
    life = None if ttl is None else pb.StateTtl("9 ms", time_domain=ttl)
    stores = [
        start(both[0], Rows(domain, life), "row"),
        start(both[1], Columns(domain, life), "arrow"),
    ]
    watermark, now, told = NONE, 0, [[], []]
    for _ in range(25):
        start_ms = max(watermark, 0)
        events = [
            (0, key, start_ms + dice.randrange(1, 9), (key, dice.randrange(10)))
            for key in (f"k{dice.randrange(9)}" for _ in range(dice.randrange(1, 12)))
        ]
        after, now = start_ms + dice.randrange(10), now + dice.randrange(6)
        for store, out in zip(stores, told, strict=True):
            clocks = {"watermark": watermark, "processing_time": now}
            assert store.run(events, horizon=watermark, **clocks) == []
            limit = after if domain == "event_time" else now
            clocks["watermark"] = watermark if domain == "event_time" else after
            while due := sorted((at, k) for k, _, at in store.timers if at <= limit):
                part = [(KINDS[domain], key, at, None) for at, key in due[: 1 + seed]]
                out += store.run(part, horizon=limit, **clocks)
        watermark = after
        assert stores[0].timers == stores[1].timers
        assert stores[0].fired == stores[1].fired
        assert stores[0].cells == stores[1].cells
    assert sorted(told[0], key=repr) == sorted(told[1], key=repr)
    assert len(told[0]) > 5


@pytest.mark.parametrize("domain", ["event_time", "processing_time"])
def test_in_a_batch_timers_fire_when_their_keys_end(both, domain):
    dice = random.Random(domain)
    events = [
        (0, f"k{i // 5}", dice.randrange(50), (f"k{i // 5}", dice.randrange(10)))
        for i in range(100)
    ]
    told = []
    for worker, function, form in (
        (both[0], Rows(domain), "row"),
        (both[1], Columns(domain), "arrow"),
    ):
        store = Store(worker.start_keyed(function, form=form, inputs=INPUTS, returns=RETURNS))
        # The rows of the last key of a frame are all there, but it ends in the next one.
        out = store.run(events[:50], flags=BATCH, ended=9)
        keys = [f"k{i}" for i in range(9, 20)]
        told.append(sorted(out + store.run(events[50:], keys, flags=BATCH, ended=11)))
        assert store.fired[KINDS[domain] - 1] == len(told[-1])
    assert told[0] == told[1]
    assert len(told[0]) > 5


class Both(pb.ArrowKeyedProcessFunction):
    """A timer of each domain; the first that fires takes the other away."""

    def open(self, ctx):
        ctx.timer("event")
        ctx.timer("wall", time_domain="processing_time")

    def process(self, batch, state, ctx):
        state["event"] = pa.array([5] * len(state.keys))
        state["wall"] = [None if key == "b" else 3 for key in state.keys.to_pylist()]

    def on_timers(self, batch, state, ctx):
        other = {"event": "wall", "wall": "event"}[ctx.timer]
        left = state[other].to_pylist()
        state[other] = pa.nulls(len(state.keys), pa.int64())
        return {"k": batch["k"], "at": ctx.timestamps, "n": pa.array(left, pa.int64())}


def test_a_timer_may_delete_that_of_the_other_domain(both):
    for worker, flags, ended in ((both[0], 0, 0), (both[1], BATCH, 2)):
        store = Store(worker.start_keyed(Both(), form="arrow", inputs=INPUTS, returns=RETURNS))
        events = [(0, key, 0, (key, 1)) for key in ("a", "b")]
        out = store.run(events, flags=flags, ended=ended)
        if not ended:
            assert store.timers == {("a", 1, 5), ("a", 2, 3), ("b", 1, 5)}
            due = [(1, key, 5, None) for key in ("a", "b")]
            out = store.run(due, horizon=5)
            assert store.timers == set()
        assert out == [("a", 5, 3), ("b", 5, None)]


class Wrong(Both):
    def __init__(self, open_with):
        self.open_with = open_with

    def open(self, ctx):
        self.open_with(ctx)


def twice(ctx):
    ctx.timer("first")
    ctx.timer("second")


@pytest.mark.parametrize(
    ("open_with", "spec", "word"),
    [
        (twice, {}, "'first' and 'second' are both timers in event time"),
        (lambda ctx: ctx.timer("at"), {"event_time": False}, "TIMER_WITHOUT_WATERMARK"),
        (lambda ctx: ctx.timer("at", "clock"), {}, "time_domain"),
    ],
)
def test_timers_that_can_not_be_are_refused_when_the_function_is_opened(one, open_with, spec, word):
    letter, body = one.start_keyed(Wrong(open_with), form="arrow", returns=RETURNS, **spec)
    assert letter == "T"
    assert word in body["text"] + body["condition"]


def test_a_declared_timer_needs_on_timers_and_the_column_form(both):
    class Unheard(pb.ArrowKeyedProcessFunction):
        def open(self, ctx):
            ctx.timer("at")

        def process(self, batch, state, ctx):
            return None

        def on_timer(self, timestamp, ctx):
            return None

    class Row(pb.KeyedProcessFunction):
        def open(self, ctx):
            ctx.timer("at")

        def process(self, row, ctx):
            return None

    _, body = both[0].start_keyed(Unheard(), form="arrow")
    assert "no method on_timers, but a on_timer" in body["text"]
    _, body = both[1].start_keyed(Row())
    assert body["condition"] == "TIMER_OF_COLUMNS"


class Written(Both):
    """Writes a state in process, and reads it in on_timers only."""

    def open(self, ctx):
        ctx.value_state("last", "bigint")
        ctx.timer("at")

    def process(self, batch, state, ctx):
        state["last"] = state["at"] = pb.columns.group_last(batch["v"], state.index)

    def on_timers(self, batch, state, ctx):
        return {"k": batch["k"], "at": ctx.timestamps, "n": state["last"]}


def test_in_a_batch_a_state_that_was_only_written_is_read_when_timers_fire(one):
    store = Store(one.start_keyed(Written(), form="arrow", inputs=INPUTS, returns=RETURNS))
    events = [(0, key, 0, (key, v)) for key, v in (("a", 4), ("b", 7), ("a", 5))]
    assert sorted(store.run(events, flags=BATCH, ended=2)) == [("a", 5, 5), ("b", 7, 7)]
