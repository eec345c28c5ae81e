"""The runner of calls, on an event loop of the test."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

from pyspark.sql import types as t
from virtual_clock import run_virtually

from pillarbox._async.command import Command
from pillarbox._async.runner import CallRunner
from pillarbox._metered.calls import CallSite

X = t.StructType().add("x", "long")


class Outcomes:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def completed(self, element_id: int, attempt: int, answer: Any) -> None:
        self.told.append((element_id, answer))

    def failed(self, element_id: int, attempt: int, failure: Any) -> None:
        self.told.append((element_id, failure.kind))

    def exited(self, problem: BaseException) -> None:
        raise problem


def runner_for(function: Any) -> tuple[CallRunner, Outcomes]:
    outcomes = Outcomes()
    command = Command(function, True, False, None, None, X, X, "test")
    return CallRunner(command, None, outcomes, site=CallSite("test"), max_threads=1), outcomes


def test_a_call_cancelled_before_it_began_leaves_nothing_behind():
    async def hang(row):
        await asyncio.Event().wait()

    async def scenario():
        runner, outcomes = runner_for(hang)
        for element in range(100):
            runner.call(element, 1, None, "p-1")
            runner.cancel([(element, 1)])
        await asyncio.sleep(1)
        assert not runner._tasks
        assert not runner._unwinding
        assert not runner._live
        assert outcomes.told == []

    run_virtually(scenario())


def test_what_a_thread_raises_while_calls_are_ended_is_nobodys():
    begun, go_on, unheard = threading.Event(), threading.Event(), []

    def late(row):
        begun.set()
        go_on.wait(20)
        raise ValueError("late")

    async def scenario():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unheard.append(context))
        command = Command(late, False, False, None, None, X, X, "test")
        runner = CallRunner(command, None, Outcomes(), site=CallSite("test"), max_threads=1)
        runner.call(0, 1, None, "p-0")
        await loop.run_in_executor(None, begun.wait)
        loop.call_soon(go_on.set)  # in the turn of the loop in which drain waits
        assert await runner.drain(20)

    asyncio.run(scenario())
    gc.collect()
    assert unheard == []


def test_a_new_call_does_not_begin_before_a_cancelled_one_had_its_turn_to_stop():
    events = []

    async def call(row):
        events.append(f"begin {row}")
        try:
            await asyncio.sleep(10)
        finally:
            events.append(f"stop {row}")

    async def scenario():
        runner, _ = runner_for(call)
        runner.call(0, 1, "a", "p-0")
        await asyncio.sleep(1)
        runner.cancel([(0, 1)])
        runner.call(1, 1, "b", "p-1")
        await asyncio.sleep(1)
        assert events == ["begin a", "stop a", "begin b"]
        assert await runner.drain(1)
        assert events[-1] == "stop b"

    run_virtually(scenario())
