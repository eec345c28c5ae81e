"""The calls of a keyed function, on which the JVM decides, seen from the JVM's end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import pillarbox as pb
from worker.caller import Caller
from worker.driver import name_of
from worker.keyed_driver import KeyedInProcess, Store
from worker.test_keyed_session import row

BEGUN: list[tuple[str, int, str]] = []


class Count(pb.AsyncKeyedProcessFunction):
    """Counts the rows of a key; a row waits when its key is "slow", and fails when it is "bad"."""

    def open(self, ctx):
        self.n = ctx.value_state("n", "bigint")
        self.recent = ctx.list_state("recent", "bigint")
        self.begun = BEGUN  # a class in a test has a copy

    async def process(self, row, ctx):
        self.begun.append((row.k, row.x, pb.call_id()))
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        self.recent.add(row.x)
        await asyncio.sleep(60 if row.k == "slow" and n == 1 else 0)
        if row.k == "bad":
            raise ConnectionError("down")
        return row.k, n


@pytest.fixture
def keyed() -> Iterator[KeyedInProcess]:
    BEGUN.clear()
    one = KeyedInProcess()
    yield one
    one.close()


def deciding(keyed, **decisions):
    """Let the calls of ``keyed`` be decided by these: ``begin_frame`` and ``hear``."""
    keyed.make_caller = type("Decides", (Caller,), decisions)


def states(store):
    return {cell: content for cell, content in store.cells.items() if cell[0] == "n"}


def test_rows_begin_when_they_are_told_to_and_tell_their_end_by_their_numbers(keyed):
    store = Store(keyed.start_keyed(Count(), calls={}))
    assert store.run([row("a", 1), row("b", 2), row("a", 3)]) == [("a", 1), ("b", 1), ("a", 2)]
    assert store.run([row("b", 4)]) == [("b", 2)]
    told = [("answered", call, 1) for call in range(4)]
    assert sorted(keyed.caller.told) == told
    assert sorted(BEGUN) == [
        ("a", 1, name_of(0)), ("a", 3, name_of(2)), ("b", 2, name_of(1)), ("b", 4, name_of(3)),
    ]  # fmt: skip
    assert keyed.end()


def test_an_attempt_that_is_made_again_though_it_has_answered_is_undone(keyed):
    """Its time was over when its answer was on its way."""

    def hear(self, what, call, attempt, *told):
        if call == 0 and attempt == 1:
            self.give_up(0, 1)
            self.begin(0, 2)
        else:
            Caller.hear(self, what, call, attempt, *told)

    deciding(keyed, hear=hear)
    store = Store(keyed.start_keyed(Count(), calls={}))
    assert store.run([row("a", 1), row("a", 2)]) == [("a", 1), ("a", 2)]
    assert states(store) == {("n", "a"): ({"value": 2}, 0)}
    assert [value["value"] for value, _ in store.cells["recent", "a"]] == [1, 2]
    assert len(BEGUN) == 3


def test_a_call_that_fails_though_it_has_answered_leaves_nothing(keyed):
    def hear(self, what, call, attempt, *told):
        if call == 0:
            self.fail(0, "TIMEOUT", "It was too late.")
            self.end(0)
        else:
            Caller.hear(self, what, call, attempt, *told)

    deciding(keyed, hear=hear)
    store = Store(keyed.start_keyed(Count(), calls={"on_error": "column"}))
    failed, answered = store.run([row("a", 1), row("a", 2)])
    assert answered == ("a", 1, None)
    assert failed[:2] == ("a", None)
    assert failed[2] == {
        "kind": "TIMEOUT", "message": "It was too late.", "attempts": 1, "elapsed_ms": 0,
        "call_id": name_of(0),
    }  # fmt: skip
    assert states(store) == {("n", "a"): ({"value": 1}, 0)}


def test_an_attempt_that_is_given_up_is_cancelled_and_undone(keyed):
    calls = {"timeout": pb.Timeout(attempt="50ms"), "retry": pb.Retry(2, backoff="1ms")}
    calls["on_error"] = "null"
    store = Store(keyed.start_keyed(Count(), calls=calls))
    assert store.run([row("slow", 1), row("b", 1)]) == [("slow", None), ("b", 1)]
    assert states(store) == {("n", "b"): ({"value": 1}, 0)}
    assert keyed.caller.told == [("answered", 1, 1)]
    assert [call[:2] for call in BEGUN].count(("slow", 1)) == 2
    assert keyed.end()


def test_a_failure_comes_with_what_its_exception_says_and_may_be_the_tasks(keyed):
    store = Store(keyed.start_keyed(Count(), calls={}))
    ((kind, failure),) = store.run([row("a", 1), row("bad", 2)])
    assert (kind, failure["condition"], failure["kind"]) == (
        *("T", "KEYED_CALL_FAILED", "ConnectionError"),
    )
    assert failure["attempts"] == 1
    assert 'raise ConnectionError("down")' in failure["traceback"]
    (told,) = [one for one in keyed.caller.told if one[0] == "failed"]
    assert told[3]["message"] == "down"


@pytest.mark.parametrize("on_error", ["null", "raise"])
def test_a_call_that_can_not_begin_may_end_the_task_under_any_on_error(keyed, on_error):
    def begin_frame(self, key_indexes):
        self.fail(0, "BUDGET_EXCEEDED", "[BUDGET_EXCEEDED] It is spent.", ends_task=True)

    deciding(keyed, begin_frame=begin_frame)
    calls = {"budget": pb.Budget(max_calls=1), "on_error": on_error}
    store = Store(keyed.start_keyed(Count(), calls=calls))
    ((kind, failure),) = store.run([row("a", 1), row("b", 2)])
    assert (kind, failure["condition"]) == ("T", "BUDGET_EXCEEDED")
    assert failure["text"].startswith("It is spent.")
    assert BEGUN == []


def test_what_calls_report_is_told_and_is_in_the_call_column(keyed):
    class Reports(Count):
        async def process(self, row, ctx):
            call = pb.current_call()
            call.report_usage(tokens=10 * row.x, usd="many")
            pb.limit_from({"x-ratelimit-remaining-requests": "7",
                           "x-ratelimit-reset-requests": "3s"})  # fmt: skip
            return row.k, call.attempt

    calls = {"usage": "tokens", "call_column": "call", "limit": pb.Limit(concurrency=2)}
    store = Store(keyed.start_keyed(Reports(), calls=calls))
    ((key, attempt, call),) = store.run([row("a", 2)])
    assert (key, attempt) == ("a", 1)
    assert call.pop("elapsed_ms") >= 0
    assert call == {
        "call_id": name_of(0), "attempts": 1, "from_journal": False, "usage": [("tokens", 20.0)],
    }  # fmt: skip
    assert sorted(keyed.caller.told) == [
        ("answered", 0, 1), ("told", 0, 1, -1, 7.0, 3.0), ("used", 0, 1, "tokens", 20.0),
        ("used", 0, 1, "usd", 0.0),
    ]  # fmt: skip
    assert [kind for kind, _ in keyed.notes] == ["UNKNOWN_UNIT usd", "INVALID_USAGE usd"]


def test_functions_estimate_rows_in_their_order(keyed):
    def estimate(row):
        return row.x / 0 if row.k == "b" else 10 * row.x

    limit = pb.Limit(per_second=1000, unit="tokens", estimate=estimate)
    store = Store(keyed.start_keyed(Count(), calls={"limit": limit}))
    store.run([row("a", n) for n in range(100)] + [row("b", 1)])
    assert keyed.caller.amounts[:100] == [10.0 * n for n in range(100)]
    kind, message, trace = keyed.caller.amounts[100]
    assert kind == "ESTIMATE_FUNCTION_FAILED"
    assert "ZeroDivisionError" in message
    assert "row.x / 0" in trace


def test_attempts_come_while_a_call_reads_large_state_and_begin_nothing_inside_of_it(keyed):
    """The answer to a query comes behind what lets another call begin."""
    keyed.big = frozenset({"recent"})

    class Reads(Count):
        async def process(self, row, ctx):
            self.begun.append((row.k, row.x, ""))
            if row.k == "a":
                seen = len(list(self.recent.get()))
                return row.k, 10 * seen + len(self.begun)
            return row.k, 0

    deciding(keyed, begin_frame=lambda self, key_indexes: self.begin(0))
    store = Store(keyed.start_keyed(Reads(), calls={}))

    def answer(keys, frame, body):
        keyed.caller.lines, keyed.caller.left = {0: [0], 1: [1]}, 2
        keyed.caller.begin(1)
        Store._answer(store, keys, frame, body)

    keyed.caller.hear = lambda what, call, attempt: (
        ended.append(call) or (keyed.caller.end_frame() if len(ended) == 2 else None)
    )
    ended: list[int] = []
    store._answer = answer
    store.cells = {("recent", "a"): [(v, 0) for v in ({"value": 1}, {"value": 2})]}
    assert store.run([row("a", 1), row("b", 2)]) == [("a", 21), ("b", 0)]
    assert [call[:2] for call in BEGUN] == [("a", 1), ("b", 2)]


def test_a_jvm_that_goes_away_ends_calls_that_wait(keyed):
    deciding(keyed, begin_frame=lambda self, key_indexes: self.worker.close())
    store = Store(keyed.start_keyed(Count(), calls={}))
    with pytest.raises((EOFError, ValueError)):
        store.run([row("a", 1)])
    keyed.join()
    assert keyed.exit_code == -1
    assert BEGUN == []
