"""Whatever a function raises, returns or does to its surroundings: each row is told of, at once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import decimal
import sys
import threading
import time
from contextvars import ContextVar

import pyarrow as pa
import pytest

import pillarbox as pb
from pillarbox._arrow.results import ResultEncoder
from spark_support import eventually
from worker.driver import names_of

# Functions that are sent travel by value, what they reach through this module by reference.
STATE: dict[str, object] = {}
VAR: ContextVar[str] = ContextVar("seen", default="nothing")


def shared(name: str):
    return STATE[name]


@pytest.fixture(autouse=True)
def latches():
    STATE.clear()
    STATE.update(open=threading.Event(), reached=threading.Event(), seen=[], var=VAR)
    yield
    STATE["open"].set()


async def double(row):
    return row.x * 2


class Whim(BaseException):
    pass


class NoStr(Exception):
    def __str__(self):
        raise GeneratorExit


class NoRepr(Exception):
    def __repr__(self):
        raise Whim


class NoNotes(Exception):
    @property
    def __notes__(self):
        raise Whim

    @property
    def __cause__(self):
        raise Whim


class MutedExit(Exception):
    def __str__(self):
        sys.exit(5)


ODD = {
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "concurrent": concurrent.futures.CancelledError,
    "Whim": Whim,
    "NoStr": NoStr,
    "NoRepr": NoRepr,
    "NoNotes": NoNotes,
    "MutedExit": MutedExit,
    "surrogate": lambda: ValueError("a \ud800 b"),
    "group": lambda: KeyError(*[ValueError(str(i)) for i in range(3)]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("form", ["coroutine", "after an await", "thread", "batch"])
def test_what_a_function_raises_fails_its_own_row_whatever_it_is(worker, name, form):
    async def at_once(row):
        if row.x == 1:
            raise ODD[name]()
        return row.x

    async def later(row):
        await asyncio.sleep(0)
        return await at_once(row)

    def in_thread(row):
        if row.x == 1:
            raise ODD[name]()
        return row.x

    async def batch(rows):
        return [await at_once(row) for row in rows]

    functions = {"coroutine": at_once, "after an await": later, "thread": in_thread, "batch": batch}
    worker.start(functions[form], batch_size=1 if form == "batch" else None)
    for x in range(3):
        (worker.group if form == "batch" else worker.call)(x, ids=[x])
    outcomes = worker.collect(3)
    assert (outcomes[0], outcomes[2]) == ([(0,)], [(2,)])
    kind = type(ODD[name]()).__name__
    assert outcomes[1]["kind"] == kind
    assert outcomes[1]["message"]
    assert worker.end()


class Fickle(list):
    """Gives fewer items than it counts, or raises."""

    def __iter__(self):
        if self[0] == 0:
            raise GeneratorExit
        return iter(())


@pytest.mark.parametrize(("first", "kind"), [(0, "GeneratorExit"), (1, "RESULT_SHAPE_MISMATCH")])
def test_a_list_of_answers_that_cannot_be_read_fails_its_group_only(worker, first, kind):
    async def batch(rows):
        return Fickle([first, 2]) if rows[0].x == 1 else [row.x for row in rows]

    worker.start(batch, batch_size=2)
    worker.group(1, 2, ids=[1, 2])
    worker.group(3, 4, ids=[3, 4])
    outcomes = worker.collect(4)
    assert (outcomes[1]["kind"], outcomes[2]["kind"]) == (kind, kind)
    assert (outcomes[3], outcomes[4]) == ([(3,)], [(4,)])


def test_a_message_that_cannot_be_made_says_so(worker):
    async def fails(row):
        raise NoStr

    worker.start(fails)
    worker.call(1)
    failure = worker.collect(1)[0]
    assert failure["message"] == "NoStr (its __str__ raised GeneratorExit)"
    assert "in fails" in failure["traceback"]


def test_a_long_message_is_cut_in_the_middle_and_says_by_how_much(worker):
    async def fails(row):
        raise ValueError("begin " + "x" * 20_000_000 + " end")

    worker.start(fails)
    worker.call(1)
    failure = worker.collect(1)[0]
    assert len(failure["message"]) < 11_000
    assert len(failure["traceback"]) < 31_000
    assert failure["message"].startswith("begin xxx")
    assert failure["message"].endswith("xxx end")
    assert "19,990,010 characters are left out" in failure["message"]
    assert "in fails" in failure["traceback"]


def test_text_that_is_no_unicode_is_shown_by_its_codes(worker):
    async def fails(row):
        raise ValueError("a \ud800 b")

    worker.start(fails)
    worker.call(1)
    failure = worker.collect(1)[0]
    assert failure["message"] == "a \\ud800 b"
    assert "a \\ud800 b" in failure["traceback"]


@pytest.mark.parametrize("problem", [GeneratorExit, Whim, NoStr])
def test_a_predicate_may_raise_anything_too(worker, problem):
    def raises(_):
        raise problem

    async def fails(row):
        raise ValueError("first")

    worker.start(fails, retry=pb.Retry(3, on=raises))
    worker.call(1)
    failure = worker.collect(1)[0]
    assert (failure["kind"], failure["retryable"]) == (problem.__name__, False)
    assert "ValueError: first" in failure["traceback"]
    assert worker.end()
    worker.start(double, retry=pb.Retry(3, if_result=raises))
    worker.call(1)
    assert worker.collect(1)[0]["kind"] == problem.__name__


@pytest.mark.parametrize("option", ["on", "if_result"])
def test_a_predicate_that_exits_is_fatal(worker, option):
    async def answers_or_fails(row):
        if option == "on":
            raise ValueError("first")
        return 1

    worker.start(answers_or_fails, retry=pb.Retry(3, **{option: lambda _: sys.exit(3)}))
    worker.call(1)
    kind, fatal = worker.receive()
    assert (kind, fatal["kind"]) == ("T", "SystemExit")
    assert worker.join() == -1


def test_cancelling_all_tasks_fails_those_rows_and_not_the_next_ones(worker):
    async def cancels_all(row):
        if row.x == 49:
            for task in asyncio.all_tasks():
                task.cancel()
        await asyncio.sleep(3600 if row.x < 50 else 0)
        return row.x

    worker.start(cancels_all)
    worker.call(*range(50))
    assert [one["kind"] for one in worker.collect(50).values()] == ["CancelledError"] * 50
    worker.call(51, ids=[51])
    assert worker.collect(1) == {51: [(51,)]}
    assert worker.end()


def test_a_call_that_another_one_cancelled_before_it_began_is_told_of(worker):
    async def slow(row):
        if row.x == 0:
            shared("seen").append(asyncio.all_tasks())
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
        shared("seen").append(row.x)
        return row.x

    worker.start(slow)
    # A cancelled call that still unwinds makes the next ones wait for a turn of the loop.
    worker.call(*range(20))
    outcomes = worker.collect(20)
    assert outcomes[0] == [(0,)]
    told = [o for o in outcomes.values() if isinstance(o, dict)]
    assert all(one["kind"] == "CancelledError" for one in told)
    assert len(told) + len([x for x in shared("seen") if isinstance(x, int)]) == 20


@pytest.mark.parametrize("where", ["call", "callback"])
def test_stopping_the_loop_is_fatal_and_says_so(worker, where):
    async def stops(row):
        loop = asyncio.get_running_loop()
        if where == "call":
            loop.stop()
        else:
            loop.call_later(0.001, loop.stop)
        await asyncio.sleep(3600)

    worker.start(stops)
    worker.call(1)
    kind, fatal = worker.receive()
    assert (kind, fatal["condition"]) == ("T", "FUNCTION_EXITED")
    assert "loop.stop()" in fatal["text"]
    assert worker.join() == -1


def test_a_call_that_cancels_all_tasks_when_it_is_cancelled_does_not_hold_the_end(worker):
    async def vengeful(row):
        try:
            shared("reached").set()
            await asyncio.sleep(3600)
        finally:
            for task in asyncio.all_tasks():
                task.cancel()

    worker.start(vengeful)
    worker.call(1)
    assert shared("reached").wait(20)
    assert worker.end() in (True, False)


def test_what_goes_wrong_beside_the_answers_is_fatal_at_once_with_its_traceback(
    worker, monkeypatch
):
    def breaks(self, answers):
        if answers:
            raise MemoryError("while a frame was made")
        return whole(self, answers)

    whole = ResultEncoder.encode
    monkeypatch.setattr(ResultEncoder, "encode", breaks)
    worker.start(double)
    worker.call(1)
    kind, fatal = worker.receive()
    assert (kind, fatal["kind"], fatal["message"]) == ("T", "MemoryError", "while a frame was made")
    assert "in breaks" in fatal["traceback"]
    assert worker.join() == -1


def unreadable(data: bytes, *others: bytes) -> pa.Array:
    """A string column whose bytes are no UTF-8, as Spark lets through."""
    binary = pa.array([data, *others], pa.binary())
    return pa.Array.from_buffers(pa.string(), len(binary), binary.buffers())


def send_strings(worker, kind: bytes, *values: bytes) -> None:
    rows = pa.RecordBatch.from_arrays([unreadable(*values)], schema=worker._input)
    ids = b"".join(i.to_bytes(8, "little") for i in range(len(values)))
    head = len(values).to_bytes(4, "little") + ids + (1).to_bytes(4, "little") * len(values)
    worker.send(kind, head + names_of(range(len(values))) + rows.serialize().to_pybytes())


def test_a_row_that_python_cannot_represent_fails_alone_and_is_not_called(worker):
    async def length(row):
        shared("seen").append(row.s)
        return len(row.s)

    worker.start(length, "y long", "s string", retry=pb.Retry(3))
    send_strings(worker, b"C", b"abc", b"\xff\xfe", b"", b"\xc3(")
    outcomes = worker.collect(4)
    assert (outcomes[0], outcomes[2]) == ([(3,)], [(0,)])
    assert shared("seen") == ["abc", ""]
    for bad in (outcomes[1], outcomes[3]):
        assert (bad["kind"], bad["retryable"]) == ("INPUT_NOT_READABLE", False)
        assert "its column s, a string" in bad["message"]
        assert "UnicodeDecodeError" in bad["message"]
    assert worker.end()


def test_a_group_is_called_without_the_rows_that_python_cannot_represent(worker):
    async def lengths(rows):
        return [len(row.s) for row in rows]

    worker.start(lengths, "y long", "s string", batch_size=3)
    send_strings(worker, b"G", b"abc", b"\xff", b"de")
    outcomes = worker.collect(3)
    assert (outcomes[0], outcomes[2]) == ([(3,)], [(2,)])
    assert outcomes[1]["kind"] == "INPUT_NOT_READABLE"
    send_strings(worker, b"G", b"\xff", b"\xfe")
    assert {one["kind"] for one in worker.collect(2).values()} == {"INPUT_NOT_READABLE"}
    assert worker.end()


def test_no_call_sees_the_context_variables_of_another(worker):
    async def sets(row):
        before = shared("var").get()
        shared("var").set(f"row {row.x}")
        await asyncio.sleep(0)
        return f"{before} {shared('var').get()}"

    worker.start(sets, "y string", ordered=False, capacity=2, look_ahead=50)
    worker.call(*range(50))
    assert worker.collect(50) == {x: [(f"nothing row {x}",)] for x in range(50)}
    assert worker.end()


def test_calls_start_with_the_context_that_the_resource_has_set(worker):
    class Client:
        async def __aenter__(self):
            shared("var").set("opened")
            decimal.getcontext().prec = 7

        async def __aexit__(self, *error):
            shared("seen").append((shared("var").get(), decimal.getcontext().prec))

    async def use(row, client):
        before = f"{shared('var').get()} {decimal.getcontext().prec}"
        shared("var").set("changed")
        decimal.getcontext().prec = 2 + row.x
        await asyncio.sleep(0)
        return f"{before} {decimal.getcontext().prec}"

    def in_thread(row, client):
        before = f"{shared('var').get()} {decimal.getcontext().prec}"
        decimal.getcontext().prec = 2 + row.x
        return f"{before} {decimal.getcontext().prec}"

    for function in (use, in_thread):
        for _ in range(2):
            worker.start(function, "y string", resource=Client)
            worker.call(*range(9))
            assert worker.collect(9) == {x: [(f"opened 7 {2 + x}",)] for x in range(9)}
            assert worker.end()
    worker.close()
    assert shared("seen") == [("opened", 7)] * 2


def test_a_decimal_context_that_one_call_changes_is_its_own(worker):
    async def precise(row):
        decimal.getcontext().prec = 3 + row.x
        await asyncio.sleep(0)
        return str(decimal.Decimal(1) / 3)

    decimal.getcontext()  # the thread that serves the worker has one, which calls would share
    worker.start(precise, "y string")
    worker.call(*range(5))
    assert worker.collect(5) == {x: [("0." + "3" * (3 + x),)] for x in range(5)}
    assert worker.end()


def test_threads_that_hang_after_they_were_given_up_are_replaced(worker):
    def first_hang(row):
        if row.x < 4:
            shared("open").wait(20)
        return row.x

    worker.start(first_hang, capacity=4)
    worker.call(0, 1, 2, 3)
    worker.cancel(0, 1, 2, 3)
    for x in range(4, 100):
        worker.call(x, ids=[x])
        assert worker.collect(1) == {x: [(x,)]}
    shared("open").set()
    worker.call(100, ids=[100])
    assert worker.collect(1) == {100: [(100,)]}
    assert worker.end()


def test_at_most_as_many_threads_are_replaced_as_there_may_be_calls(worker, capfd):
    def hangs(row):
        shared("seen").append(row.x)
        if row.x < 6:
            shared("open").wait(20)
        return row.x

    def running(count):
        eventually(lambda: len(shared("seen")) == count, f"{count} calls to run")

    worker.start(hangs, capacity=3)
    worker.call(0, 1, 2)
    running(3)
    worker.cancel(0, 1, 2)
    worker.call(3, 4, 5, ids=[3, 4, 5])
    running(6)
    worker.cancel(3)
    worker.call(6, ids=[6])
    told = ""

    def was_told():
        nonlocal told
        told += capfd.readouterr().err
        return "3 threads still run calls that were given up" in told

    eventually(was_told, "a word about the threads")
    assert 6 not in shared("seen")
    shared("open").set()
    assert worker.collect(3) == {4: [(4,)], 5: [(5,)], 6: [(6,)]}
    assert worker.end()


@pytest.mark.parametrize("when", ["before the first await", "woken by one event"])
def test_many_calls_that_compute_for_a_moment_are_no_blocked_loop(process, when):
    woken = asyncio.Event()
    first = when == "before the first await"

    async def computes(row):
        if row.x == 119:
            woken.set()
        if not first:
            await woken.wait()
        end = time.perf_counter() + 0.01
        while time.perf_counter() < end:
            pass
        return row.x

    process.start(computes, blocked_loop_ms=300, capacity=120)
    process.call(*range(120))  # 1.2 s of computing, in steps of 10 ms
    assert len(process.collect(120)) == 120
    assert process.end()


def test_one_step_that_takes_too_long_among_many_short_ones_is_a_blocked_loop(process):
    async def computes(row):
        end = time.perf_counter() + (3600 if row.x == 60 else 0.01)
        while time.perf_counter() < end:
            pass
        return row.x

    process.start(computes, blocked_loop_ms=300, capacity=120)
    process.call(*range(120))
    kind, body = process.receive()
    while kind == "R":
        kind, body = process.receive()
    assert (kind, body["kind"]) == ("T", "EVENT_LOOP_BLOCKED")
    assert "in computes" in body["message"]


def test_many_answers_at_once_travel_in_frames_of_bounded_size(worker):
    async def together(row):
        if row.x == 4999:
            woken.set()
        await woken.wait()
        return row.x

    woken = asyncio.Event()
    worker.start(together, capacity=5000)
    worker.call(*range(5000))
    sizes, outcomes = [], {}
    while len(outcomes) < 5000:
        kind, body = worker.receive()
        assert kind == "R"
        sizes.append(len(body))
        outcomes.update({element: answer for element, _, answer in body})
    assert outcomes == {x: [(x,)] for x in range(5000)}
    assert max(sizes) == 1024


def test_a_worker_whose_calls_will_not_stop_ends_without_a_word_about_them(process):
    async def stubborn(row):
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    process.start(stubborn)
    process.call(*range(5))
    process.socket.shutdown(2)
    code, stderr = process.join()
    assert code != 0
    assert "Task was destroyed" not in stderr
    assert stderr == ""
