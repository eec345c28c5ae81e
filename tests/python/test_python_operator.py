"""The operator of engine="python" under a virtual clock: window, order, deadlines, retries."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t
from virtual_clock import run_virtually
from worker import driver

import pillarbox as pb
from pillarbox._arrow.rows import RowReader
from pillarbox._async.command import Command
from pillarbox._async.failed_calls import FailedCalls
from pillarbox._async.python_operator import AsyncOperator, Element
from pillarbox._async.runner import CallRunner
from pillarbox._base.functions import is_async
from pillarbox._metered.calls import CallSite

X = t.StructType().add("x", "long")


def options_for(**options: Any) -> Any:
    return driver.options_for(**{"capacity": 4, "on_error": "column", **options})


@dataclass
class Run:
    """What came out: finished elements in order, and the virtual time when it ended."""

    elements: list[Element] = field(default_factory=list)
    ended: float = 0.0

    @property
    def outcomes(self) -> list[tuple[int, Any]]:
        return [
            (element.row.x, element.failure.kind if element.failure else element.answer)
            for element in self.elements
        ]


def run(
    function: Any,
    batches: list[list[int]],
    end_after: float = 0,
    failed_calls: FailedCalls | None = None,
    **given_options: Any,
) -> Run:
    """Runs the operator over ``batches`` of the column x, each handed over when it is wanted.

    The end of the input is told ``end_after`` seconds after it was asked for.
    """
    options = options_for(**given_options)
    return run_virtually(_run(function, batches, end_after, failed_calls, options))


async def _run(
    function: Any,
    batches: list[list[int]],
    end_after: float,
    failed_calls: FailedCalls | None,
    options: Any,
) -> Run:
    result = Run()
    loop = asyncio.get_running_loop()
    over, source = loop.create_future(), iter(batches)

    def want() -> None:
        values = next(source, None)
        if values is None:
            later = loop.call_later if end_after else lambda _, step: loop.call_soon(step)
            later(end_after, operator.end_input)
        else:
            batch = pa.RecordBatch.from_pydict({"x": pa.array(values, pa.int64())})
            loop.call_soon(operator.feed, batch)

    operator = AsyncOperator(
        options, RowReader(X), [0], scope="test",
        emit=result.elements.append, want_input=want,
        finished=lambda: over.set_result(None), exited=over.set_exception,
    )  # fmt: skip
    operator.failed_calls = failed_calls
    command = Command(
        function,
        is_async(function),
        options.batch_size is not None,
        None,
        options.retry,
        X,
        X,
        "test",
    )
    operator.start(CallRunner(command, None, operator, site=CallSite("test"), max_threads=4))
    await over
    result.ended = loop.time()
    return result


class Gauge:
    """Counts calls that run at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __aenter__(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    async def __aexit__(self, *_: object) -> None:
        self.now -= 1


def test_ordered_output_has_the_order_of_the_input_whatever_the_latencies():
    async def slow_first(row):
        await asyncio.sleep(10 - row.x)
        return row.x

    result = run(slow_first, [[0, 1, 2], [3, 4, 5]], capacity=10)
    assert [x for x, _ in result.outcomes] == list(range(6))


def test_unordered_output_comes_as_calls_end():
    async def slow_first(row):
        await asyncio.sleep(10 - row.x)
        return row.x

    result = run(slow_first, [[0, 1, 2]], ordered=False, capacity=10)
    assert [x for x, _ in result.outcomes] == [2, 1, 0]


def test_the_window_slides_so_that_one_slow_call_holds_up_nobody_when_unordered():
    async def first_is_slow(row):
        await asyncio.sleep(100 if row.x == 0 else 1)
        return row.x

    result = run(first_is_slow, [list(range(41))], ordered=False, capacity=5)
    # 40 calls of 1 s in the 4 slots that are left end after 10 s, long before the slow one.
    assert result.outcomes[-1][0] == 0
    assert result.ended == pytest.approx(100)


def test_what_is_done_and_waits_for_its_turn_has_room_of_its_own():
    gauge, started = Gauge(), []

    async def first_is_slow(row):
        started.append((asyncio.get_running_loop().time(), row.x))
        async with gauge:
            await asyncio.sleep(100 if row.x == 0 else 1)

    result = run(first_is_slow, [list(range(60))], ordered=True, capacity=5)
    assert gauge.most == 5
    assert [x for at, x in started if at < 100] == list(range(50))
    assert result.ended == pytest.approx(102)


def test_input_is_asked_for_only_when_less_than_a_window_of_rows_is_left():
    in_hand, most = 0, 0

    async def call(row):
        nonlocal in_hand, most
        most = max(most, in_hand)
        await asyncio.sleep(1)
        in_hand -= 1

    class Batches(list):
        def __iter__(self):
            nonlocal in_hand
            for _ in range(20):
                in_hand += 10
                yield list(range(10))

    result = run(call, Batches(), capacity=4)
    assert len(result.elements) == 200
    assert most <= 10 + 4 + 4


def test_empty_batches_and_an_empty_input_end():
    async def call(row):
        return row.x

    assert run(call, []).outcomes == []
    assert run(call, [[], [1], []]).outcomes == [(1, 1)]


def test_a_total_timeout_ends_the_element_and_cancels_its_coroutine():
    cancelled = []

    async def never(row):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(row.x)
            raise

    result = run(never, [[1, 2]], timeout="5s")
    assert result.outcomes == [(1, "TIMEOUT"), (2, "TIMEOUT")]
    assert "total timeout: 5000 ms" in result.elements[0].failure.message
    assert cancelled == [1, 2]
    assert result.ended == pytest.approx(5)


def test_an_answer_after_the_timeout_is_dropped():
    async def stubborn(row):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "late"

    result = run(stubborn, [[1]], timeout="5s")
    assert result.outcomes == [(1, "TIMEOUT")]


def test_an_attempt_timeout_starts_another_attempt():
    attempts = []

    async def first_hangs(row):
        attempts.append(pb.call_id())
        if len(attempts) == 1:
            await asyncio.sleep(3600)
        return row.x

    retry = pb.Retry(3, backoff="1s", jitter=0)
    result = run(first_hangs, [[7]], timeout=pb.Timeout(attempt="2s"), retry=retry)
    assert result.outcomes == [(7, 7)]
    assert result.ended == pytest.approx(3)
    assert attempts == [result.elements[0].call_id()] * 2


def test_an_attempt_timeout_without_retry_is_a_failure_of_its_own_message():
    async def never(row):
        await asyncio.sleep(3600)

    result = run(never, [[7]], timeout=pb.Timeout(attempt="2s"))
    assert result.outcomes == [(7, "TIMEOUT")]
    message = result.elements[0].failure.message
    assert message.startswith("Attempt 1 of the call")
    assert "Raise attempt of pb.Timeout, or" in message


def test_a_total_timeout_during_the_backoff_ends_the_element_without_another_attempt():
    calls = []

    async def fails(row):
        calls.append(asyncio.get_running_loop().time())
        raise ValueError

    retry = pb.Retry(10, backoff="4s", multiplier=1, jitter=0)
    result = run(fails, [[1]], timeout="5s", retry=retry)
    assert result.outcomes == [(1, "TIMEOUT")]
    assert calls == pytest.approx([0, 4])
    assert result.ended == pytest.approx(5)
    assert (result.elements[0].attempt, result.elements[0].elapsed_ms) == (2, 5000)


def test_retries_back_off_and_the_last_failure_counts():
    times = []

    async def fails(row):
        times.append(asyncio.get_running_loop().time())
        raise ValueError(f"attempt {len(times)}")

    retry = pb.Retry(4, backoff="1s", multiplier=2, max_backoff="3s", jitter=0)
    result = run(fails, [[1]], retry=retry)
    assert times == pytest.approx([0, 1, 3, 6])
    assert result.elements[0].failure.message == "attempt 4"
    assert result.elements[0].attempt == 4


@pytest.mark.parametrize("retry_on", [KeyError, (KeyError, OSError), lambda e: e.args == ("k",)])
def test_only_what_retry_on_names_is_tried_again(retry_on):
    calls = []

    async def fails(row):
        calls.append(row.x)
        raise KeyError("k") if row.x else ValueError("v")

    run(fails, [[0, 1]], retry=pb.Retry(3, backoff="1ms", on=retry_on))
    assert sorted(calls) == [0, 1, 1, 1]


def test_a_predicate_that_fails_is_the_failure_and_is_not_retried():
    calls = []

    async def fails(row):
        calls.append(row.x)
        raise ValueError("v")

    result = run(fails, [[0]], retry=pb.Retry(3, backoff="1ms", on=lambda e: e.nothing))
    assert result.outcomes == [(0, "AttributeError")]
    failure = result.elements[0].failure
    assert failure.message.startswith("retry.on (")
    assert "raised AttributeError: 'ValueError' object has no attribute" in failure.message
    assert failure.message.endswith(", when it judged ValueError: v")
    assert "ValueError: v" in failure.traceback
    assert calls == [0]


def test_a_predicate_of_results_that_fails_names_the_result():
    async def call(row):
        return row.x + 41

    retry = pb.Retry(3, backoff="1ms", if_result=lambda value: value.nothing)
    failure = run(call, [[1]], retry=retry).elements[0].failure
    assert failure.kind == "AttributeError"
    assert failure.message.endswith(", when it judged the result 42")


@pytest.mark.parametrize("option", ["on", "if_result"])
def test_a_predicate_around_a_coroutine_function_is_not_taken_for_true(option):
    calls = []

    async def says(value):
        return False

    async def call(row):
        calls.append(row.x)
        if option == "on":
            raise ValueError("v")
        return row.x

    retry = pb.Retry(3, backoff="1ms", **{option: lambda value: says(value)})
    result = run(call, [[0]], retry=retry)
    assert result.outcomes == [(0, "INVALID_OPTION")]
    assert f"retry.{option} must be" in result.elements[0].failure.message
    assert calls == [0]


def test_retry_after_overrides_the_backoff():
    times = []

    async def busy(row):
        times.append(asyncio.get_running_loop().time())
        if len(times) < 3:
            raise pb.RetryAfter(30)
        return row.x

    result = run(busy, [[1]], retry=pb.Retry(5, backoff="1ms", on=KeyError))
    assert times == pytest.approx([0, 30, 60])
    assert result.outcomes == [(1, 1)]


def test_retry_after_without_retry_is_a_failure_that_says_so():
    async def busy(row):
        raise pb.RetryAfter(30)

    result = run(busy, [[1]])
    assert result.outcomes == [(1, "RETRY_AFTER_WITHOUT_RETRY")]
    assert "pass retry=" in result.elements[0].failure.message.lower()


def test_a_refused_result_is_tried_again_and_the_last_one_is_used():
    calls = []

    async def never_ready(row):
        calls.append(row.x)
        return "pending"

    retry = pb.Retry(3, backoff="1ms", if_result=lambda result: result == "pending")
    assert run(never_ready, [[1]], retry=retry).outcomes == [(1, "pending")]
    assert calls == [1, 1, 1]


def test_a_waiting_retry_holds_its_place():
    async def first_fails_once(row):
        if row.x == 0 and not failed:
            failed.append(0)
            raise ValueError
        return row.x

    failed: list[int] = []
    retry = pb.Retry(2, backoff="20s", jitter=0)
    result = run(first_fails_once, [list(range(8))], capacity=3, retry=retry)
    assert [x for x, _ in result.outcomes] == list(range(8))
    assert result.ended == pytest.approx(20)


def test_groups_are_called_when_full_or_when_the_first_has_waited():
    groups = []

    async def batch(rows):
        groups.append((asyncio.get_running_loop().time(), [row.x for row in rows]))
        await asyncio.sleep(10)
        return [row.x * 10 for row in rows]

    result = run(batch, [list(range(7))], capacity=5, batch_size=pb.BatchSize(3, wait="2s"))
    assert [x for _, x in groups] == [[0, 1, 2], [3, 4], [5, 6]]
    assert [at for at, _ in groups] == pytest.approx([0, 2, 10])
    assert result.outcomes == [(x, x * 10) for x in range(7)]


def test_deadlines_of_the_batch_form_start_with_the_call_and_not_with_the_wait_for_company():
    called = []

    async def batch(rows):
        called.append(asyncio.get_running_loop().time())
        await asyncio.sleep(4)
        return [row.x for row in rows]

    result = run(
        batch,
        [[0], [1]],
        capacity=3,
        batch_size=pb.BatchSize(3, wait="9s"),
        timeout=pb.Timeout("5s", attempt="5s"),
        end_after=100,
    )
    assert result.outcomes == [(0, 0), (1, 1)]
    assert called == pytest.approx([9])
    assert [element.elapsed_ms for element in result.elements] == [4000, 4000]


def test_at_the_end_of_the_input_the_last_group_leaves_at_once_unless_a_retry_is_to_come():
    groups = []

    async def batch(rows):
        now = asyncio.get_running_loop().time()
        groups.append((now, [row.x for row in rows]))
        if now == 0 and rows[0].x == 0:
            raise ValueError
        return [row.x for row in rows]

    retry = pb.Retry(2, backoff="20s", jitter=0)
    result = run(
        batch, [[0, 1, 2, 3]], batch_size=pb.BatchSize(3, wait="50s"), retry=retry, ordered=False
    )
    assert groups == [(0, [0, 1, 2]), (20, [3, 0, 1]), (20, [2])]
    assert len(result.outcomes) == 4


def test_a_call_without_an_answer_for_a_minute_is_told_of_once(capfd):
    async def slow(row):
        await asyncio.sleep(200 if row.x and pb.current_call().attempt == 2 else 50)
        if row.x and pb.current_call().attempt == 1:
            raise OSError

    calls = FailedCalls("async_io(slow)", 2, lambda *note: None)
    retry = pb.Retry(2, backoff="30s", jitter=0)
    result = run(slow, [[0, 1, 2]], retry=retry, failed_calls=calls)
    (call_id,) = (element.call_id() for element in result.elements if element.row.x == 1)
    assert capfd.readouterr().err == (
        f"Pillarbox: async_io(slow): the call {call_id}, attempt 2 for the row (x=1), has no "
        "answer for 60 s; 1 more have none for a minute\n"
    )


def test_a_group_that_waits_for_a_retry_leaves_when_the_retry_can_come_no_more():
    groups = []

    async def batch(rows):
        groups.append((asyncio.get_running_loop().time(), [row.x for row in rows]))
        if rows[0].x == 0:
            raise ValueError
        return [row.x for row in rows]

    retry = pb.Retry(2, backoff="500s", max_backoff="500s", jitter=0)
    result = run(
        batch,
        [[0, 1]],
        batch_size=pb.BatchSize(1, wait="5000s"),
        retry=retry,
        timeout="5s",
        capacity=2,
    )
    assert result.outcomes == [(0, "TIMEOUT"), (1, 1)]
    assert result.ended == pytest.approx(5)


def test_attempts_of_the_batch_form_follow_at_once_and_none_is_lost():
    tried = Counter()

    async def batch(rows):
        tried.update(row.x for row in rows)
        if any(row.x % 3 == 0 and tried[row.x] < 4 for row in rows):
            raise pb.RetryAfter(0)
        return [row.x for row in rows]

    result = run(
        batch, [list(range(500))], batch_size=pb.BatchSize(4, wait="1s"), ordered=False,
        retry=pb.Retry(1000), timeout=pb.Timeout(attempt="3s"),
    )  # fmt: skip
    assert sorted(result.outcomes) == [(x, x) for x in range(500)]


@pytest.mark.parametrize("answer", [[1], [1, 2, 3], {1: 2}, None, (1, 2)])
def test_a_group_with_a_wrong_number_of_answers_fails_all_its_rows(answer):
    async def batch(rows):
        return answer

    result = run(batch, [[0, 1]], batch_size=2)
    assert result.outcomes == [
        (0, "RESULT_SHAPE_MISMATCH"),
        (1, "RESULT_SHAPE_MISMATCH"),
    ]
    assert "a list of 2 results" in result.elements[0].failure.message


def test_a_member_that_timed_out_leaves_its_group_alone():
    groups = []

    async def batch(rows):
        groups.append((asyncio.get_running_loop().time(), [row.x for row in rows]))
        await asyncio.sleep(4)
        return ["refuse" if row.x == 0 else "ok" for row in rows]

    retry = pb.Retry(2, backoff="2s", jitter=0, if_result=lambda answer: answer == "refuse")
    result = run(
        batch, [[0, 1, 2, 3]], capacity=2, ordered=False, batch_size=pb.BatchSize(2, wait="5s"),
        timeout="9s", retry=retry,
    )  # fmt: skip
    # 0 is tried again beside 2, and its deadline comes a second before their answer.
    assert groups[1] == (pytest.approx(6), [2, 0])
    assert result.outcomes == [(1, "ok"), (0, "TIMEOUT"), (2, "ok"), (3, "ok")]


def test_a_function_that_cancels_itself_fails_its_own_element_only():
    async def suicidal(row):
        if row.x == 1:
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        return row.x

    assert run(suicidal, [[0, 1, 2]]).outcomes == [
        (0, 0),
        (1, "CancelledError"),
        (2, 2),
    ]


def test_sys_exit_is_told_and_not_taken_for_a_failure():
    async def leaves(row):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        run(leaves, [[1]])


def test_a_long_run_of_calls_that_end_at_once_needs_no_deep_stack():
    async def at_once(row):
        return row.x

    result = run(at_once, [list(range(5000))], capacity=3)
    assert [x for x, _ in result.outcomes] == list(range(5000))


steps = st.one_of(st.floats(0, 20).map(lambda s: round(s, 1)), st.just("hang"))
attempt_plans = st.tuples(steps, st.sampled_from(["ok", "fail", "refuse", "after"]))


@dataclass(frozen=True)
class Model:
    """The outcome of one element by the rules alone, knowing nothing of windows or loops."""

    plan: list[tuple[Any, str]]
    timeout: float
    attempt_timeout: float
    attempts: int

    def outcome(self) -> tuple[str, float]:
        now = 0.0
        for attempt, (latency, how) in enumerate(self.plan[: self.attempts], 1):
            hangs = latency == "hang"
            ends = now + (10**6 if hangs else latency)
            if ends > now + self.attempt_timeout:
                ends, how = now + self.attempt_timeout, "timeout"
            if ends > self.timeout:
                return "TIMEOUT", self.timeout
            now = ends
            last = attempt == self.attempts
            if how == "ok" or (how == "refuse" and last):
                return how, now
            if last:
                kinds = {
                    "fail": "ValueError",
                    "after": "RetryAfter",
                    "timeout": "TIMEOUT",
                }
                return kinds[how], now
            now += 7 if how == "after" else 2
            if now > self.timeout:
                return "TIMEOUT", self.timeout
        raise AssertionError


def ties(model: Model) -> bool:
    """Whether some instant coincides with a deadline: then either outcome would be right."""
    now = 0.0
    for latency, how in model.plan[: model.attempts]:
        length = 10**6 if latency == "hang" else latency
        if abs(length - model.attempt_timeout) < 0.01:
            return True
        now += min(length, model.attempt_timeout)
        if abs(now - model.timeout) < 0.01:
            return True
        now += 7 if how == "after" and length < model.attempt_timeout else 2
        if abs(now - model.timeout) < 0.01:
            return True
    return False


@settings(max_examples=150)
@given(
    plans=st.lists(st.lists(attempt_plans, min_size=3, max_size=3), max_size=12),
    ordered=st.booleans(),
    capacity=st.integers(1, 6),
    timeout=st.sampled_from([9.05, 30.05, 500.05]),
    attempt_timeout=st.sampled_from([3.05, 9.05]),
    attempts=st.integers(1, 3),
    size=st.integers(1, 5),
)
def test_any_mixture_of_latencies_failures_and_options_agrees_with_the_rules(
    plans, ordered, capacity, timeout, attempt_timeout, attempts, size
):
    models = [Model(plan, timeout, attempt_timeout, attempts) for plan in plans]
    plans_left = [list(plan) for plan in plans]
    gauge = Gauge()

    async def call(row):
        latency, how = plans_left[row.x].pop(0)
        async with gauge:
            await asyncio.sleep(10**6 if latency == "hang" else latency)
        if how == "fail":
            raise ValueError
        if how == "after":
            raise pb.RetryAfter(7)
        return how

    retry = pb.Retry(
        attempts,
        backoff="2s",
        multiplier=1,
        jitter=0,
        if_result=lambda answer: answer == "refuse",
    )
    rows = list(range(len(plans)))
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    result = run(
        call, batches, ordered=ordered, capacity=capacity, retry=retry,
        timeout=pb.Timeout(f"{timeout}s", attempt=f"{attempt_timeout}s"),
    )  # fmt: skip
    assert gauge.most <= capacity
    if ordered:
        assert [x for x, _ in result.outcomes] == rows
    assert sorted(x for x, _ in result.outcomes) == rows
    for element in result.elements:
        model = models[element.row.x]
        if not ties(model):
            kind, at = model.outcome()
            got = element.failure.kind if element.failure else element.answer
            assert (got, element.elapsed_ms) == (kind, pytest.approx(at * 1000, abs=2))


def test_what_an_attempt_reports_after_its_end_is_not_the_next_ones():
    ended = []

    async def reports_late(row):
        call = pb.current_call()
        if call.attempt == 1:
            ended.append(call)
            raise OSError
        ended[0].report_usage(tokens=100)
        call.report_usage(tokens=1)
        return row.x

    calls = FailedCalls("async_io(late)", 2, lambda *note: None)
    retry = pb.Retry(2, backoff="1s", jitter=0)
    result = run(reports_late, [[7]], retry=retry, usage="tokens", failed_calls=calls)
    assert [element.usage for element in result.elements] == [{"tokens": 1.0}]
