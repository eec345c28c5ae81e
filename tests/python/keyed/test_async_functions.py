"""Asynchronous keyed functions in the harness: lines of keys, attempts, state, outputs, errors."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import traceback
from datetime import datetime, timezone

import pytest
from pyspark.sql import Row

import pillarbox as pb
from pillarbox._harness import loop as harness_loop
from pillarbox._harness.memory import KeySpace
from pillarbox._harness.virtual_loop import VirtualLoop
from pillarbox._keyed.list_state import ListCell
from pillarbox._keyed.map_state import MapCell
from pillarbox.testing import AsyncKeyedHarness, KeyedHarness

OPTIONS = {"by": "k", "schema": "k string, t bigint", "returns": "k string, n bigint"}
ATTEMPT_2S = pb.Timeout(attempt="2s")


class Function(pb.AsyncKeyedProcessFunction):
    """A function out of a coroutine function ``process(self, row, ctx)``."""

    def __init__(self, process):
        self._process = process
        self.calls = []

    def open(self, ctx):
        self.n = ctx.value_state("n", "bigint")
        self.recent = ctx.list_state("recent", "bigint")
        self.seen = ctx.map_state("seen", "string", "bigint")
        self.total = ctx.reducing_state("total", "bigint", lambda a, b: a + b)

    async def process(self, row, ctx):
        self.calls.append(("begins", row.k, row.t))
        try:
            return await self._process(self, row, ctx)
        finally:
            self.calls.append(("ends", row.k, row.t))


@pytest.fixture(autouse=True)
def virtual_clock(monkeypatch):
    monkeypatch.setattr(harness_loop, "new_event_loop", VirtualLoop)


def harness(process, **options):
    return AsyncKeyedHarness(Function(process), **{**OPTIONS, **options})


async def count(self, row, ctx):
    n = (self.n.value() or 0) + 1
    self.n.update(n)
    await asyncio.sleep(1)
    assert self.n.value() == n
    return ctx.key, n


def overlap(calls):
    """The most calls at a time, and the most of one key."""
    running, most, most_of_key = [], 0, 0
    for what, key, _ in calls:
        running.append(key) if what == "begins" else running.remove(key)
        most = max(most, len(running))
        most_of_key = max(most_of_key, *map(running.count, running), 0)
    return most, most_of_key


@pytest.mark.parametrize(("capacity", "most"), [(1, 1), (3, 3), (100, 7)])
def test_keys_run_at_once_up_to_the_capacity_and_rows_of_a_key_one_after_the_other(capacity, most):
    one = harness(count, capacity=capacity)
    rows = [(f"k{i % 7}", i) for i in range(35)]
    found = one.run_micro_batch(rows)
    assert found == [Row(k=f"k{i % 7}", n=1 + i // 7) for i in range(35)]
    assert overlap(one._runtime.function.calls) == (most, 1)
    order = [(k, t) for what, k, t in one._runtime.function.calls if what == "begins"]
    assert all([t for k, t in order if k == key] == sorted(t for k, t in order if k == key)
               for key in {k for k, _ in order})  # fmt: skip


def test_a_call_that_hangs_holds_its_key_alone():
    async def process(self, row, ctx):
        await asyncio.sleep(1000 if row.t == 0 else 1)
        self.n.update((self.n.value() or 0) + 1)

    one = harness(process, capacity=2)
    one.run_micro_batch([("slow", 0), *[("quick", t) for t in range(1, 30)], ("slow", 30)])
    calls = one._runtime.function.calls
    assert calls.index(("ends", "quick", 29)) < calls.index(("ends", "slow", 0))
    assert calls.index(("ends", "slow", 0)) < calls.index(("begins", "slow", 30))
    assert (one.state("n", "slow"), one.state("n", "quick")) == (2, 29)


@pytest.mark.parametrize("answer", [None, [], (), ("a", 1), [("a", 1)], {"k": "a", "n": 1}])
def test_rows_may_be_returned_in_any_shape(answer):
    async def process(self, row, ctx):
        return answer

    expected = [Row(k="a", n=1)] if answer else []
    assert harness(process).process(("a", 0)) == expected


def test_rows_may_be_yielded_between_awaits():
    class Yields(pb.AsyncKeyedProcessFunction):
        async def process(self, row, ctx):
            for n in range(row.t):
                yield ctx.key, n
                await asyncio.sleep(1)

    found = AsyncKeyedHarness(Yields(), **OPTIONS).run_micro_batch([("a", 2), ("b", 0), ("c", 1)])
    assert found == [Row(k="a", n=0), Row(k="a", n=1), Row(k="c", n=0)]


@pytest.mark.parametrize("returns", ["n bigint", "k string, n bigint"])
@pytest.mark.parametrize("more", [{}, {"on_error": "column"}, {"call_column": "call"}])
def test_none_among_rows_is_a_row_of_nulls(returns, more):
    class Returns(pb.AsyncKeyedProcessFunction):
        async def process(self, row, ctx):
            ctx.output("side", None)
            return [None]

    class Yields(pb.AsyncKeyedProcessFunction):
        async def process(self, row, ctx):
            ctx.output("side", None)
            yield None

    width = len(returns.split(", "))
    for made in (Returns(), Yields()):
        options = {**OPTIONS, "returns": returns, "side_outputs": {"side": returns}, **more}
        one = AsyncKeyedHarness(made, **options)
        assert [tuple(row)[:width] for row in one.process(("a", 1))] == [(None,) * width]
        assert [tuple(row) for row in one.side_output("side")] == [(None,) * width]


def test_one_column_takes_bare_values():
    async def process(self, row, ctx):
        return [row.t, (2,)]

    one = harness(process, returns="n bigint", on_error="null")
    assert one.process(("a", 1)) == [Row(n=1), Row(n=2)]


async def spoils(self, row, ctx):
    """Changes all states; then odd times fail."""
    self.n.update(row.t)
    self.recent.add(row.t)
    self.seen.put("last", row.t)
    self.seen.put(f"{row.t}", row.t)
    self.seen.remove("0")
    self.total.add(row.t)
    ctx.output("log", (row.t,))
    await asyncio.sleep(1)
    if row.t == 3:
        self.recent.clear()
        self.seen.clear()
        self.n.clear()
    await asyncio.sleep(1)
    if row.t % 2:
        raise ValueError(f"{row.t} is odd")
    return ctx.key, row.t


def states(one, key="a"):
    return [one.state(name, key) for name in ("n", "recent", "seen", "total")]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"retry": pb.Retry(3, backoff="10ms")},
        {"timeout": "1500 ms"},
        {"timeout": pb.Timeout(attempt="1 s")},
    ],
)
@pytest.mark.parametrize("odd", [1, 3])
def test_a_call_that_fails_leaves_nothing(options, odd):
    one = harness(spoils, on_error="null", side_outputs={"log": "t bigint"}, **options)
    one.run_micro_batch([("a", 0), ("a", 2)])
    before = states(one)
    assert one.process(("a", odd)) == [Row(k="a", n=None)]
    assert states(one) == before
    one.process(("a", 4))
    timed_out = "retry" not in options and options
    alive = [] if timed_out else [0, 2, 4]
    assert one.state("recent", "a") == alive
    assert one.state("total", "a") == (sum(alive) or None)
    assert one.side_output("log") == [Row(t=t) for t in alive]


def test_each_attempt_begins_with_the_state_before_the_first():
    found = []

    async def process(self, row, ctx):
        found.append([self.n.value(), self.recent.get(), dict(self.seen.items())])
        self.n.update(1)
        self.recent.add(1)
        self.seen.put("x", 1)
        if len(found) < 3:
            raise ConnectionError
        return ctx.key, self.n.value()

    one = harness(process, retry=pb.Retry(3, backoff="1s"))
    assert one.process(("a", 0)) == [Row(k="a", n=1)]
    assert found == [[None, [], {}]] * 3
    assert (one.state("recent", "a"), one.state("seen", "a")) == ([1], {"x": 1})


def test_an_attempt_that_was_given_up_can_write_no_more():
    refused = []

    async def process(self, row, ctx):
        attempt = len(refused)
        refused.append(None)
        try:
            self.n.update(attempt)
            await asyncio.sleep(1000 if attempt == 0 else 1)
        except asyncio.CancelledError:
            try:
                self.n.update(77)
            except pb.StateError as problem:
                refused[0] = problem.condition
            raise
        return ctx.key, self.n.value()

    one = harness(process, timeout=pb.Timeout(attempt="5s"), retry=pb.Retry(2, backoff="1s"))
    assert one.process(("a", 0)) == [Row(k="a", n=1)]
    assert (one.state("n", "a"), refused[0]) == (1, "NO_CURRENT_KEY")


def test_what_a_call_has_started_and_left_behind_can_not_write():
    left = []

    async def later(self):
        await asyncio.sleep(1)
        self.n.update(77)

    async def process(self, row, ctx):
        if row.t == 0:
            left.append(asyncio.ensure_future(later(self)))
        else:
            await asyncio.wait(left)
        return ctx.key, row.t

    one = harness(process)
    one.run_micro_batch([("a", 0), ("a", 1)])
    assert left[0].exception().condition == "NO_CURRENT_KEY"
    assert one.state("n", "a") is None


def test_tasks_of_a_call_see_its_key():
    async def process(self, row, ctx):
        async def add(x):
            await asyncio.sleep(x)
            self.recent.add(x)

        await asyncio.gather(add(2), add(1))
        return ctx.key, len(self.recent.get())

    one = harness(process)
    assert one.run_micro_batch([("a", 0), ("b", 0)]) == [Row(k="a", n=2), Row(k="b", n=2)]
    assert one.state("recent", "b") == [1, 2]


def test_state_is_out_of_reach_in_another_thread(monkeypatch):
    monkeypatch.setattr(harness_loop, "new_event_loop", asyncio.new_event_loop)

    async def process(self, row, ctx):
        await asyncio.to_thread(self.n.update, 1)

    with pytest.raises(pb.StateError, match="NO_CURRENT_KEY"):
        harness(process).process(("a", 0))


def test_key_and_times_can_be_read_in_another_thread_and_after_the_call(monkeypatch):
    monkeypatch.setattr(harness_loop, "new_event_loop", asyncio.new_event_loop)
    seen, left = [], []

    async def process(self, row, ctx):
        async def later():
            await asyncio.to_thread(ended.wait, 60)
            seen.append((row.k, ctx.key, ctx.timestamp, ctx.watermark))

        def read():
            return ctx.key, ctx.timestamp, ctx.watermark

        seen.append((row.k, *(await asyncio.to_thread(read))))
        if row.k == "a":
            left.append(asyncio.ensure_future(later()))
        else:
            ended.set()
            await asyncio.wait(left)
            with contextlib.suppress(pb.StateError):
                await asyncio.to_thread(ctx.output, "side", ("b", 1))

    ended = threading.Event()
    one = harness(
        process,
        schema="k string, t timestamp",
        timestamp="t",
        side_outputs={"side": "k string, n bigint"},
    )
    one.process(("a", datetime(2024, 1, 1, tzinfo=timezone.utc)))
    one.advance_watermark(5)
    one.process(("b", datetime(2024, 1, 2, tzinfo=timezone.utc)))
    first, second = 1_704_067_200_000, 1_704_153_600_000
    assert seen == [("a", "a", first, None), ("b", "b", second, 5), ("a", "a", first, None)]
    assert one.side_output("side") == []


def test_state_lives_as_long_as_its_ttl_says():
    class Fresh(pb.AsyncKeyedProcessFunction):
        def open(self, ctx):
            self.n = ctx.value_state(
                "n", "bigint", ttl=pb.StateTtl("10 ms", time_domain="event_time")
            )

        async def process(self, row, ctx):
            before = self.n.value()
            await asyncio.sleep(1)
            self.n.update(row.t)
            return ctx.key, before

    one = AsyncKeyedHarness(Fresh(), timestamp="t", **OPTIONS)
    assert one.run_micro_batch([("a", 20), ("b", 21)], watermark=19) == [
        Row("a", None),
        Row("b", None),
    ]
    assert one.run_micro_batch([("a", 22), ("b", 25)], watermark=34) == [Row("a", 20), Row("b", 21)]
    assert one.run_micro_batch([("a", 36), ("b", 36)]) == [Row("a", None), Row("b", 25)]


def test_the_context_tells_each_row_its_own_times():
    async def process(self, row, ctx):
        before = ctx.key, ctx.timestamp, ctx.watermark, ctx.processing_time
        await asyncio.sleep(row.t)
        assert before == (ctx.key, ctx.timestamp, ctx.watermark, ctx.processing_time)
        assert (before[0], ctx.time_domain) == (row.k, None)
        return ctx.key, ctx.timestamp

    one = harness(process, timestamp="t", processing_time=7)
    one.advance_watermark(1)
    assert one.run_micro_batch([("a", 1), ("b", 9), ("c", 5)]) == [Row("b", 9), Row("c", 5)]
    assert one.late_rows == 1


def test_time_sorted_rows_see_the_millisecond_before_them_as_in_the_synchronous_form():
    class Sync(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            yield ctx.key, ctx.watermark

    async def process(self, row, ctx):
        await asyncio.sleep(1000 - row.t)
        return ctx.key, ctx.watermark

    rows = [("a", 30), ("b", 20), ("a", 10), ("b", 40)]
    found = []
    for made, fn in ((KeyedHarness, Sync()), (AsyncKeyedHarness, Function(process))):
        one = made(fn, timestamp="t", time_sorted=True, **OPTIONS)
        found.append((one.run_micro_batch(rows, watermark=35), one.run_batch(rows)))
    assert found[0] == found[1]
    assert found[1][0] == [Row("a", 9), Row("b", 19), Row("a", 29)]


def test_a_snapshot_goes_on_in_either_form():
    class Sync(pb.KeyedProcessFunction):
        open = Function.open

        def process(self, row, ctx):
            self.seen.put(f"{row.t}", row.t)
            return ctx.key, (self.n.value() or 0) + 100

    one = harness(count)
    one.run_micro_batch([("a", 0), ("a", 1)])
    two = KeyedHarness.restore(one.snapshot(), Sync(), **OPTIONS)
    assert two.process(("a", 5)) == [Row("a", 102)]
    three = AsyncKeyedHarness.restore(two.snapshot(), Function(count), **OPTIONS)
    assert three.process(("a", 6)) == [Row("a", 3)]
    assert three.state("seen", "a") == {"5": 5}


def test_a_batch_keeps_no_state():
    one = harness(count)
    assert one.run_batch([("a", 0), ("b", 0), ("a", 1)]) == [Row("a", 1), Row("a", 2), Row("b", 1)]
    assert one.state("n", "a") is None


def test_the_users_error_comes_out_as_it_is_with_their_own_context():
    async def process(self, row, ctx):
        try:
            await asyncio.sleep(1)
            {}["x"]
        except KeyError:
            raise ValueError("mine")  # noqa: B904

    with pytest.raises(ValueError, match="mine") as caught:
        harness(process).process(("a", 0))
    text = "".join(traceback.format_exception(caught.value))
    assert "KeyError: 'x'" in text
    assert "in process" in text


def test_a_failure_cancels_the_others_and_takes_them_back():
    ended = []

    async def process(self, row, ctx):
        self.n.update(1)
        try:
            await asyncio.sleep(row.t)
        finally:
            ended.append(row.k)
        if row.t == 2:
            raise ValueError("two")

    one = harness(process)
    with pytest.raises(ValueError, match="two"):
        one.run_micro_batch([("a", 9), ("b", 2), ("c", 1), ("b", 3)])
    assert one.process(("d", 1)) == []  # others have had their turn to end
    assert ended == ["c", "b", "a", "d"]
    assert [one.state("n", key) for key in "abc"] == [None, None, 1]
    assert one.process(("a", 1)) == []
    assert one.state("n", "a") == 1


@pytest.mark.parametrize(
    ("options", "message", "calls"),
    [
        ({"timeout": "5s"}, "not answered within its total timeout: 5000 ms", (1, 5000)),
        ({"timeout": ATTEMPT_2S}, "within its attempt timeout: 2000 ms", (1, 2000)),
        (
            {"timeout": ATTEMPT_2S, "retry": pb.Retry(3, backoff="1s", jitter=0)},
            "Attempt 3 of the",
            (3, 9000),
        ),
    ],
)
def test_a_call_without_an_answer_runs_out_of_time(options, message, calls):
    async def process(self, row, ctx):
        await asyncio.sleep(1000)

    with pytest.raises(pb.CallFailed, match=message) as raised:
        harness(process, **options).process(("a", 0))
    told = raised.value
    assert (told.condition, told.kind, told.key) == ("KEYED_CALL_FAILED", "TIMEOUT", "'a'")
    assert (told.operator, told.row) == ("process_keyed(Function)", "k='a', t=0")
    assert (told.attempts, told.elapsed_ms) == calls


def test_retry_after_needs_retry_and_then_sets_the_delay():
    times = []

    async def process(self, row, ctx):
        times.append(asyncio.get_running_loop().time())
        if len(times) < 2:
            raise pb.RetryAfter(30)

    with pytest.raises(pb.PillarboxError, match="RETRY_AFTER_WITHOUT_RETRY"):
        harness(process).process(("a", 0))
    times.clear()
    harness(process, retry=pb.Retry(2)).process(("a", 0))
    assert times[1] - times[0] == 30


def test_a_result_may_be_refused_and_is_used_in_the_end():
    async def process(self, row, ctx):
        self.recent.add(row.t)
        return ctx.key, len(self.recent.get())

    asked = []
    retry = pb.Retry(3, backoff="1s", if_result=lambda rows: asked.append(rows) or True)
    one = harness(process, retry=retry)
    assert one.process(("a", 5)) == [Row("a", 1)]
    assert (one.state("recent", "a"), asked) == ([5], [("a", 1)] * 2)


def test_a_predicate_that_fails_is_told_with_what_the_function_raised():
    async def process(self, row, ctx):
        raise ValueError("mine")

    retry = pb.Retry(3, backoff="1s", on=lambda problem: 1 / 0)
    with pytest.raises(Exception, match="ZeroDivisionError: division by zero") as caught:
        harness(process, retry=retry).process(("a", 5))
    assert "mine" in str(caught.value.__cause__)


def test_a_row_that_does_not_fit_is_a_failure_without_retry_and_leaves_nothing():
    async def process(self, row, ctx):
        self.n.update(row.t)
        return ctx.key, "no number"

    one = harness(process, on_error=pb.ErrorColumn("why"), retry=pb.Retry(3))
    (row,) = one.process(("a", 1))
    assert (row.k, row.n, row.why.kind, row.why.attempts) == ("a", None, "RESULT_TYPE_MISMATCH", 1)
    assert one.state("n", "a") is None
    with pytest.raises(pb.ResultTypeMismatch, match="result for column n must be bigint"):
        harness(process).process(("a", 1))


def test_a_row_of_a_failure_has_the_columns_that_the_input_has_too():
    async def process(self, row, ctx):
        if row.t > 1:
            raise ValueError(f"{row.t}")
        return row.k, str(row.t), row.t

    one = harness(process, returns="k string, t string, u bigint not null", on_error="column")
    good, bad = one.run_micro_batch([("a", 1), ("a", 2)])
    assert good == Row(k="a", t="1", u=1, error=None)
    assert bad[:3] == ("a", None, None)
    assert (bad.error.kind, bad.error.message) == ("ValueError", "2")


def test_not_null_counts_for_what_the_function_gives():
    async def process(self, row, ctx):
        return row.k, None

    one = harness(process, returns="k string, n bigint not null", on_error="column")
    (row,) = one.process(("a", 1))
    assert (row.k, row.n, row.error.kind) == ("a", None, "RESULT_TYPE_MISMATCH")


def test_the_resource_is_open_once_and_closed_at_the_end():
    told = []

    @contextlib.asynccontextmanager
    async def client():
        told.append("open")
        yield {"factor": 3}
        told.append("closed")

    async def process(self, row, ctx):
        return ctx.key, row.t * ctx.resource["factor"]

    one = harness(process, resource=client)
    assert one.run_micro_batch([("a", 1), ("b", 2)]) == [Row("a", 3), Row("b", 6)]
    one.process(("a", 1))
    assert told == ["open"]
    one.close()
    one.close()
    assert told == ["open", "closed"]
    with pytest.raises(pb.StateError, match="The AsyncKeyedHarness is closed"):
        one.process(("a", 1))


def test_the_resource_is_closed_if_the_function_can_not_be():
    told = []

    @contextlib.contextmanager
    def client():
        yield
        told.append("closed")

    async def process(self, row, ctx):
        return None

    one = harness(process, resource=client)
    one._runtime.function.close = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        one.close()
    assert told == ["closed"]


@pytest.mark.parametrize("fails", ["open", "restore"])
def test_the_resource_is_closed_if_a_harness_can_not_be_made(fails):
    told = []

    @contextlib.contextmanager
    def client():
        told.append("open")
        yield
        told.append("closed")

    class Fails(pb.AsyncKeyedProcessFunction):
        def open(self, ctx):
            if fails == "open":
                raise ValueError("no")
            self.other = ctx.value_state("other", "bigint")

        async def process(self, row, ctx):
            return None

    made = harness(count)
    made.process(("a", 1))
    told.clear()
    with pytest.raises((ValueError, pb.StateError)):
        AsyncKeyedHarness.restore(made.snapshot(), Fails(), **OPTIONS, resource=client)
    assert told == ["open", "closed"]


def test_a_harness_can_be_used_in_a_coroutine():
    async def test():
        one = harness(count, resource=contextlib.nullcontext)
        found = one.run_micro_batch([("a", 1), ("b", 2), ("a", 3)])
        one.close()
        return found

    assert asyncio.run(test()) == [Row("a", 1), Row("b", 1), Row("a", 2)]


def test_call_ids_are_one_for_all_attempts_of_a_row():
    ids = []

    async def process(self, row, ctx):
        ids.append(pb.call_id())
        if len(ids) % 2:
            raise ConnectionError

    one = harness(process, retry=pb.Retry(2, backoff="1s"))
    one.process(("a", 1))
    one.process(("a", 1))
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_timers_are_refused():
    class Rings(pb.AsyncKeyedProcessFunction):
        async def process(self, row, ctx):
            ctx.timers.register_processing_time(5)

    with pytest.raises(pb.InvalidFunction, match="TIMERS_OF_ASYNC_FUNCTION"):
        AsyncKeyedHarness(Rings(), **OPTIONS).process(("a", 1))

    class HasOnTimer(pb.AsyncKeyedProcessFunction):
        async def process(self, row, ctx): ...

        async def on_timer(self, timestamp, ctx): ...

    with pytest.raises(pb.InvalidFunction, match=r"HasOnTimer is a .* and these have no timers"):
        AsyncKeyedHarness(HasOnTimer(), **OPTIONS)


def test_timers_of_the_synchronous_form_are_not_lost_silently():
    class Sync(pb.KeyedProcessFunction):
        open = Function.open

        def process(self, row, ctx):
            ctx.timers.register_event_time(5)

        def on_timer(self, timestamp, ctx): ...

    one = KeyedHarness(Sync(), timestamp="t", **OPTIONS)
    one.process(("a", 1))
    two = AsyncKeyedHarness.restore(one.snapshot(), Function(count), timestamp="t", **OPTIONS)
    with pytest.raises(pb.InvalidFunction, match="TIMERS_OF_ASYNC_FUNCTION"):
        two.advance_watermark(9)


def test_a_plain_process_is_refused_and_a_decorated_one_is_not():
    import functools

    class Plain(pb.AsyncKeyedProcessFunction):
        def process(self, row, ctx): ...

    with pytest.raises(pb.InvalidFunction, match=r"NOT_ASYNC_METHOD.*Plain.process is a plain"):
        AsyncKeyedHarness(Plain(), **OPTIONS)

    def logged(function):
        @functools.wraps(function)
        def call(*arguments):
            return function(*arguments)

        return call

    class Decorated(pb.AsyncKeyedProcessFunction):
        @logged
        async def process(self, row, ctx):
            return ctx.key, row.t

    assert AsyncKeyedHarness(Decorated(), **OPTIONS).process(("a", 1)) == [Row("a", 1)]

    class Opens(pb.AsyncKeyedProcessFunction):
        async def open(self, ctx): ...

        async def process(self, row, ctx): ...

    with pytest.raises(pb.InvalidFunction, match=r"Opens.open is `async def`"):
        AsyncKeyedHarness(Opens(), **OPTIONS)

    with pytest.raises(pb.InvalidFunction, match=r"Write it: async def process\(self, row, ctx\)"):
        AsyncKeyedHarness(pb.AsyncKeyedProcessFunction(), **OPTIONS)


def test_options_of_calls_are_for_asynchronous_functions_only():
    class Sync(pb.KeyedProcessFunction):
        def process(self, row, ctx): ...

    for option, value in (("capacity", 3), ("timeout", "1s"), ("retry", pb.Retry(2)),
                          ("on_error", "null"), ("resource", dict)):  # fmt: skip
        message = rf"pb\.testing\.KeyedHarness has no option {option}\. Its function makes"
        with pytest.raises(pb.InvalidOption, match=message):
            KeyedHarness(Sync(), **{option: value}, **OPTIONS)
    with pytest.raises(pb.InvalidFunction, match=r"Use pb\.testing\.KeyedHarness\."):
        AsyncKeyedHarness(Sync(), **OPTIONS)
    with pytest.raises(pb.InvalidFunction, match=r"Use pb\.testing\.AsyncKeyedHarness\."):
        KeyedHarness(Function(count), **OPTIONS)
    with pytest.raises(pb.InvalidSchema, match="OUTPUT_NAME_CLASH"):
        harness(count, on_error=pb.ErrorColumn("n"))
    with pytest.raises(pb.InvalidOption, match="capacity must be a whole number"):
        harness(count, capacity=0)


def unloaded(cell, rest):
    """A cell of a state too large to come along; what is asked for is counted."""
    fetched = []

    def pages(key_index):
        fetched.append(key_index)
        yield rest, True

    return cell(loaded=False), pages, fetched


def test_what_an_attempt_has_fetched_of_a_large_map_is_not_mistaken_for_all_of_it():
    runtime = harness(count)._runtime
    space = KeySpace(runtime)
    runtime.begin(space.keys)
    seen, key_index = runtime.registry["seen"], space.key_index("a")
    seen._cells[key_index], seen.pages, fetched = unloaded(MapCell, [("x", 1, 0), ("y", 2, 0)])
    runtime.context.enter(key_index)
    mark = seen.mark(key_index)
    assert sorted(seen.items()) == [("x", 1), ("y", 2)]
    seen.put("x", 5)
    seen.remove("y")
    seen.go_back(key_index, mark)
    seen.fetch = lambda *_: [("y", 2, 0)]
    assert seen.get("y") == 2
    assert sorted(seen.items()) == [("x", 1), ("y", 2)]
    assert not seen.changed[key_index]
    mark = seen.mark(key_index)
    seen.remove("y")
    seen.clear()
    seen.put("z", 3)
    seen.go_back(key_index, mark)
    assert sorted(seen.items()) == [("x", 1), ("y", 2)]
    assert len(fetched) == 2


def test_what_an_attempt_has_fetched_of_a_large_list_is_not_mistaken_for_an_addition():
    runtime = harness(count)._runtime
    space = KeySpace(runtime)
    runtime.begin(space.keys)
    recent, key_index = runtime.registry["recent"], space.key_index("a")
    recent._cells[key_index], recent.pages, _ = unloaded(ListCell, ([1, 2], [0, 0]))
    runtime.context.enter(key_index)
    recent.add(3)
    mark = recent.mark(key_index)
    assert recent.get() == [1, 2, 3]
    recent.add(4)
    recent.go_back(key_index, mark)
    assert not recent._cells[key_index].loaded
    assert recent.get() == [1, 2, 3]
    assert [op[1] for op in recent._cells[key_index].ops] == [3]


def times(one):
    """The seconds of the harness's clock at which calls began."""
    return list(one._runtime.function.times)


