"""Runs calls of the user's function: a coroutine each, or a thread of the pool each."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

from .._calls import CURRENT, Call, Group
from .._failures import Failure, describe, refused_result
from .._functions import Command
from ..errors import error, shown

MOST_THREADS = 512


class Outcomes(Protocol):
    """Told how calls end, on the event loop, once for each element that was not cancelled."""

    def completed(self, element_id: int, attempt: int, answer: Any) -> None: ...

    def failed(self, element_id: int, attempt: int, failure: Failure) -> None: ...

    def exited(self, problem: BaseException) -> None:
        """The function asked the process to end (``sys.exit``, KeyboardInterrupt)."""


class CallRunner:
    """All methods belong to the thread of the running event loop.

    ``prefix`` starts every call id. ``max_threads`` bounds the pool of a plain function.
    """

    def __init__(
        self,
        command: Command,
        resource: Any,
        outcomes: Outcomes,
        *,
        prefix: str,
        max_threads: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._outcomes = outcomes
        self._prefix = prefix
        self._retry = command.retry
        self._refuses = command.retry.retry_if_result if command.retry else None
        self._last_attempt = command.retry.max_attempts if command.retry else 1
        self._live: dict[tuple[int, int], Call] = {}
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._unwinding: set[asyncio.Task[None]] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._threads: set[Future[Any]] = set()
        self._invoke = self._invoker(command, resource, max_threads)

    def _invoker(
        self, command: Command, resource: Any, max_threads: int
    ) -> Callable[[Any], Awaitable[Any]]:
        function = command.function
        if command.resource is not None:
            function = _with_resource(function, resource)
        if command.is_async:
            return function
        self._pool = ThreadPoolExecutor(max_threads, "pillarbox-call")
        return functools.partial(self._in_thread, self._pool, function)

    async def _in_thread(
        self, pool: ThreadPoolExecutor, function: Callable[[Any], Any], argument: Any
    ) -> Any:
        context = contextvars.copy_context()
        thread = pool.submit(context.run, _in_pool, function, argument)
        self._threads.add(thread)
        thread.add_done_callback(self._threads.discard)
        answer = await asyncio.wrap_future(thread)
        # A decorator may hide that a function is a coroutine function.
        return await answer if inspect.isawaitable(answer) else answer

    def call(self, element_id: int, attempt: int, row: Any) -> None:
        """Starts one attempt for one element."""
        call = Call(self._prefix, (element_id,), (attempt,))
        self._live[element_id, attempt] = call
        self._start(call, self._run(call, row))

    def group(self, ids: Sequence[int], attempts: Sequence[int], rows: list[Any]) -> None:
        """Starts one call of the batch form for all of ``rows``."""
        call = Group(self._prefix, tuple(ids), tuple(attempts))
        for key in zip(ids, attempts, strict=True):
            self._live[key] = call
        self._start(call, self._run_group(call, rows))

    def _start(self, call: Call, coroutine: Any) -> None:
        # At once, unless a cancelled call has still to make room for it.
        start = _plain_task if self._unwinding else _new_task
        task = start(coroutine, self._loop)
        if not task.done():
            self._tasks[call] = task

    def cancel(self, keys: Iterable[tuple[int, int]]) -> None:
        """Abandons elements (id, attempt): no outcome is told for them from now on.

        A coroutine is cancelled once all its elements are; a thread runs to its end, unheard.
        """
        for key in keys:
            call = self._live.pop(key, None)
            if call is None:
                continue
            call.pending -= 1
            if call.pending == 0:
                call.cancelled = True
                self._cancel_task(self._tasks.pop(call, None))

    def _cancel_task(self, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            task.cancel()
            self._unwinding.add(task)
            # Not left to the coroutine: one that never began has no chance to clean up.
            task.add_done_callback(self._unwinding.discard)

    async def drain(self, limit_s: float) -> bool:
        """Cancels all calls and waits up to ``limit_s``; whether everything has stopped."""
        self.cancel(list(self._live))
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        waiting: list[asyncio.Future[Any]] = list(self._unwinding)
        waiting += [asyncio.wrap_future(thread) for thread in list(self._threads)]
        if not waiting:
            return True
        _, running = await asyncio.wait(waiting, timeout=limit_s)
        return not running

    async def _run(self, call: Call, row: Any) -> None:
        CURRENT.set(call)
        try:
            answer = await self._invoke(row)
        except BaseException as problem:
            self._problem(call, problem)
        else:
            self._answer(call, 0, answer)
        finally:
            self._tasks.pop(call, None)

    async def _run_group(self, call: Call, rows: list[Any]) -> None:
        CURRENT.set(call)
        try:
            answers = await self._invoke(rows)
            self._check_group(answers, len(rows))
        except BaseException as problem:
            self._problem(call, problem)
        else:
            for index, answer in enumerate(answers):
                self._answer(call, index, answer)
        finally:
            self._tasks.pop(call, None)

    def _check_group(self, answers: Any, expected: int) -> None:
        if isinstance(answers, list) and len(answers) == expected:
            return
        size = f" of {len(answers)}" if isinstance(answers, list) else ""
        raise error(
            "RESULT_SHAPE_MISMATCH",
            expected=f"a list of {expected} results, one a row, in the order of the rows",
            value=shown(answers),
            found=type(answers).__name__ + size,
            advice="With batch_size, use None for a row without a match.",
        )

    def _answer(self, call: Call, index: int, answer: Any) -> None:
        key = call.ids[index], call.attempts[index]
        if self._live.get(key) is not call:
            return
        if self._refuses is not None and key[1] < self._last_attempt:
            refusal = self._refusal(answer)
            if refusal is not None:
                self._fail(call, index, refusal)
                return
        del self._live[key]
        self._outcomes.completed(*key, answer)

    def _problem(self, call: Call, problem: BaseException) -> None:
        if isinstance(problem, GeneratorExit):
            raise problem  # the interpreter is closing the coroutine
        if isinstance(problem, (SystemExit, KeyboardInterrupt)):
            self._outcomes.exited(problem)
            return
        if call.cancelled:
            return
        failure = self._described(problem)
        for index in range(len(call.ids)):
            self._fail(call, index, failure)

    def _refusal(self, answer: Any) -> Failure | None:
        assert self._refuses is not None
        try:
            return refused_result(shown(answer)) if self._refuses(answer) else None
        except Exception as broken:
            return replace(describe(broken, None), retryable=False)

    def _described(self, problem: BaseException) -> Failure:
        try:
            return describe(problem, self._retry)
        except Exception as broken:  # of the predicate retry_on
            broken.__cause__ = problem
            return replace(describe(broken, None), retryable=False)

    def _fail(self, call: Call, index: int, failure: Failure) -> None:
        key = call.ids[index], call.attempts[index]
        if self._live.get(key) is call:
            del self._live[key]
            self._outcomes.failed(*key, failure)


def _in_pool(function: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return function(argument)
    except StopIteration as stop:
        # A future can't carry it; in a coroutine Python itself does the same.
        raise RuntimeError("the function raised StopIteration") from stop


def _with_resource(function: Callable[..., Any], resource: Any) -> Callable[[Any], Any]:
    return lambda argument: function(argument, resource)


def _plain_task(coroutine: Any, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
    return asyncio.Task(coroutine, loop=loop)


def _eager_task(coroutine: Any, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
    # Eager for our own calls only: tasks that the user's code makes keep asyncio's order.
    return asyncio.Task(coroutine, loop=loop, eager_start=True)  # type: ignore[call-arg]


_new_task = _eager_task if hasattr(asyncio, "eager_task_factory") else _plain_task
