"""A task in the worker, seen from the JVM's end of the socket."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
import time

import pytest
from pyspark import TaskContext
from pyspark.sql import types as t

import pillarbox as pb
from worker.driver import name_of

# Functions that are sent travel by value, what they reach through this module by reference: so
# latches here are shared with the worker's thread.
STATE: dict[str, object] = {}


def shared(name: str):
    return STATE[name]


@pytest.fixture(autouse=True)
def latches():
    STATE.clear()
    STATE.update({name: threading.Event() for name in ("open", "reached", "last")}, seen=[])
    yield
    STATE["open"].set()


async def double(row):
    return row.x * 2


async def wait_for_latch(row):
    shared("seen").append(row.x)
    shared("reached").set()
    while not shared("open").is_set():
        await asyncio.sleep(0.001)
    return row.x


def test_calls_are_answered_with_their_ids_and_attempts(worker):
    worker.start(double)
    worker.call(1, 2, 3, ids=[10, 2**40, 12], attempt=4)
    results = {}
    while len(results) < 3:
        kind, body = worker.receive()
        assert kind == "R"
        results.update({(element, attempt): answer for element, attempt, answer in body})
    assert results == {(10, 4): [(2,)], (2**40, 4): [(4,)], (12, 4): [(6,)]}


def test_answers_that_end_together_travel_in_one_frame(worker, monkeypatch):
    monkeypatch.setattr("pillarbox._async.call_places.SLICE_S", 60)
    worker.start(double)
    worker.call(*range(500))
    kind, body = worker.receive()
    assert (kind, len(body)) == ("R", 500)


def test_a_call_alone_is_answered_without_waiting_for_company(worker):
    worker.start(double)
    for x in range(3):
        worker.call(x, ids=[x])
        assert worker.receive() == ("R", [(x, 1, [(2 * x,)])])


def test_calls_run_at_the_same_time_and_each_is_answered_when_it_ends(worker):
    async def slow_first(row):
        if row.x == 0:
            return await wait_for_latch(row)
        return row.x

    worker.start(slow_first)
    worker.call(0, 1)
    assert worker.receive() == ("R", [(1, 1, [(1,)])])
    shared("open").set()
    assert worker.receive() == ("R", [(0, 1, [(0,)])])


def test_none_is_no_match_and_explode_gives_any_number_of_rows(worker):
    async def rows(row):
        return None if row.x == 0 else [row.x] * (row.x - 1)

    worker.start(rows, explode=True)
    worker.call(0, 1, 2, 3)
    assert worker.collect(4) == {0: None, 1: [], 2: [(2,)], 3: [(3,), (3,)]}


def test_a_failure_tells_class_message_and_the_users_frames_only(worker):
    async def inner(row):
        raise KeyError("who?")

    async def fails(row):
        await inner(row)

    worker.start(fails)
    worker.call(1)
    (failure,) = worker.collect(1).values()
    assert (failure["kind"], failure["message"]) == ("KeyError", "'who?'")
    assert (failure["retryable"], failure["delay"]) == (True, -1)
    assert failure["traceback"].count("Traceback") == 1
    assert "in fails" in failure["traceback"]
    assert "in inner" in failure["traceback"]
    assert "_worker" not in failure["traceback"]
    assert "asyncio" not in failure["traceback"]


def test_the_cause_of_a_failure_is_told_too(worker):
    async def fails(row):
        try:
            raise KeyError("first")
        except KeyError as first:
            raise ValueError("second") from first

    worker.start(fails)
    worker.call(1)
    trace = worker.collect(1)[0]["traceback"]
    assert "KeyError: 'first'" in trace
    assert "direct cause" in trace
    assert "ValueError: second" in trace


def test_retry_on_decides_what_is_retryable(worker):
    async def fails(row):
        raise (KeyError if row.x else ValueError)()

    worker.start(fails, retry=pb.Retry(3, on=KeyError))
    worker.call(0, 1)
    assert {i: f["retryable"] for i, f in worker.collect(2).items()} == {
        0: False,
        1: True,
    }


def test_retry_after_carries_its_delay_in_ms(worker):
    async def busy(row):
        raise pb.RetryAfter(1.5, "later")

    worker.start(busy, retry=pb.Retry(3, on=KeyError))
    worker.call(1)
    failure = worker.collect(1)[0]
    assert (failure["kind"], failure["message"]) == ("RetryAfter", "later")
    assert (failure["retryable"], failure["delay"]) == (True, 1500)


def test_retry_after_without_retry_says_what_is_missing(worker):
    async def busy(row):
        raise pb.RetryAfter(1.5)

    worker.start(busy)
    worker.call(1)
    failure = worker.collect(1)[0]
    assert failure["kind"] == "RETRY_AFTER_WITHOUT_RETRY"
    assert (failure["retryable"], failure["delay"]) == (False, 1500)


def test_retry_after_for_all_needs_limits_and_no_retry(worker):
    async def busy(row):
        raise pb.RetryAfter(1.5, "later", all=True)

    worker.start(busy, limit=pb.Limit(concurrency=2))
    worker.call(1)
    failure = worker.collect(1)[0]
    assert (failure["kind"], failure["message"]) == ("RetryAfter", "later")
    assert (failure["retryable"], failure["delay"]) == (True, 1500)


def test_plain_functions_have_as_many_threads_as_calls_may_be_under_way(worker):
    STATE["meet"] = threading.Barrier(3)

    def meet(row):
        return shared("meet").wait(10)

    # Each value of the key has the limit by itself, so three calls are under way.
    worker.start(meet, limit=pb.Limit(concurrency=1, key="x"))
    worker.call(1, 2, 3)
    assert sorted(rows[0][0] for rows in worker.collect(3).values()) == [0, 1, 2]


def test_a_refused_result_is_a_retry_until_the_last_attempt_whose_result_counts(worker):
    retry = pb.Retry(2, if_result=lambda answer: answer == 6)
    worker.start(double, retry=retry)
    worker.call(3, 4)
    outcomes = worker.collect(2)
    assert (outcomes[0]["kind"], outcomes[0]["retryable"]) == ("RESULT_REFUSED", True)
    assert outcomes[1] == [(8,)]
    worker.call(3, attempt=2)
    assert worker.collect(1) == {0: [(6,)]}


def test_a_result_of_the_wrong_type_fails_its_element_alone_and_for_good(worker):
    async def answer(row):
        return "text" if row.x == 1 else row.x

    worker.start(answer, retry=pb.Retry(3))
    worker.call(0, 1, 2)
    outcomes = worker.collect(3)
    assert (outcomes[0], outcomes[2]) == ([(0,)], [(2,)])
    assert outcomes[1]["kind"] == "RESULT_TYPE_MISMATCH"
    assert not outcomes[1]["retryable"]
    assert "column y must be bigint, but it is 'text' (a str)" in outcomes[1]["message"]


def test_a_cancelled_call_is_stopped_and_never_answered(worker):
    async def call(row):
        if row.x == 7:
            shared("last").set()
        try:
            return await wait_for_latch(row)
        except asyncio.CancelledError:
            shared("seen").append(f"cancelled {row.x}")
            raise

    worker.start(call)
    worker.call(0, 1)
    assert shared("reached").wait(20)
    worker.cancel(0)
    worker.call(7, ids=[7])
    assert shared("last").wait(20)
    shared("open").set()
    assert worker.collect(2) == {1: [(1,)], 7: [(7,)]}
    assert "cancelled 0" in shared("seen")
    assert worker.end()


def test_cancelling_an_older_attempt_leaves_the_newer_alone(worker):
    worker.start(wait_for_latch)
    worker.call(5, ids=[3], attempt=2)
    worker.cancel(3, attempt=1)
    worker.cancel(99)
    shared("open").set()
    assert worker.receive() == ("R", [(3, 2, [(5,)])])


def test_an_answer_given_in_spite_of_cancellation_is_dropped(worker):
    async def stubborn(row):
        if pb.current_call().attempt == 2:
            shared("last").set()
        try:
            return await wait_for_latch(row)
        except asyncio.CancelledError:
            return row.x

    worker.start(stubborn)
    worker.call(0)
    assert shared("reached").wait(20)
    worker.cancel(0)
    worker.call(0, attempt=2)
    assert shared("last").wait(20)
    shared("open").set()
    assert worker.receive() == ("R", [(0, 2, [(0,)])])


def test_a_group_is_one_call_with_the_rows_in_order(worker):
    async def batch(rows):
        shared("seen").append([row.x for row in rows])
        return [None if row.x == 2 else row.x * 10 for row in rows]

    worker.start(batch, batch_size=3)
    worker.group(1, 2, 3)
    assert worker.collect(3) == {0: [(10,)], 1: None, 2: [(30,)]}
    assert shared("seen") == [[1, 2, 3]]


def test_a_group_that_fails_fails_each_of_its_rows(worker):
    async def batch(rows):
        raise ValueError("all of them")

    worker.start(batch, batch_size=2)
    worker.group(1, 2)
    assert {f["message"] for f in worker.collect(2).values()} == {"all of them"}


@pytest.mark.parametrize("answer", [[1], (1, 2), None, {1: 1, 2: 2}])
def test_a_group_must_be_answered_by_a_list_of_its_length(worker, answer):
    async def batch(rows):
        return answer

    worker.start(batch, batch_size=2)
    worker.group(1, 2)
    failures = worker.collect(2)
    assert {f["kind"] for f in failures.values()} == {"RESULT_SHAPE_MISMATCH"}
    assert "a list of 2 results" in failures[0]["message"]


def test_a_group_lives_until_all_its_members_are_cancelled(worker):
    async def batch(rows):
        if rows[0].x == 7:
            shared("last").set()
        try:
            await wait_for_latch(rows[0])
        except asyncio.CancelledError:
            shared("seen").append("cancelled")
            raise
        return [row.x for row in rows]

    worker.start(batch, batch_size=2)
    worker.group(1, 2)
    assert shared("reached").wait(20)
    worker.cancel(0)
    worker.group(7, 8, ids=[7, 8])
    assert shared("last").wait(20)
    shared("open").set()
    assert worker.collect(3) == {1: [(2,)], 7: [(7,)], 8: [(8,)]}
    shared("open").clear()
    shared("reached").clear()
    worker.group(1, 2, ids=[5, 6])
    assert shared("reached").wait(20)
    worker.cancel(5)
    worker.cancel(6)
    assert worker.end()
    assert shared("seen").count("cancelled") == 1


def test_plain_functions_run_in_threads_at_the_same_time(worker):
    def blocking(row):
        shared("seen").append((row.x, threading.current_thread().name))
        if row.x == 0:
            assert shared("open").wait(20)
        else:
            shared("open").set()
        return row.x

    worker.start(blocking, capacity=2)
    worker.call(0, 1)
    assert worker.collect(2) == {0: [(0,)], 1: [(1,)]}
    assert all(name.startswith("pillarbox-call") for _, name in shared("seen"))


def test_a_plain_function_may_be_of_the_batch_form(worker):
    def batch(rows):
        return [row.x + 1 for row in rows]

    worker.start(batch, batch_size=2)
    worker.group(1, 2)
    assert worker.collect(2) == {0: [(2,)], 1: [(3,)]}


def test_stop_iteration_in_a_thread_is_a_failure(worker):
    def stops(row):
        return next(iter(()))

    worker.start(stops)
    worker.call(1)
    failure = worker.collect(1)[0]
    assert failure["kind"] == "RuntimeError"
    assert "StopIteration" in failure["message"]


def test_a_coroutine_hidden_behind_a_plain_function_is_awaited(worker):
    worker.start(lambda row: double(row))
    worker.call(4)
    assert worker.collect(1) == {0: [(8,)]}


def test_a_thread_that_was_cancelled_goes_unheard(worker):
    def blocking(row):
        shared("reached").set()
        assert shared("open").wait(20)
        return row.x

    worker.start(blocking, capacity=2)
    worker.call(0)
    assert shared("reached").wait(20)
    worker.cancel(0)
    shared("open").set()
    worker.call(5, ids=[5])
    assert worker.collect(1) == {5: [(5,)]}
    assert worker.end()


def test_the_call_id_is_the_same_in_every_attempt_and_in_threads(worker):
    async def identify(row):
        return f"{pb.call_id()} {await asyncio.to_thread(pb.call_id)}"

    def in_thread(row):
        return pb.call_id()

    worker.start(identify, "y string")
    same = [(f"{name_of(41)} {name_of(41)}",)]
    for attempt in (1, 2):
        worker.call(1, ids=[41], attempt=attempt)
        assert worker.receive() == ("R", [(41, attempt, same)])
    assert worker.end()
    worker.start(in_thread, "y string")
    worker.call(1, ids=[5])
    assert worker.collect(1) == {5: [(name_of(5),)]}


def test_what_the_service_says_in_a_batch_call_is_told_for_each_of_its_rows(worker):
    async def batch(rows):
        pb.limit_from({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "2"})
        return [row.x for row in rows]

    worker.start(batch, batch_size=2)
    worker.group(1, 2, ids=[10, 11], attempt=3)
    kind, body = worker.receive()
    assert kind == "L"
    assert struct.unpack_from("<I", body) == (2,)
    told = [one[:4] for one in struct.iter_unpack("<qiidd", body[4:])]
    assert told == [(10, 3, -1, 5), (11, 3, -1, 5)]


def test_a_batch_call_has_an_id_a_row_and_no_single_one(worker):
    async def batch(rows):
        with pytest.raises(pb.NoCurrentCall, match="current_call"):
            pb.call_id()
        return pb.current_call().ids

    worker.start(batch, "y string", batch_size=2)
    worker.group(1, 2, ids=[8, 9])
    assert worker.collect(2) == {8: [(name_of(8),)], 9: [(name_of(9),)]}


@pytest.mark.parametrize("function", [pb.call_id, pb.current_call])
def test_outside_a_call_there_is_no_call_id(function):
    with pytest.raises(pb.NoCurrentCall, match="outside a call"):
        function()


def test_the_task_context_tells_where_the_call_runs(worker):
    async def where(row):
        context = TaskContext.get()
        return f"{context.stageId()} {context.partitionId()} {context.attemptNumber()}"

    worker.start(where, "y string")
    worker.call(1)
    assert worker.collect(1) == {0: [("2 3 1",)]}


def test_end_cancels_what_is_left_and_the_worker_serves_the_next_task(worker):
    async def endless(row):
        try:
            await wait_for_latch(row)
        finally:
            shared("seen").append("ended")

    worker.start(endless)
    worker.call(1, 2)
    assert shared("reached").wait(20)
    assert worker.end()
    assert shared("seen").count("ended") == 2
    worker.start(double)
    worker.call(4)
    assert worker.collect(1) == {0: [(8,)]}
    assert worker.end()


def test_the_event_loop_is_the_same_for_all_tasks_of_a_worker(worker):
    async def which_loop(row):
        return id(asyncio.get_running_loop())

    loops = set()
    for _ in range(3):
        worker.start(which_loop)
        worker.call(1)
        loops.add(worker.collect(1)[0][0][0])
        assert worker.end()
    assert len(loops) == 1


def test_a_function_is_loaded_once_for_many_tasks(worker):
    class Counting:
        def __init__(self):
            self.calls = 0

        async def __call__(self, row):
            self.calls += 1
            return self.calls

    function = Counting()
    for turn in (1, 2):
        worker.start(function)
        worker.call(0)
        assert worker.collect(1) == {0: [(turn,)]}
        assert worker.end()


def test_a_coroutine_that_will_not_stop_makes_the_worker_unclean(worker):
    async def immortal(row):
        shared("reached").set()
        while not shared("open").is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    worker.start(immortal)
    worker.call(1)
    assert shared("reached").wait(20)
    start = time.monotonic()
    assert not worker.end()
    assert 1.5 < time.monotonic() - start < 10
    assert worker.join() == -1


def test_a_thread_that_will_not_stop_makes_the_worker_unclean(worker, monkeypatch):
    monkeypatch.setattr("pillarbox._worker.session._STOP_LIMIT_S", 0.3)

    def immortal(row):
        shared("reached").set()
        shared("open").wait(20)

    worker.start(immortal)
    worker.call(1)
    assert shared("reached").wait(20)
    assert not worker.end()
    assert worker.join() == -1


def test_large_frames_pass_both_ways_at_the_same_time(worker):
    async def echo(row):
        return {"y": row.x, "s": row.s}

    worker.start(echo, "y long, s string", "x long, s string", capacity=2000)
    text = "z" * 10_000
    sender = threading.Thread(
        target=lambda: [
            worker.call(*((x, text) for x in range(at, at + 100)), ids=list(range(at, at + 100)))
            for at in range(0, 2000, 100)
        ]
    )
    sender.start()
    assert worker.collect(2000) == {x: [(x, text)] for x in range(2000)}
    sender.join()
    assert worker.end()


def test_rows_arrive_with_the_types_of_spark(worker):
    async def look(row):
        return f"{row.p.a} {row['when'].hour} {type(row).__name__} {row.when.tzinfo}"

    point = t.StructType().add("a", "long")
    inputs = t.StructType().add("p", point).add("when", "timestamp_ntz")
    import datetime as dt

    worker.start(look, "y string", inputs)
    worker.call(({"a": 5}, dt.datetime(2024, 1, 1, 13)))
    assert worker.collect(1) == {0: [("5 13 Row None",)]}


def test_when_the_jvm_goes_away_the_worker_ends(worker):
    worker.start(wait_for_latch)
    worker.call(1)
    assert shared("reached").wait(20)
    worker.close()
    assert worker.exit_code == -1


def test_a_frame_that_is_not_of_the_protocol_ends_the_task(worker):
    worker.start(double)
    worker.send(b"?")
    kind, fatal = worker.receive()
    assert (kind, fatal["condition"]) == ("T", "PROTOCOL_ERROR")
    assert worker.join() == -1


def test_something_else_than_init_first_is_told(worker):
    worker.preamble()
    worker.send(b"C", struct.pack("<I", 0))
    kind, fatal = worker.receive()
    assert (kind, fatal["condition"]) == ("T", "PROTOCOL_ERROR")
    assert worker.join() == -1


def test_another_python_version_is_told_with_both(worker):
    worker.preamble("2.7")
    kind, fatal = worker.receive()
    assert (kind, fatal["condition"]) == ("T", "PYTHON_VERSION_MISMATCH")
    assert "2.7" in fatal["text"]
    assert worker.join() == -1


class Unloadable:
    def __reduce__(self):
        return explode, ()

    async def __call__(self, row):
        return row.x


def explode():
    raise ModuleNotFoundError("No module named 'acme'")


def test_a_function_that_does_not_load_is_told_with_the_reason(worker):
    worker.init(Unloadable())
    kind, fatal = worker.receive()
    assert (kind, fatal["condition"]) == ("T", "FUNCTION_LOAD_FAILED")
    assert "No module named 'acme'" in fatal["text"]
    assert "acme" in fatal["traceback"]
    assert worker.join() == -1