async def noting(self, row, ctx):
    self.times = [*getattr(self, "times", ()), round(asyncio.get_running_loop().time(), 6)]
    await asyncio.sleep(row.t)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (pb.Limit(concurrency=2), [0, 0, 1, 1]),
        (pb.Limit(per_minute=6), [0, 10, 20, 30]),
        ([pb.Limit(concurrency=1), pb.Limit(per_hour=1800, name="ours")], [0, 2, 4, 6]),
    ],
)
def test_a_limit_lets_calls_of_many_keys_begin_as_in_the_harness_of_async_io(limit, expected):
    one = harness(noting, limit=limit)
    one.run_micro_batch([(key, 1) for key in "abcd"])
    assert times(one) == expected

    async def call(row):
        seen.append(round(asyncio.get_running_loop().time(), 6))
        await asyncio.sleep(1)

    seen: list[float] = []
    plain = pb.testing.AsyncHarness(call, schema="k string", returns="x int", limit=limit)
    plain.run([(key,) for key in "abcd"])
    assert seen == expected


def test_a_rate_goes_on_in_the_next_micro_batch():
    one = harness(noting, limit=pb.Limit(per_minute=60))
    for _ in range(3):
        one.process(("a", 0))
    assert times(one) == [0, 1, 2]


def test_waiting_for_a_limit_counts_into_no_deadline_before_the_first_attempt():
    one = harness(noting, limit=pb.Limit(per_minute=1), timeout="2s", on_error="column")
    rows = one.run_micro_batch([("a", 1), ("b", 1), ("c", 3)])
    assert times(one) == [0, 60, 120]
    assert [row.error and row.error.kind for row in rows] == ["TIMEOUT"]


