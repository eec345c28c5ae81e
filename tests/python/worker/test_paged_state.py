"""Lists and maps that are larger than a page, as the worker asks for them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import pillarbox as pb
from worker.keyed_driver import KEEP, NONE, KeyedInProcess, Store

PAGE, COUNT = 10, 45
STEPS: dict[str, Any] = {}
KEPT: list[Any] = []


class Large(pb.KeyedProcessFunction):
    """Runs a step of the tests, each of which is named by a row."""

    def __init__(self, ttl: pb.StateTtl | None = None) -> None:
        self.ttl = ttl

    def open(self, ctx):
        self.list = ctx.list_state("list", "bigint")
        self.map = ctx.map_state("map", "bigint", "bigint", ttl=self.ttl)

    def process(self, row, ctx):
        return row.k, STEPS[row.step](self)


def step(function):
    STEPS[function.__name__] = function
    return function


@step
def some_elements(large):
    elements = iter(large.list)
    return [next(elements) for _ in range(15)]


@step
def all_elements(large):
    return list(large.list)


@step
def elements_while_they_change(large):
    large.list.add(100)
    elements = iter(large.list)
    seen = [next(elements)]
    large.list.add(101)
    large.list.update([7])
    return [*seen, *elements]


@step
def some_keys(large):
    keys = large.map.keys()
    return [next(keys) for _ in range(15)]


@step
def all_keys(large):
    return sorted(large.map.keys())


@step
def entries_while_they_change(large):
    large.map.put(3, 300)
    large.map.put(100, 1)
    large.map.remove(4)
    entries = large.map.items()
    seen = [next(entries)]
    large.map.put(44, 0)
    large.map.put(101, 0)
    large.map.remove(43)
    large.map.clear()
    large.map.put(5, 5)
    return sorted([*seen, *entries])


@step
def keep(large):
    KEPT.extend([iter(large.list), large.map.items()])
    return [next(one) for one in KEPT]


@step
def go_on_late(large):
    conditions = []
    for one in KEPT:
        with pytest.raises(pb.StateError) as raised:
            list(one)
        conditions.append(raised.value.condition)
    return conditions


@pytest.fixture
def keyed() -> Iterator[KeyedInProcess]:
    KEPT.clear()
    one = KeyedInProcess()
    yield one
    one.close()


def started(keyed, function=None, **options):
    """A worker whose key "a" has a list and a map of several pages."""
    text = {"inputs": "k string, step string", "returns": "k string, found string"}
    store = Store(keyed.start_keyed((function or Told)(**options), **text))
    store.page_entries = PAGE
    keyed.big = frozenset(["list", "map"])
    store.cells["list", "a"] = [({"value": i}, 0) for i in range(COUNT)]
    store.cells["map", "a"] = {
        pickle.dumps({"value": i}): ({"value": 10 * i}, i) for i in range(COUNT)
    }
    return store


class Told(Large):
    def process(self, row, ctx):
        key, found = super().process(row, ctx)
        return key, repr(found)


@dataclass
class Visit:
    value: int

    def doubled(self):
        return 2 * self.value


class Visits(Told):
    def open(self, ctx):
        self.list = ctx.list_state("list", Visit)
        self.map = ctx.map_state("map", "bigint", Visit, ttl=self.ttl)


@step
def all_doubled(large):
    large.list.add(Visit(100))
    return [one.doubled() for one in large.list], sorted(v.doubled() for v in large.map.values())


@pytest.mark.parametrize("ttl", [None, pb.StateTtl("1 hour")])
def test_objects_of_a_class_are_made_of_pages_too(keyed, ttl):
    store = started(keyed, Visits, ttl=ttl)
    elements = [2 * i for i in range(COUNT)]
    expected = [*elements, 200], [10 * i for i in elements]
    assert run(store, "all_doubled", processing_time=50) == [expected]


def run(store, *steps, key="a", **clocks):
    events = [(0, key, NONE, (key, one)) for one in steps]
    return [eval(found) for _, found in store.run(events, **clocks)]


@pytest.mark.parametrize(
    ("of", "some", "whole"),
    [("list", "some_elements", "all_elements"), ("map", "some_keys", "all_keys")],
)
def test_pages_are_asked_for_as_the_iteration_comes_to_them(keyed, of, some, whole):
    store = started(keyed)
    assert run(store, some) == [list(range(15))]
    assert store.queries == [(of, 0)] * 2
    assert run(store, whole, whole) == [list(range(COUNT))] * 2
    assert store.queries == [(of, 0)] * (2 + 2 * 5)  # nothing of it stays in the worker


@pytest.mark.parametrize(("of", "whole"), [("list", "all_elements"), ("map", "all_keys")])
def test_what_fits_a_page_is_asked_for_once(keyed, of, whole):
    store = started(keyed)
    store.page_entries = COUNT
    assert run(store, whole, whole, flags=KEEP) == [list(range(COUNT))] * 2
    assert run(store, whole) == [list(range(COUNT))]
    assert store.queries == [(of, 0)]


def test_an_iteration_over_a_list_shows_what_was_there_when_it_began(keyed):
    store = started(keyed)
    assert run(store, "elements_while_they_change") == [[*range(COUNT), 100]]
    assert run(store, "all_elements") == [[7]]


def test_an_iteration_over_a_map_shows_what_was_there_when_it_began(keyed):
    store = started(keyed)
    expected = {i: 10 * i for i in range(COUNT) if i != 4} | {3: 300, 100: 1}
    assert run(store, "entries_while_they_change") == [sorted(expected.items())]
    assert run(store, "all_keys") == [[5]]


@pytest.mark.parametrize("flags", [0, KEEP])
def test_an_iteration_ends_with_its_key(keyed, flags):
    store = started(keyed)
    assert run(store, "keep", flags=flags) == [[0, (0, 0)]]
    assert run(store, "go_on_late", key="b") == [["ITERATION_TOO_LATE"] * 2]


@pytest.mark.parametrize("update", ["on_create_and_write", "on_read_and_write"])
def test_entries_under_ttl_are_judged_page_by_page(keyed, update):
    store = started(keyed, ttl=pb.StateTtl("24 ms", update=update))
    alive = list(range(27, COUNT))
    assert run(store, "all_keys", "all_keys", processing_time=50) == [alive] * 2
    entries = store.cells["map", "a"].items()
    stamps = {pickle.loads(key)["value"]: stamp for key, (_, stamp) in entries}
    assert stamps == {i: 50 if update == "on_read_and_write" else i for i in alive}
