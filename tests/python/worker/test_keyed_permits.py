"""Calls of a keyed function that ask the JVM before they begin, seen from the JVM's end."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator

import pytest

import pillarbox as pb
from worker.keyed_driver import KeyedInProcess, Store
from worker.test_keyed_session import row

LIMIT = pb.Limit(concurrency=2)
TOKENS = {"limit": [LIMIT, pb.Limit(per_minute=100, unit="tokens")], "usage": "usd"}
RETRY = pb.Retry(2, backoff="1ms")


class Count(pb.AsyncKeyedProcessFunction):
    """Counts the rows of a key; what happens to the others is in ``begun``."""

    def open(self, ctx):
        self.n = ctx.value_state("n", "bigint")
        self.recent = ctx.list_state("recent", "bigint")
        self.begun = BEGUN  # a class in a test has a copy

    async def process(self, row, ctx):
        BEGUN.append((row.k, row.x))
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        await self.call(row, ctx)
        return row.k, n

    async def call(self, row, ctx):
        await asyncio.sleep(0)


BEGUN: list[tuple[str, int]] = []


@pytest.fixture
def keyed() -> Iterator[KeyedInProcess]:
    BEGUN.clear()
    one = KeyedInProcess()
    yield one
    one.close()


def grants(keyed, at_once=10**6):
    """Grant what is asked for, up to so many at a time, and give the most at a time so far."""
    waiting, running, most = [], set(), [0]

    def hear(what, call, *told):
        if what == "ask":
            waiting.append(call)
        elif what in ("ended", "gave up"):
            running.discard(call)
        while waiting and len(running) < at_once:
            running.add(waiting[0])
            keyed.grant(waiting.pop(0))
        most[0] = max(most[0], len(running))

    keyed.hear = hear
    return most


def test_an_attempt_begins_when_it_is_granted_and_tells_how_it_ended(keyed):
    most = grants(keyed, 2)
    store = Store(keyed.start_keyed(Count(), calls={"limit": LIMIT}))
    rows = [row(key, x) for x, key in enumerate("abcda")]
    assert store.run(rows) == [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("a", 2)]
    assert most == [2]
    asked = [told for told in keyed.asked if told[0] == "ask"]
    assert sorted(told[2] for told in asked) == [0, 1, 2, 3, 4]  # the row of each
    assert len({told[1] for told in asked}) == 5
    for _, call, at in asked:
        own = [told for told in keyed.asked if told[1] == call]
        assert own == [("ask", call, at), ("ended", call, 0, -1), ("row ended", call, 0)]
    assert keyed.tallies == [(5, 0, 0, 0, 0, {})]
    assert keyed.end()


def test_no_option_no_question(keyed):
    store = Store(keyed.start_keyed(Count(), calls={"usage": "usd"}))
    store.run([row("a", 1)])
    assert keyed.asked == []
    assert keyed.tallies == [(1, 0, 0, 0, 0, {})]
    assert keyed.end()


def test_a_unit_that_is_not_declared_is_told_once_and_counts(keyed):
    class Reports(Count):
        async def call(self, row, ctx):
            pb.current_call().report_usage(usd=0.5, tokens="many")

    grants(keyed)
    calls = {"usage": "tokens", "limit": LIMIT}
    store = Store(keyed.start_keyed(Reports(), calls=calls))
    store.run([row("a", 1), row("b", 1)])
    assert [(kind, rows) for rows, kind, _ in keyed.notes] == [
        ("UNKNOWN_UNIT usd", 0),
        ("INVALID_USAGE tokens", 0),
    ]
    assert "It counts as 0" in keyed.notes[1][2]
    assert [used for *_, used in keyed.tallies] == [{"usd": 1.0, "tokens": 0.0}]


def test_what_calls_use_and_what_the_service_says_is_told(keyed):
    class Reports(Count):
        async def call(self, row, ctx):
            call = pb.current_call()
            call.report_usage(tokens=10 * row.x)
            if row.x == 1:
                call.report_usage(tokens=5, usd=0.5)
                pb.limit_from({"x-ratelimit-remaining-requests": "7",
                               "x-ratelimit-reset-requests": "3s"})  # fmt: skip
            if row.x == 2 and len(self.begun) < 3:
                raise pb.RetryAfter(0.002, all=True)
            if row.x == 3:
                raise KeyError

    grants(keyed)
    calls = dict(**TOKENS, retry=RETRY, on_error="null")
    store = Store(keyed.start_keyed(Reports(), calls=calls))
    store.run([row("a", 1)])
    (ended,) = [told for told in keyed.asked if told[0] == "ended"]
    assert ended[2:] == (0, -1, 0.5, 15.0)
    assert keyed.asked[1][2:] == (-1, 7.0, 3.0)
    keyed.asked.clear()
    store.run([row("b", 2)])
    flags = [told[2:] for told in keyed.asked if told[0] == "ended"]
    assert flags[0][:2] == (1 + 4, 2)
    assert math.isnan(flags[0][2])
    assert flags[0][3] == 20.0
    assert flags[1][:2] == (0, -1)
    keyed.asked.clear()
    store.run([row("c", 3)])
    last = [told[2:] for told in keyed.asked if told[0] != "ask"]
    assert [told[:1] for told in last] == [(1,), (1,)]  # it failed, and so did its row
    *counts, used = zip(*keyed.tallies, strict=True)
    calls, retries, _, errors, refused = map(sum, counts)
    assert (calls, retries, errors, refused) == (4, 1, 1, 1)
    assert sum(one.get("usd", 0) for one in used) == 0.5
    assert sum(one["tokens"] for one in used) == 15 + 20 + 20 + 30
    assert len(keyed.latencies) == 4  # failures are answers, too


def test_a_refused_row_has_no_attempt_and_other_rows_of_its_key_go_on(keyed):
    def hear(what, call, *told):
        if what == "ask" and told == (1,):
            keyed.refuse(call, "ESTIMATE_NO_AMOUNT", "[ESTIMATE_NO_AMOUNT] It is null.")
        elif what == "ask":
            keyed.grant(call)

    keyed.hear = hear
    calls = {"limit": LIMIT, "on_error": "column", "retry": RETRY}
    store = Store(keyed.start_keyed(Count(), calls=calls))
    first, refused, last = store.run([row("a", 1), row("a", 2), row("a", 3)])
    assert (first[:2], refused[:2], last[:2]) == (("a", 1), ("a", None), ("a", 2))
    found = refused[2]
    assert (found["kind"], found["attempts"], found["elapsed_ms"]) == ("ESTIMATE_NO_AMOUNT", 0, 0)
    assert BEGUN == [("a", 1), ("a", 3)]


@pytest.mark.parametrize("on_error", ["null", "raise"])
def test_a_refusal_that_ends_the_task_is_its_error_under_any_on_error(keyed, on_error):
    refused = []

    def hear(what, call, *told):
        # The worker may have hung up before a second one.
        if what == "ask" and not refused:
            refused.append(call)
            keyed.refuse(call, "BUDGET_EXCEEDED", "[BUDGET_EXCEEDED] It is spent.", True)

    keyed.hear = hear
    calls = {"budget": pb.Budget(max_calls=1), "on_error": on_error}
    store = Store(keyed.start_keyed(Count(), calls=calls))
    ((kind, failure),) = store.run([row("a", 1), row("b", 2)])
    assert (kind, failure["condition"]) == ("T", "BUDGET_EXCEEDED")
    assert failure["text"].startswith("It is spent.")
    assert not any(told[0] == "row ended" and told[2] == 0 for told in keyed.asked)


def test_waiting_counts_into_no_deadline_of_an_attempt(keyed):
    seen = set()

    def hear(what, call, *told):
        if what == "ask" and call in seen:
            keyed.grant(call)
        elif what == "ask":
            seen.add(call)
            threading.Timer(0.3, keyed.grant, [call]).start()

    class Slow(Count):
        async def call(self, row, ctx):
            if self.begun.count(("slow", 1)) == 1 and row.k == "slow":
                await asyncio.sleep(60)

    keyed.hear = hear
    calls = {"limit": LIMIT, "timeout": pb.Timeout(attempt="200ms"), "retry": RETRY}
    store = Store(keyed.start_keyed(Slow(), calls=calls))
    assert sorted(store.run([row("slow", 1), row("b", 1)])) == [("b", 1), ("slow", 1)]
    ended = [told for told in keyed.asked if told[0] == "ended"]
    assert sorted(told[2] for told in ended) == [0, 0, 1 + 8]
    assert [sum(one[at] for one in keyed.tallies) for at in range(5)] == [3, 1, 1, 0, 0]
    assert len(keyed.latencies) == 2  # the attempt that timed out has no answer


def test_a_total_timeout_gives_up_a_call_that_waits_to_be_retried(keyed):
    def hear(what, call, *told):
        if what == "ask" and [one[1] for one in keyed.asked if one[0] == "ask"].count(call) == 1:
            keyed.grant(call)  # and never again

    class Fails(Count):
        async def call(self, row, ctx):
            raise ConnectionError

    keyed.hear = hear
    calls = {"limit": LIMIT, "timeout": "200ms", "retry": RETRY, "on_error": "null"}
    store = Store(keyed.start_keyed(Fails(), calls=calls))
    assert store.run([row("a", 1)]) == [("a", None)]
    assert [told[0] for told in keyed.asked] == ["ask", "ended", "ask", "gave up", "row ended"]
    assert keyed.asked[3][2:] == (0,)
    assert keyed.asked[4][2] == 1


def test_answers_come_while_a_call_reads_large_state_and_begin_nothing_inside_of_it(keyed):
    """The answer to a query comes behind the one that lets another call begin."""
    keyed.big = frozenset({"recent"})

    class Reads(Count):
        async def process(self, row, ctx):
            self.begun.append((row.k, row.x))
            if row.k == "a":
                seen = len(list(self.recent.get()))
                return row.k, 10 * seen + len(self.begun)
            return row.k, 0

    def hear(what, call, *told):
        if what == "ask" and told == (0,):
            keyed.grant(call)

    def answer(keys, frame, body):
        waits = [told[1] for told in keyed.asked if told[0] == "ask"][1:]
        keyed.grant(*waits)
        Store._answer(store, keys, frame, body)

    keyed.hear = hear
    store = Store(keyed.start_keyed(Reads(), calls={"limit": LIMIT}))
    store._answer = answer
    store.cells = {("recent", "a"): [(v, 0) for v in ({"value": 1}, {"value": 2})]}
    assert store.run([row("a", 1), row("b", 2)]) == [("a", 21), ("b", 0)]
    assert BEGUN == [("a", 1), ("b", 2)]


def test_a_jvm_that_goes_away_ends_calls_that_wait(keyed):
    def hear(what, call, *told):
        keyed.close()
        raise EOFError

    keyed.hear = hear
    store = Store(keyed.start_keyed(Count(), calls={"limit": LIMIT}))
    with pytest.raises(EOFError):
        store.run([row("a", 1)])
    assert keyed.exit_code == -1
    assert BEGUN == []


def test_an_answer_for_a_call_that_is_over_means_nothing_in_this_frame_or_another(keyed):
    def hear(what, call, *told):
        if what == "ask":
            keyed.grant(call, call)
        elif what == "ended":
            keyed.grant(call)

    keyed.hear = hear
    store = Store(keyed.start_keyed(Count(), calls={"limit": LIMIT}))
    for n in (1, 2, 3):
        assert store.run([row("a", n)]) == [("a", n)]
    assert BEGUN == [("a", 1), ("a", 2), ("a", 3)]
    assert keyed.end()
