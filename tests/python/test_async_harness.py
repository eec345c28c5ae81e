"""The harness of async_io: virtual time, the user's own exceptions, what it refuses."""

import asyncio
import socket
import threading
import time
from contextlib import asynccontextmanager, contextmanager

import pytest
from pyspark.sql import Row
from pyspark.sql import types as t

import pillarbox as pb
from pillarbox._harness.virtual_loop import VirtualLoop
from pillarbox.testing import AsyncHarness, FakeService

X = {"schema": "x bigint", "returns": "y bigint"}
ROWS = [(1,), (2,), (3,)]


def now() -> float:
    return asyncio.get_running_loop().time()


def test_rows_go_in_as_dicts_tuples_or_rows_and_come_out_as_async_ios():
    async def double(row):
        return row.x * 2

    harness = AsyncHarness(double, **X)
    given = [{"x": 1}, (2,), Row(x=3)]
    assert harness.run(given) == [Row(x=1, y=2), Row(x=2, y=4), Row(x=3, y=6)]
    assert harness.run([]) == []


def test_hours_take_no_time_and_the_clock_begins_at_0_in_each_run():
    async def slow(row):
        await asyncio.sleep(3600 * row.x)
        return round(now())

    harness, begun = AsyncHarness(slow, **X), time.monotonic()
    for _ in range(2):
        assert [row.y for row in harness.run(ROWS)] == [3600, 7200, 10800]
    assert time.monotonic() - begun < 60


def test_rows_without_order_come_as_their_calls_end():
    async def slow_first(row):
        await asyncio.sleep(10 - row.x)
        return row.x

    assert [row.x for row in AsyncHarness(slow_first, **X, ordered=False).run(ROWS)] == [3, 2, 1]


def test_a_retry_that_waits_for_the_limit_of_its_value_leaves_its_place_to_others():
    begun = {}

    async def fail_first(row):
        begun.setdefault(row.tenant, now())
        if row.tenant == "a" and pb.current_call().attempt == 1:
            raise OSError

    harness = AsyncHarness(
        fail_first,
        schema="tenant string",
        returns="y int",
        ordered=False,
        capacity=1,
        retry=pb.Retry(2, backoff="1 s", jitter=0),
        limit=pb.Limit(per_minute=1, key="tenant"),
    )
    assert len(harness.run([("a",), ("b",)])) == 2
    assert begun == {"a": 0, "b": pytest.approx(1, abs=0.1)}


def test_back_offs_and_rates_are_kept_by_the_virtual_clock():
    times = []

    async def fail_first(row):
        times.append((row.x, round(now(), 3)))
        if pb.current_call().attempt == 1:
            raise OSError

    retry = pb.Retry(2, backoff="20 s", jitter=0)
    limit = pb.Limit(per_minute=60)
    AsyncHarness(fail_first, **X, retry=retry, limit=limit).run(ROWS)
    assert times == [(1, 0), (2, 1), (3, 2), (1, 20), (2, 21), (3, 22)]


def test_a_service_is_a_function_and_sees_no_more_calls_than_the_limit():
    service = FakeService(lambda row: row.x, latency="1 hour", script=[503, pb.RetryAfter("5s")])
    harness = AsyncHarness(service, **X, retry=3, limit=pb.Limit(concurrency=2))
    assert [row.y for row in harness.run(ROWS)] == [1, 2, 3]
    assert len(service.calls) == 5
    assert service.most_in_flight == 2


def test_a_failure_is_the_very_exception_of_the_function():
    thrown = KeyError("no such price")

    async def fail(row):
        raise thrown

    with pytest.raises(KeyError) as raised:
        AsyncHarness(fail, **X, retry=pb.Retry(3, on=KeyError)).run(ROWS)
    assert raised.value is thrown