def test_a_pause_for_all_uses_up_no_attempt_and_lets_the_others_wait():
    async def told(self, row, ctx):
        await noting(self, row, ctx)
        if len(self.times) == 1:
            raise pb.RetryAfter(9, all=True)
        return ctx.key, pb.current_call().attempt

    one = harness(told, limit=pb.Limit(concurrency=1))
    assert one.run_micro_batch([("a", 1), ("b", 1)]) == [Row(k="a", n=1), Row(k="b", n=1)]
    assert times(one) == [0, 10, 11]


def test_a_call_that_is_given_up_has_no_permit_and_one_that_waits_gets_it():
    one = harness(noting, limit=pb.Limit(concurrency=1), timeout="5s", on_error="null")
    assert one.run_micro_batch([("a", 60), ("b", 1)]) == [Row(k="a", n=None)]
    assert times(one) == [0, 5]


def test_a_failure_that_ends_the_micro_batch_begins_no_call_that_waits():
    async def fails(self, row, ctx):
        await noting(self, row, ctx)
        raise ValueError(row.k)

    one = harness(fails, limit=pb.Limit(concurrency=1))
    with pytest.raises(ValueError, match="a"):
        one.run_micro_batch([("a", 1), ("b", 1), ("c", 1)])
    assert times(one) == [0]
    with pytest.raises(ValueError, match="d"):
        one.run_micro_batch([("d", 1)])
    assert times(one) == [0, 1]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"limit": pb.Limit(concurrency=1, adaptive=True)}, "limit.adaptive"),
        ({"limit": pb.Limit(breaker=1)}, "limit.breaker"),
        ({"budget": pb.Budget(max_calls=1)}, "budget"),
        ({"call_key": "k"}, "call_key"),
    ],
)
def test_a_harness_refuses_what_needs_the_jvm(options, option):
    with pytest.raises(pb.InvalidOption, match="HARNESS_NEEDS_SPARK") as refused:
        harness(count, **options)
    assert option in str(refused.value)


