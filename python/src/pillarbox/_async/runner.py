"""Runs calls of the user's function, each in a coroutine or in a thread of the pool."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import decimal
import functools
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from .._arrow.fields import names_in
from .._arrow.rows import Unreadable
from .._base.failures import Failure
from .._base.values import shown_value
from .._metered.calls import CURRENT, CallSite, Feedback, Name, RunningCall
from ..errors import EXITS, error
from .call_context import CallContext
from .command import Command
from .failed_attempts import describe, refused_result
from .threads import CallThreads


class Outcomes(Protocol):
    """The receiver of outcomes, on the event loop, once for each element that was not cancelled."""

    def completed(self, element_id: int, attempt: int, answer: Any) -> None: ...

    def failed(self, element_id: int, attempt: int, failure: Failure) -> None: ...

    def used(self, call: RunningCall, unit: str, amounts: Sequence[float]) -> None:
        """Called, before its outcome, with what the rows of a call have used of a unit.

        What is reported later comes later.
        """

    def told(self, call: RunningCall, told: Feedback) -> None:
        """Called, before its outcome, with what the service has said of the operator's limits."""

    def noted(self, kind: str, text: str) -> None:
        """Called with what was wrong with a report of a call, which is to be said once."""

    def exited(self, problem: BaseException) -> None:
        """Called if the function asked the process to end, or if reporting an outcome failed."""