def test_an_exception_in_a_thread_or_behind_a_decorator_is_raised_as_well():
    def fail(row):
        raise KeyError(row.x)

    async def later():
        raise LookupError

    with pytest.raises(KeyError):
        AsyncHarness(fail, **X).run(ROWS)
    with pytest.raises(LookupError):
        # One row: the coroutine of a call that is cancelled meanwhile would never be awaited.
        AsyncHarness(lambda row: later(), **X).run(ROWS[:1])


def test_a_timeout_after_an_exception_says_both():
    async def fail(row):
        raise OSError("the port is closed")

    retry = pb.Retry(2, backoff="30 s", jitter=0)
    with pytest.raises(pb.CallFailed, match="total timeout: 10000 ms") as failed:
        AsyncHarness(fail, **X, retry=retry, timeout="10 s").run(ROWS)
    assert isinstance(failed.value.__cause__, OSError)


def test_a_failure_cancels_the_calls_that_still_run(monkeypatch):
    # All begin before the event loop looks at the one that fails.
    monkeypatch.setattr("pillarbox._async.attempts.SLICE_S", 60)
    ended = []

    async def fail_second(row):
        if row.x == 2:
            raise KeyError
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(row.x)

    with pytest.raises(KeyError):
        AsyncHarness(fail_second, **X, ordered=False).run(ROWS)
    assert ended == [1, 3]


def test_a_failure_does_not_wait_for_the_rows_before_it():
    async def fail_second(row):
        if row.x == 2:
            raise KeyError
        await asyncio.Event().wait()

    with pytest.raises(KeyError):
        AsyncHarness(fail_second, **X).run(ROWS)


@pytest.mark.parametrize("manager", [asynccontextmanager, contextmanager])
def test_a_resource_is_open_during_a_run_and_closed_also_after_a_failure(manager):
    events = []

    def steps():
        events.append("open")
        try:
            yield "client"
        finally:
            events.append("closed")

    async def asynchronous():
        with contextmanager(steps)() as value:
            yield value

    async def call(row, client):
        events.append(client)
        return 1 // (3 - row.x)

    resource = manager(asynchronous if manager is asynccontextmanager else steps)
    harness = AsyncHarness(call, **X, resource=resource)
    harness.run(ROWS[:2])
    assert events == ["open", "client", "client", "closed"]
    with pytest.raises(ZeroDivisionError):
        harness.run(ROWS[2:])
    assert events[4:] == ["open", "client", "closed"]


def test_a_resource_that_fails_to_open_raises_its_own_exception():
    @asynccontextmanager
    async def refused():
        raise ConnectionRefusedError("port 1")
        yield

    async def call(row, client):
        raise AssertionError("never called")

    with pytest.raises(ConnectionRefusedError, match="port 1"):
        AsyncHarness(call, **X, resource=refused).run(ROWS)


def test_the_clock_does_not_jump_while_a_thread_runs():
    def plain(row):
        time.sleep(0.05)
        return row.x

    async def to_thread(row):
        return await asyncio.to_thread(plain, row)

    for function in (plain, to_thread):
        rows = AsyncHarness(function, **X, timeout="1 minute").run(ROWS)
        assert [row.y for row in rows] == [1, 2, 3]


def test_a_plain_function_that_hangs_is_given_up_by_the_real_clock():
    ended = threading.Event()

    def hang(row):
        ended.wait(20)

    try:
        with pytest.raises(pb.CallFailed, match="total timeout"):
            AsyncHarness(hang, **X, timeout="50 ms").run(ROWS[:1])
    finally:
        ended.set()


def test_the_clock_does_not_jump_while_a_connection_is_open():
    async def echo(reader, writer):
        await asyncio.sleep(0.05)
        writer.write(await reader.readline())
        writer.close()

    @asynccontextmanager
    async def server():
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as listening:
            yield listening.sockets[0].getsockname()

    async def call(row, address):
        reader, writer = await asyncio.open_connection(*address, family=socket.AF_INET)
        writer.write(f"{row.x}\n".encode())
        answer = int(await reader.readline())
        writer.close()
        await writer.wait_closed()
        return answer

    rows = AsyncHarness(call, **X, resource=server, timeout="1 minute").run(ROWS)
    assert [row.y for row in rows] == [1, 2, 3]