def test_a_limit_of_what_calls_use_is_taken_and_holds_nothing_back():
    async def asks(self, row, ctx):
        pb.current_call().report_usage(tokens=1000)
        return row.k, int(asyncio.get_running_loop().time())

    one = harness(asks, limit=[pb.Limit(per_minute=1, unit="tokens"), pb.Limit(per_second=1)])
    rows = one.run_micro_batch([("a", 0), ("b", 0)])
    assert rows == [Row(k="a", n=0), Row(k="b", n=1)]


def test_a_retry_on_exceptions_of_java_is_refused():
    with pytest.raises(pb.InvalidOption, match=r"retry\.on"):
        harness(count, retry=pb.Retry(2, on="java.io.IOException"))


def test_no_call_begins_while_the_service_says_that_none_is_left():
    async def hears(self, row, ctx):
        await noting(self, row, ctx)
        if len(self.times) == 3:
            pb.limit_from({"ratelimit-remaining": "1", "ratelimit-reset": "20"})
        return ctx.key, 1

    one = harness(hears, limit=pb.Limit(per_second=1))
    one.run_micro_batch([(str(n), 1) for n in range(6)])
    assert [time for time in times(one) if time > 3] == [22, 23], times(one)


def test_a_limit_by_key_is_refused_as_a_key_has_one_call_at_a_time():
    with pytest.raises(pb.InvalidOption, match="one row of a key at a time"):
        harness(count, limit=pb.Limit(concurrency=1, scope="key"))


