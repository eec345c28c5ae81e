"""Rows that the worker gets ahead of their turn."""

from __future__ import annotations

import asyncio
import threading

import pytest

import pillarbox as pb
from pillarbox._async.call_places import CallPlaces

# Functions that are sent reach this through the module, so worker and test share it.
STATE: dict[str, object] = {}


def shared(name: str):
    return STATE[name]


class Gates:
    """Calls are held until the test lets theirs end; ``started`` tells their order."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self._ends: dict[int, threading.Event] = {}
        self._changed = threading.Condition()

    def begin(self, key: int) -> threading.Event:
        with self._changed:
            self.started.append(key)
            self._ends[key] = threading.Event()
            self._changed.notify_all()
            return self._ends[key]

    def end(self, key: int) -> None:
        self._ends[key].set()

    def await_started(self, *keys: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.started == list(keys), 20), self.started


@pytest.fixture(autouse=True)
def gates():
    STATE.clear()
    STATE["gates"] = Gates()
    yield STATE["gates"]
    for key in STATE["gates"].started:
        STATE["gates"].end(key)


async def held(row):
    ending = shared("gates").begin(row.x)
    while not ending.is_set():
        await asyncio.sleep(0.001)
    if row.x >= 100:
        raise LookupError(str(row.x))
    return row.x


def start(worker, **options):
    return worker.start(held, ordered=False, capacity=2, look_ahead=2, **options)


def test_a_row_in_line_is_called_as_soon_as_another_call_has_ended(worker, gates):
    start(worker)
    worker.call(0, 1, 2, 3)
    gates.await_started(0, 1)
    gates.end(1)
    assert worker.receive() == ("R", [(1, 1, [(1,)])])
    gates.await_started(0, 1, 2)
    gates.end(2)
    gates.await_started(0, 1, 2, 3)
    gates.end(0)
    gates.end(3)
    assert worker.collect(3) == {0: [(0,)], 2: [(2,)], 3: [(3,)]}


def test_a_failed_row_keeps_its_place_until_it_is_given_up(worker, gates):
    start(worker, retry=pb.Retry(2))
    worker.call(100, 1, 2)
    gates.await_started(100, 1)
    gates.end(100)
    assert worker.receive()[0] == "F"
    worker.call(100, ids=[0], attempt=2)
    gates.await_started(100, 1, 100)
    gates.end(100)
    assert worker.receive()[0] == "F"
    worker.give_up(0)
    gates.await_started(100, 1, 100, 2)
    worker.give_up(0)
    worker.call(3, ids=[3])
    gates.end(2)
    gates.await_started(100, 1, 100, 2, 3)


def test_a_row_in_line_that_is_cancelled_is_never_called(worker, gates):
    start(worker)
    worker.call(0, 1, 2, 3)
    gates.await_started(0, 1)
    worker.cancel(2)
    gates.end(0)
    gates.await_started(0, 1, 3)


def test_rows_in_line_are_not_called_once_the_task_ends(worker, gates):
    start(worker)
    worker.call(0, 1, 2, 3)
    gates.await_started(0, 1)
    assert worker.end()
    assert gates.started == [0, 1]


def test_calls_that_end_at_once_do_not_pile_up_on_the_stack(worker):
    async def same(row):
        return row.x

    count = 20_000
    worker.start(same, ordered=False, capacity=1, look_ahead=count)
    worker.call(*range(count))
    assert len(worker.collect(count)) == count


def places_of(most):
    """Places, the calls that they started, and the turns of the loop that they asked for."""
    started, turns = [], []
    places = CallPlaces(
        most, lambda element, attempt, row, name: started.append((element, attempt)), turns.append
    )
    return places, started, turns


def test_places_count_each_element_once():
    places, started, _ = places_of(2)
    places.call((element, 1, None, "") for element in range(5))
    places.leave([(0, 1), (0, 1)])
    places.leave([(0, 1)])
    assert started == [(0, 1), (1, 1), (2, 1)]
    places.call([(1, 2, None, "")])
    assert started[-1] == (1, 2)
    places.leave([(1, 2), (2, 1)])
    assert started[-2:] == [(3, 1), (4, 1)]


def test_an_answer_to_an_older_attempt_leaves_the_place_of_the_present_one_alone():
    places, started, _ = places_of(1)
    places.call([(0, 1, None, ""), (0, 2, None, ""), (1, 1, None, "")])
    places.leave([(0, 1)])
    places.cancel([(1, 2)])
    assert started == [(0, 1), (0, 2)]
    places.leave([(0, 2)])
    assert started[-1] == (1, 1)


def test_an_attempt_whose_place_was_taken_meanwhile_waits_for_another_one():
    places, started, _ = places_of(1)
    places.call([(0, 1, None, ""), (1, 1, None, "")])
    # The answer left the place, but crossed with the deadline of the attempt in the JVM.
    places.leave([(0, 1)])
    places.call([(0, 2, None, "")])
    assert started == [(0, 1), (1, 1)]
    places.leave([(1, 1)])
    assert started[-1] == (0, 2)


def test_first_steps_that_take_long_are_spread_over_turns_of_the_loop(monkeypatch):
    now = 0.0

    def slow(element, attempt, row, name):
        nonlocal now
        now += 0.004
        started.append(element)

    started, turns = [], []
    monkeypatch.setattr("pillarbox._async.call_places.time.monotonic", lambda: now)
    places = CallPlaces(None, slow, turns.append)
    places.call((element, 1, None, "") for element in range(7))
    assert started == [0, 1, 2]
    places.cancel([(4, 1)])
    places.call([(7, 1, None, "")])
    for expected in ([3, 5, 6], [7]):
        del started[:]
        turns.pop()()
        assert started == expected
    assert turns == []
    places.call([(8, 1, None, "")])
    assert started == [7, 8]


def test_what_waits_for_its_turn_is_not_called_once_it_is_cleared(monkeypatch):
    times = iter(range(100))
    monkeypatch.setattr("pillarbox._async.call_places.time.monotonic", lambda: next(times))
    places, started, turns = places_of(None)
    places.call((element, 1, None, "") for element in range(3))
    places.clear()
    turns.pop()()
    assert started == [(0, 1)]
