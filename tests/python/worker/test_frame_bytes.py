"""Frames of the worker are cut by bytes, and one answer beyond the limit fails alone."""

from __future__ import annotations

import weakref

import pytest

import pillarbox as pb
from worker.keyed_driver import KEEP, NONE, KeyedInProcess, Store, schema_of

SMALL = {"cut": 1000, "most": 3000}


async def times_100(row):
    return "x" * (row.x * 100)


def test_answers_that_end_together_are_cut_by_bytes(worker):
    worker.start(times_100, "y string", frame_bytes=SMALL)
    worker.call(*[3] * 40)
    frames, outcomes = 0, {}
    while len(outcomes) < 40:
        kind, body = worker.receive()
        assert kind == "R"
        assert sum(len(answer[0][0]) for _, _, answer in body) <= 1000
        outcomes.update({element: answer for element, _, answer in body})
        frames += 1
    assert frames >= 12
    assert outcomes == {i: [("x" * 300,)] for i in range(40)}


def test_an_answer_that_is_too_large_is_that_rows_failure_and_nobody_elses(worker):
    worker.start(times_100, "y string", frame_bytes=SMALL)
    worker.call(1, 40, 2, 20)
    outcomes = worker.collect(4)
    failure = outcomes.pop(1)
    assert outcomes == {0: [("x" * 100,)], 2: [("x" * 200,)], 3: [("x" * 2000,)]}
    assert failure["kind"] == "RESULT_TOO_LARGE"
    assert "3,000 bytes" in failure["message"]
    assert not failure["retryable"]


def test_a_group_that_comes_in_parts_is_one_call(worker):
    async def sizes(rows):
        return [len(rows)] * len(rows)

    worker.start(sizes, batch_size=100)
    worker.send(b"P", worker._calls((1, 2, 3), [0, 1, 2], 1))
    worker.send(b"P", worker._calls((4,), [3], 1))
    worker.group(5, 6, ids=[4, 5])
    assert worker.collect(6) == {i: [(6,)] for i in range(6)}
    worker.group(7, ids=[6])
    assert worker.collect(1) == {6: [(1,)]}


class Puts(pb.KeyedProcessFunction):
    """Puts x hundreds of bytes into a side output, a state, or the row that it returns."""

    def __init__(self, where):
        self.where = where

    def open(self, ctx):
        self.value = ctx.value_state("value", "string")
        self.list = ctx.list_state("list", "string")
        self.map = ctx.map_state("map", "string", "string")

    def put(self, row, ctx):
        text = "x" * (row.x * 100)
        {
            "row": lambda: None,
            "output": lambda: ctx.output("side", (text,)),
            "value": lambda: self.value.update(text),
            "list": lambda: self.list.add(text),
            "map": lambda: self.map.put("one", text),
        }[self.where]()
        return [(text if self.where == "row" else "",), ("",)]

    def process(self, row, ctx):
        return self.put(row, ctx)


class PutsLater(pb.AsyncKeyedProcessFunction):
    __init__, open, put = Puts.__init__, Puts.open, Puts.put

    async def process(self, row, ctx):
        return self.put(row, ctx)


@pytest.fixture
def keyed():
    one = KeyedInProcess()
    yield one
    one.close()


@pytest.mark.parametrize("function", [Puts, PutsLater])
@pytest.mark.parametrize(
    ("where", "event", "condition"),
    [
        ("row", "process(Row(k='b', x=40))", "RESULT_TOO_LARGE"),
        ("output", "ctx.output('side')", "RESULT_TOO_LARGE"),
        ("value", "the state 'value'", "STATE_TOO_LARGE"),
        ("list", "the state 'list'", "STATE_TOO_LARGE"),
        ("map", "the state 'map'", "STATE_TOO_LARGE"),
    ],
)
def test_what_is_too_large_of_a_key_is_told_with_that_key(keyed, function, where, event, condition):
    calls = {} if function is PutsLater else None
    side = {"side": schema_of("text string")}
    keyed.start_keyed(
        function(where), returns="y string", side_outputs=side, frame_bytes=SMALL, calls=calls
    )
    events = [(0, key, NONE, (key, x)) for key, x in (("a", 1), ("b", 40), ("c", 2))]
    ((kind, failure),) = Store(keyed).run(events)
    assert (kind, failure["condition"]) == ("T", condition)
    assert f"for the key 'b' in {event}." in failure["text"]


class Emitted(dict):
    """A row that can be referred to weakly."""


EMITTED = []


class Emits(pb.KeyedProcessFunction):
    def process(self, row, ctx):
        one = Emitted(y=row.k, n=row.x)
        EMITTED.append(weakref.ref(one))
        return one


@pytest.mark.parametrize("keeps", [0, KEEP])
def test_a_worker_keeps_nothing_of_the_rows_that_it_has_sent(keyed, keeps):
    EMITTED.clear()
    store = Store(keyed.start_keyed(Emits(), returns="y string, n long"))
    events = [(0, "a", NONE, ("a", 1)), (0, "b", NONE, ("b", 2))]
    assert store.run(events, flags=keeps) == [("a", 1), ("b", 2)]
    assert [one() for one in EMITTED] == [None, None]