class CallRunner:
    """The calls of a task. All methods belong to the thread of the running event loop.

    ``max_threads`` bounds the pool of a plain function. Each call starts in a copy of
    ``call_context``, by default the context in which the runner is made.
    """

    _group_type = RunningCall

    def __init__(
        self,
        command: Command,
        resource: Any,
        outcomes: Outcomes,
        *,
        site: CallSite,
        max_threads: int,
        call_context: CallContext | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._outcomes = outcomes
        self._thread = threading.get_ident()
        self.site = dataclasses.replace(site, used=self._used, told=self._told, noted=self._noted)
        self._retry, self._has_limits = command.retry, command.has_limits
        self._refuses = command.retry.if_result if command.retry else None
        self._returned = names_in(command.returns)
        self._last_attempt = command.retry.max_attempts if command.retry else 1
        call_context = call_context or CallContext()
        self._context, self._decimals = call_context.context, call_context.decimals
        self._live: dict[tuple[int, int], RunningCall] = {}
        self._tasks: dict[RunningCall, asyncio.Task[None]] = {}
        self._unwinding: set[asyncio.Task[None]] = set()
        self._pool: CallThreads | None = None
        self._threads: set[Future[Any]] = set()
        self._on_lost = self._lost
        self._invoke = self._invoker(command, resource, max_threads)

    def _invoker(
        self, command: Command, resource: Any, max_threads: int
    ) -> Callable[[Any], Awaitable[Any]]:
        return self._bound(command.function, command.is_async, command, resource, max_threads)

    def _bound(
        self,
        function: Callable[..., Any],
        is_async: bool,
        command: Command,
        resource: Any,
        max_threads: int,
    ) -> Callable[[Any], Awaitable[Any]]:
        if command.resource is not None:
            function = _with_resource(function, resource)
        if is_async:
            return function
        if self._pool is None:
            self._pool = CallThreads(max_threads)
        return functools.partial(self._in_thread, self._pool, function)

    async def _in_thread(
        self, pool: CallThreads, function: Callable[[Any], Any], argument: Any
    ) -> Any:
        context = contextvars.copy_context()
        thread = pool.submit(functools.partial(context.run, function, argument))
        self._threads.add(thread)
        ended = asyncio.wrap_future(thread)
        thread.add_done_callback(self._threads.discard)  # after it has woken the loop
        try:
            answer = await ended
        except asyncio.CancelledError:
            pool.abandon(thread)
            raise
        # A decorator may hide that a function is a coroutine function.
        return await answer if inspect.isawaitable(answer) else answer

    def call(self, element_id: int, attempt: int, row: Any, name: Name) -> None:
        """Start one attempt for one element. A row that could not be read fails at once."""
        if type(row) is Unreadable:
            self._outcomes.failed(element_id, attempt, row.failure)
            return
        call = RunningCall(self.site, (element_id,), (attempt,), (name,))
        self._live[element_id, attempt] = call
        self._start(call, self._run(call, row))

    def group(
        self, ids: Sequence[int], attempts: Sequence[int], rows: list[Any], names: Sequence[Name]
    ) -> None:
        """Start one call of the batch form for those of ``rows`` that could be read."""
        calls = list(zip(ids, attempts, rows, names, strict=True))
        if any(type(row) is Unreadable for row in rows):
            calls = list(filter(self._is_readable, calls))
            if not calls:
                return
        elements, tries, read, known = zip(*calls, strict=True)
        call = self._group_type(self.site, elements, tries, known, is_group=True)
        for key in zip(elements, tries, strict=True):
            self._live[key] = call
        self._start(call, self._run(call, list(read)))

    def _is_readable(self, call: tuple[int, int, Any, Name]) -> bool:
        """Fail the call of a row that could not be read."""
        element_id, attempt, row, _ = call
        if isinstance(row, Unreadable):
            self._outcomes.failed(element_id, attempt, row.failure)
            return False
        return True

    def _start(self, call: RunningCall, coroutine: Any) -> None:
        # It starts eagerly, unless a cancelled call must unwind first to make room for it.
        start = _plain_task if self._unwinding else _new_task
        task = start(coroutine, self._loop, self._context.copy())
        if not task.done():
            task.call, task.lost = call, self._on_lost
            self._tasks[call] = task

    def _lost(self, call: RunningCall) -> None:
        """Fail a call that the function has cancelled before it began."""
        self._tasks.pop(call, None)
        self._problem(call, asyncio.CancelledError("cancelled before it began"))

    def cancel(self, keys: Iterable[tuple[int, int]]) -> None:
        """Abandon elements (id, attempt), whose outcomes are not reported from now on.

        A coroutine is cancelled with the last of its elements; a thread runs to its end.
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
            # A coroutine that never began can't do this itself.
            task.add_done_callback(self._unwinding.discard)

    def runs_threads(self) -> bool:
        """Return True while a thread runs a call, or has yet to begin it."""
        return bool(self._threads)

    async def drain(self, limit_s: float) -> bool:
        """Cancel all calls and wait up to ``limit_s``. Return True if everything has stopped."""
        self.cancel(list(self._live))
        if self._pool is not None:
            self._pool.shutdown()
        waiting: list[asyncio.Future[Any]] = list(self._unwinding)
        waiting += [asyncio.wrap_future(thread) for thread in list(self._threads)]
        if not waiting:
            return True
        ended, running = await asyncio.wait(waiting, timeout=limit_s)
        for one in ended:
            if not one.cancelled():
                one.exception()  # else asyncio logs one that nobody has asked for
        return not running

    async def _run(self, call: RunningCall, argument: Any) -> None:
        CURRENT.set(call)
        if self._decimals is not None:
            decimal.setcontext(self._decimals.copy())
        try:
            answer = await self._invoke(argument)
            answers = self._checked(answer, len(argument)) if call.is_group else (answer,)
        except BaseException as problem:
            self._problem(call, problem)
        else:
            self._answers(call, answers)
        finally:
            call.has_ended = True
            self._tasks.pop(call, None)

    def _used(self, call: RunningCall, unit: str, amounts: Sequence[float]) -> None:
        self._tell(self._outcomes.used, call, unit, amounts)

    def _told(self, call: RunningCall, told: Feedback) -> None:
        self._tell(self._outcomes.told, call, told)

    def _noted(self, kind: str, text: str) -> None:
        self._tell(self._outcomes.noted, kind, text)

    def _tell(self, tell: Callable[..., None], *arguments: Any) -> None:
        # At once on this thread, since the outcome of the call may leave in this turn of the loop.
        if threading.get_ident() == self._thread:
            tell(*arguments)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(tell, *arguments)

    def _checked(self, answers: Any, expected: int) -> list[Any]:
        if isinstance(answers, list):
            # A class derived from list may give others than it counts.
            plain: list[Any] = answers if type(answers) is list else [*answers]
            if len(plain) == expected:
                return plain
        size = f" of {len(answers)}" if isinstance(answers, list) else ""
        raise error(
            "RESULT_SHAPE_MISMATCH",
            expected=f"a list of {expected} results, one a row, in the order of the rows",
            value=shown_value(answers, self._returned),
            found=type(answers).__name__ + size,
            advice="With batch_size, use None for a row without a match.",
        )

    def _answers(self, call: RunningCall, answers: Sequence[Any]) -> None:
        live, completed = self._live, self._outcomes.completed
        try:
            for element_id, attempt, answer in zip(
                call.elements, call.attempts, answers, strict=True
            ):
                key = element_id, attempt
                if live.get(key) is not call:
                    continue
                if call.is_group and issubclass(type(answer), BaseException):
                    self._fail(call, key, self._failure(answer))
                elif not self._is_refused(call, key, answer):
                    del live[key]
                    completed(element_id, attempt, answer)
        except BaseException as problem:
            self._outcomes.exited(problem)

    def _is_refused(self, call: RunningCall, key: tuple[int, int], answer: Any) -> bool:
        if self._refuses is None or key[1] >= self._last_attempt:
            return False
        refusal = refused_result(answer, self._refuses, self._returned)
        if refusal is not None:
            self._fail(call, key, refusal)
        return refusal is not None

    def _problem(self, call: RunningCall, problem: BaseException) -> None:
        """Report any exception of the function, so that nobody waits for ever."""
        try:
            if isinstance(problem, EXITS) or not (call.cancelled or self._loop.is_closed()):
                failure = self._failure(problem)
                for key in zip(call.elements, call.attempts, strict=True):
                    self._fail(call, key, failure)
        except BaseException as broken:
            self._outcomes.exited(broken)

    def _failure(self, problem: BaseException) -> Failure:
        if isinstance(problem, EXITS):
            raise problem
        return describe(problem, self._retry, self._has_limits)

    def _fail(self, call: RunningCall, key: tuple[int, int], failure: Failure) -> None:
        if self._live.get(key) is call:
            del self._live[key]
            self._outcomes.failed(*key, failure)


def _with_resource(function: Callable[..., Any], resource: Any) -> Callable[[Any], Any]:
    return lambda argument: function(argument, resource)


class _CallTask(asyncio.Task[None]):
    """The task of a call. It calls ``lost`` if it is cancelled before it began.

    Such a task ends without a step of its coroutine, which therefore can't report it.
    """

    __slots__ = ("call", "lost")

    call: RunningCall
    lost: Callable[[RunningCall], None]

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.done() and _is_new(self.get_coro()) and not self.call.cancelled:
            self.get_loop().call_soon(self.lost, self.call)
        return super().cancel(msg)


def _is_new(coroutine: Any) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


def _plain_task(
    coroutine: Any, loop: asyncio.AbstractEventLoop, context: contextvars.Context
) -> _CallTask:
    if sys.version_info >= (3, 11):
        return _CallTask(coroutine, loop=loop, context=context)
    return context.run(_CallTask, coroutine, loop=loop)


def _eager_task(
    coroutine: Any, loop: asyncio.AbstractEventLoop, context: contextvars.Context
) -> _CallTask:
    # Only Pillarbox's own calls start eagerly; tasks of the user's code keep asyncio's order.
    return _CallTask(coroutine, loop=loop, context=context, eager_start=True)  # type: ignore[call-arg]


_new_task = _eager_task if hasattr(asyncio, "eager_task_factory") else _plain_task
