"""The queues of rows: those of a key are called one after the other, many keys at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from pyspark.sql.types import StructType

from .._async.attempts import AttemptedCall, Attempts
from .._async.call_context import CallContext
from .._async.calls import CallSite
from .._async.command import Command
from .._async.failed_attempts import TIMEOUT
from .._async.runner import CallRunner
from .._base.failures import Told, final_failure, kind_of
from ..errors import ResultTypeMismatch, error
from ..retry import RetryAfter
from .context import Attempt
from .options import KeyedCalls

_STOP_LIMIT_S = 2.0


class RowCall(AttemptedCall):
    """The call of a row, the one at ``index`` of those that came with it.

    ``problem`` is the function's last exception.
    """

    __slots__ = ("current", "index", "is_late", "key_index", "problem", "timestamp", "watermark")

    def __init__(
        self,
        index: int,
        key_index: int,
        timestamp: int | None,
        watermark: int,
        row: Any,
        is_late: bool = False,
    ) -> None:
        super().__init__(0, row)
        self.index = index
        self.key_index = key_index
        self.timestamp = timestamp
        self.watermark = watermark
        self.is_late = is_late
        self.current: Attempt | None = None
        self.problem: BaseException | None = None

    def raised(self) -> BaseException:
        """Return the exception for the call's failure."""
        failure, problem = self.failure, self.problem
        assert failure is not None
        if failure.kind == TIMEOUT and problem is None:
            return _TimedOut(failure.message)
        if isinstance(problem, RetryAfter) and failure.kind != kind_of(problem):
            told: BaseException = error("RETRY_AFTER_WITHOUT_RETRY", seconds=problem.delay_s)
        elif problem is None or failure.kind != kind_of(problem):
            told = Told(f"{failure.kind}: {failure.message}")
        else:
            return problem
        told.__cause__ = problem
        return told


class _TimedOut(Told, TimeoutError):
    """A call that was not answered in time."""


_TimedOut.__name__ = TIMEOUT  # the kind that messages and error columns show


class KeyQueues(Attempts[RowCall]):
    """A queue of rows for each key; only the first row of a queue is called, ``capacity`` in all.

    ``function`` makes one call, ``attempt`` begins an attempt, ``accept`` checks its answer and
    returns rows, which become the call's ``answer``. Made and used on the loop only.
    """

    def __init__(
        self,
        calls: KeyedCalls,
        input_schema: StructType,
        call_context: CallContext | None,
        *,
        function: Callable[[RowCall], Coroutine[Any, Any, Any]],
        attempt: Callable[[RowCall], Attempt],
        accept: Callable[[Any], Any],
    ) -> None:
        super().__init__(calls.options, self._exit)
        self._attempt, self._accept = attempt, accept
        self._raises = calls.options.on_error == "raise"
        self._ids = count(1)
        self._queues: dict[int, deque[RowCall]] = {}
        self._ready: deque[RowCall] = deque()
        self._over: asyncio.Future[RowCall | None] = self._loop.create_future()
        self._broken: BaseException | None = None
        command = Command(
            function=function,
            is_async=True,
            is_batch=False,
            resource=None,
            retry=calls.options.retry,
            input_schema=input_schema,
            returns=calls.returns,
            name=calls.options.name,
        )
        self.site = CallSite(calls.options.name, uuid4().hex)
        self.runner = CallRunner(
            command, None, self, site=self.site, max_threads=1, call_context=call_context
        )

    async def run(self, calls: Sequence[RowCall]) -> RowCall | None:
        """Wait until all ``calls`` are done. Return the first to fail under on_error="raise".

        Then, and if it raises an error that ends the task, all others are cancelled and undone.
        """
        if self._broken is not None:
            raise self._broken
        self._over = self._loop.create_future()
        for call in calls:
            call.id = next(self._ids)
            queue = self._queues.get(call.key_index)
            if queue is None:
                self._queues[call.key_index] = deque()
                self._ready.append(call)
            else:
                queue.append(call)
        try:
            self._fill()
            return await self._over
        finally:
            self._stop()

    async def drain(self) -> bool:
        """Wait up to 2 s for cancelled calls. Return True if all have ended."""
        return await self.runner.drain(_STOP_LIMIT_S)

    def _stop(self) -> None:
        self._queues.clear()
        self._ready.clear()
        for call in self._in_flight.values():
            self._end_back_off(call)
            self._abandon(call)
            if call.deadline is not None:
                call.deadline.cancel()
        self._in_flight.clear()

    def _exit(self, problem: BaseException) -> None:
        self._broken = problem
        if not self._over.done():
            self._over.set_exception(problem)

    def _may_start(self) -> bool:
        return bool(self._ready) and len(self._in_flight) < self._options.capacity

    def _start_next(self) -> None:
        self._begin(self._ready.popleft())

    def _filled(self) -> None:
        if not self._in_flight and not self._ready and not self._over.done():
            self._over.set_result(None)

    def _request(self, call: RowCall) -> None:
        call.current = self._attempt(call)
        call.problem = None
        self._note_attempts(call)
        self.runner.call(call.id, call.attempt, call)

    def _attempt_over(self, call: RowCall) -> None:
        super()._attempt_over(call)
        if call.current is not None:
            call.current.take_back()
            call.current = None

    def completed(self, element_id: int, attempt: int, answer: Any) -> None:
        call = self._in_flight[element_id]
        try:
            rows = self._accept(answer)
        except ResultTypeMismatch as mismatch:
            call.problem = mismatch
            self._attempt_failed(call, final_failure(mismatch))
            return
        assert call.current is not None
        call.current.keep()
        call.current = None
        super().completed(element_id, attempt, rows)

    def _ended(self, call: RowCall) -> None:
        queue = self._queues.get(call.key_index)
        if queue:
            # It comes before other keys, since the key with most rows determines the end.
            self._ready.appendleft(queue.popleft())
        elif queue is not None:
            del self._queues[call.key_index]
        if call.failure is not None and self._raises and not self._over.done():
            self._queues.clear()
            self._ready.clear()
            self._over.set_result(call)