def test_a_call_that_nothing_will_wake_is_an_error_and_no_hang():
    async def wait(row):
        await asyncio.Event().wait()

    with pytest.raises(pb.WorkerFailed, match="NOTHING_CAN_HAPPEN"):
        AsyncHarness(wait, **X).run(ROWS)
    harness = AsyncHarness(wait, **X, timeout="9 hours", on_error="null")
    assert [row.y for row in harness.run(ROWS)] == [None] * 3


def test_a_thread_that_has_just_woken_the_loop_wakes_it_no_more():
    loop = VirtualLoop()
    looks = iter([True] * 3)
    loop.runs_threads = lambda: next(looks, False)
    with pytest.raises(pb.WorkerFailed, match="NOTHING_CAN_HAPPEN"):
        loop.run_until_complete(asyncio.Event().wait())
    loop.close()


def test_a_function_that_stops_the_loop_is_told():
    async def stop(row):
        asyncio.get_running_loop().stop()
        await asyncio.sleep(1)

    with pytest.raises(pb.WorkerFailed, match="FUNCTION_EXITED"):
        AsyncHarness(stop, **X).run(ROWS)


def test_it_runs_inside_a_running_loop_too():
    async def double(row):
        await asyncio.sleep(3600)
        return row.x * 2

    async def test():
        return AsyncHarness(double, **X).run(ROWS)

    assert [row.y for row in asyncio.run(test())] == [2, 4, 6]


def test_call_ids_are_the_same_in_attempts_and_in_a_further_run():
    seen = []

    async def call(row):
        seen.append(pb.call_id())
        if pb.current_call().attempt == 1:
            raise OSError

    harness = AsyncHarness(call, **X, retry=2, name="charge")
    harness.run(ROWS)
    first = sorted(seen)
    seen.clear()
    harness.run(ROWS)
    assert sorted(seen) == first
    assert len(set(first)) == 3


def test_rows_that_do_not_fit_the_schema_are_refused():
    async def call(row):
        return row.x

    with pytest.raises(pb.ResultTypeMismatch, match=r"INPUT_TYPE_MISMATCH.*column x"):
        AsyncHarness(call, **X).run([{"x": "one"}])


async def call(row):
    return row.x