def test_a_column_tells_of_the_call_of_each_row_once():
    async def asks(self, row, ctx):
        pb.current_call().report_usage(tokens=2)
        await asyncio.sleep(0.5)
        if row.t == 2 and pb.current_call().attempt == 1:
            raise pb.RetryAfter(1)
        if row.t == 3:
            raise pb.NotRetryable("three")
        return [(ctx.key, n) for n in range(row.t)]

    one = harness(asks, usage="tokens", call_column="call", on_error="column", retry=2)
    rows = one.run_micro_batch([("a", 0), ("b", 1), ("c", 2), ("d", 3)])
    told = [(row.k, row.call.attempts, row.call.elapsed_ms, row.call.usage) for row in rows]
    assert told == [
        ("b", 1, 500, {"tokens": 2.0}),
        ("c", 2, 2000, {"tokens": 4.0}),
        ("c", 0, 2000, {}),
        ("d", 1, 500, {"tokens": 2.0}),
    ]
    assert rows[3].error.kind == "NotRetryable"
    assert rows[3].error.call_id == rows[3].call.call_id
    assert rows[1].call.call_id == rows[2].call.call_id != rows[0].call.call_id
    assert not any(row.call.from_journal for row in rows)
    single = harness(asks, returns="n bigint", usage="tokens", call_column="call")
    with pytest.raises(pb.ResultTypeMismatch):
        single.process(("b", 1))


@pytest.mark.parametrize(("options", "second"), [({}, "returns"), ({"on_error": "column"}, "on_")])
def test_names_of_the_added_columns_differ(options, second):
    name = "error" if options else "n"
    with pytest.raises(pb.InvalidSchema, match="OUTPUT_NAME_CLASH"):
        harness(count, call_column=name, **options)


def test_calls_report_what_they_use_in_other_units_too():
    async def uses(self, row, ctx):
        pb.current_call().report_usage(tokens=5)
        pb.current_call().report_usage(usd=1)
        return row.k, 7

    one = harness(uses, usage="tokens", call_column="call")
    with pytest.warns(UserWarning, match=r"UNKNOWN_UNIT.* a use of usd"):
        (told,) = one.process(("a", 1))
    assert told.call.usage == {"tokens": 5, "usd": 1}
