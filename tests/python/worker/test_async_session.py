"""A task of an asynchronous keyed function in the worker: calls, resources, what is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

import pillarbox as pb
from worker.keyed_driver import KEEP, NONE, KeyedInProcess, Store
from worker.test_keyed_session import row

LOG: list[str] = []


class Count(pb.AsyncKeyedProcessFunction):
    """Waits ``x`` times, and counts; 13 is refused the first time."""

    def open(self, ctx):
        LOG.append("open")
        self.n = ctx.value_state("n", "bigint")
        self.refused = 0

    async def process(self, row, ctx):
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        for _ in range(row.x):
            await asyncio.sleep(0)
        if row.x == 13 and not self.refused:
            self.refused += 1
            raise ConnectionError
        yield row.k, n

    def close(self):
        LOG.append("close")


@contextlib.asynccontextmanager
async def client():
    LOG.append("client")
    yield 7


class Uses(Count):
    async def process(self, row, ctx):
        return row.k, ctx.resource


@pytest.fixture
def keyed() -> Iterator[KeyedInProcess]:
    LOG.clear()
    one = KeyedInProcess()
    yield one
    one.close()


def test_state_goes_out_and_comes_back_changed_in_the_order_of_the_rows(keyed):
    store = Store(keyed.start_keyed(Count(), calls={}))
    rows = [row("a", 9), row("b", 1), row("a", 2), row("c", 5)]
    assert store.run(rows) == [("a", 1), ("b", 1), ("a", 2), ("c", 1)]
    assert store.cells == {
        ("n", key): ({"value": n}, 0) for key, n in (("a", 2), ("b", 1), ("c", 1))
    }
    assert store.run([row("a", 1)]) == [("a", 3)]
    assert keyed.end()


def test_an_attempt_that_fails_leaves_nothing_in_held_keys_either(keyed):
    calls = {"retry": pb.Retry(2, backoff="1ms")}
    store = Store(keyed.start_keyed(Count(), calls=calls))
    assert store.run([row("a", 1), row("b", 1)], flags=KEEP) == [("a", 1), ("b", 1)]
    assert store.run([row("a", 13), row("a", 1), row("b", 1)]) == [("a", 2), ("a", 3), ("b", 2)]
    assert store.cells == {("n", "a"): ({"value": 3}, 0), ("n", "b"): ({"value": 2}, 0)}


class Fails(pb.AsyncKeyedProcessFunction):
    async def process(self, row, ctx):
        raise LookupError(f"{ctx.key}")


@pytest.mark.parametrize(
    ("by", "key", "returned", "found"),
    [
        ("k string", "a", "k string, x bigint, y bigint", [("a", 5, None), (None, 5, None)]),
        (
            "k string, j int",
            ("a", 7),
            "j int, k string, x int",
            [(7, "a", None), (None, None, None)],
        ),
        ("k double", 2.0, "y bigint, k double", [(None, 2.0), (None, None)]),
    ],
)
def test_the_row_of_a_failed_call_has_the_key_that_the_function_does_not_see(
    keyed, by, key, returned, found
):
    calls = {"on_error": "null"}
    one = keyed.start_keyed(Fails(), by=by, inputs="x bigint", returns=returned, calls=calls)
    none = None if len(by.split(",")) == 1 else (None, None)
    assert Store(one).run([(0, key, NONE, (5,)), (0, none, NONE, (5,))]) == found


def test_the_resource_and_the_function_stay_open_for_the_next_task(keyed):
    function, calls = Uses(), {"resource": client}
    for _ in range(2):
        store = Store(keyed.start_keyed(function, calls=calls))
        assert store.run([row("a", 1)]) == [("a", 7)]
        assert keyed.end()
    assert sorted(LOG) == ["client", "open"]


def test_a_resource_that_does_not_open_is_told_of(keyed):
    def broken():
        raise OSError("no route")

    kind, body = keyed.start_keyed(Count(), calls={"resource": broken})
    assert kind == "T"
    assert "RESOURCE_OPEN_FAILED" in str(body)
    assert "no route" in str(body)


def test_a_call_that_was_given_up_and_does_not_end_takes_the_worker_with_it(keyed):
    class Stubborn(Count):
        async def process(self, row, ctx):
            while row.x == 13:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
            return row.k, row.x

    calls = {"timeout": pb.Timeout(attempt="20ms"), "on_error": "null"}
    store = Store(keyed.start_keyed(Stubborn(), calls=calls))
    assert store.run([row("a", 13), row("a", 1)]) == [("a", None), ("a", 1)]
    assert not keyed.end()