@pytest.mark.parametrize(
    ("options", "problem", "named"),
    [
        ({"by": "x"}, pb.InvalidOption, "HARNESS_NEEDS_SPARK.*by"),
        ({"journal": "/tmp/j", "name": "n"}, pb.InvalidOption, "HARNESS_NEEDS_SPARK.*journal"),
        ({"call_key": "x"}, pb.InvalidOption, "CALL_KEY_WITHOUT_NAME"),
        ({"call_key": "z", "name": "n"}, pb.InvalidOption, "UNKNOWN_COLUMN"),
        (
            {"call_key": "m", "name": "n", "schema": "m map<int,int>"},
            pb.InvalidSchema,
            "NOT_COMPARABLE.*call_key",
        ),
        (
            {"limit": pb.Limit(per_second=1, key="c"), "schema": "c string collate UNICODE"},
            pb.InvalidSchema,
            "KEY_COLLATION",
        ),
        ({"share_calls": True}, pb.InvalidOption, "HARNESS_NEEDS_SPARK.*share_calls"),
        (
            {"limit": pb.Limit(concurrency=2, adaptive=True)},
            pb.InvalidOption,
            "HARNESS_NEEDS_SPARK.*adaptive",
        ),
        (
            {"limit": pb.Limit(per_day=2, unit="usd", scope="task"), "engine": "python"},
            pb.InvalidOption,
            "OPTION_NEEDS_JVM.*limit.unit",
        ),
        ({"limit": pb.Limit(concurrency=2), "engine": "python"}, pb.InvalidOption, "LIMIT_NEEDS"),
        ({"carry_over": True, "engine": "python"}, pb.InvalidOption, "OPTION_NEEDS_JVM"),
        ({"engine": "java"}, pb.InvalidOption, "engine"),
        ({"batch_size": 200}, pb.InvalidOption, "batch_size"),
        ({"retry": pb.Retry(2, on="java.io.IOException")}, pb.InvalidOption, r"retry\.on"),
        ({"inputs": "z"}, pb.InvalidOption, "UNKNOWN_COLUMN"),
        ({"inputs": ["x", "X"]}, pb.InvalidOption, "inputs must be .* several different ones"),
        ({"returns": "x bigint"}, pb.InvalidSchema, "OUTPUT_NAME_CLASH"),
        ({"returns": "y nothing"}, pb.InvalidSchema, r"INVALID_RETURNS\] returns must be a DDL"),
        ({"returns": "double"}, pb.InvalidSchema, "INVALID_RETURNS.*no named columns"),
        ({"returns": t.StructType()}, pb.InvalidSchema, "INVALID_RETURNS.*no named columns"),
        ({"returns": complex}, pb.InvalidSchema, "INVALID_RETURNS"),
        ({"schema": 5}, pb.InvalidSchema, "schema"),
        ({"max_concurrency": 5}, pb.InvalidOption, r"pb\.testing\.AsyncHarness.*pb\.Limit"),
        ({"rows": []}, pb.InvalidOption, r"run\(rows\)"),
    ],
)
def test_bad_options_are_refused_before_any_call(options, problem, named):
    with pytest.raises(problem, match=named):
        AsyncHarness(call, **{**X, **options})


@pytest.mark.parametrize(
    ("function", "problem", "named"),
    [
        (5, pb.InvalidFunction, "NOT_A_FUNCTION"),
        (lambda: 1, pb.InvalidFunction, "WRONG_PARAMETERS"),
        (pb.JvmFunction("com.acme.Enrich"), pb.InvalidOption, "HARNESS_NEEDS_SPARK.*JvmFunction"),
    ],
)
def test_what_is_no_function_of_python_is_refused(function, problem, named):
    with pytest.raises(problem, match=named):
        AsyncHarness(function, **X)


def test_a_call_key_and_a_limit_of_what_calls_use_are_taken_and_hold_nothing_back():
    async def asks(row):
        pb.current_call().report_usage(tokens=1000)
        return asyncio.get_running_loop().time()

    harness = AsyncHarness(
        asks, schema="x bigint", returns="at double", call_key="x", name="n", call_column="call",
        limit=[pb.Limit(per_minute=1, unit="tokens"), pb.Limit(per_second=2)],
    )  # fmt: skip
    rows = harness.run([{"x": 1}, {"x": 2}])
    assert [(row.at, row.call.usage) for row in rows] == [
        (0.0, {"tokens": 1000.0}), (0.5, {"tokens": 1000.0}),
    ]  # fmt: skip


def test_carry_over_has_no_effect_as_on_a_batch():
    assert AsyncHarness(call, **X, carry_over=True).run(ROWS[:1]) == [Row(x=1, y=1)]


def test_a_deadline_that_comes_in_a_pause_names_the_attempt_that_the_pause_ended():
    async def paused(row):
        raise pb.RetryAfter(100, all=True)

    limit = pb.Limit(concurrency=1)
    harness = AsyncHarness(paused, **X, limit=limit, timeout="5s", on_error="column")
    (row,) = harness.run(ROWS[:1])
    assert (row.error.kind, row.error.attempts) == ("TIMEOUT", 1)
    assert "since the first attempt, in attempt 1. Raise" in row.error.message


def test_a_call_may_wait_for_years():
    async def call(row):
        await asyncio.sleep(40_000_000)
        return row.x

    assert [row.y for row in AsyncHarness(call, **X, timeout=None).run(ROWS)] == [1, 2, 3]
