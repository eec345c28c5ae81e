"""The queues of rows: those of a key are called one after the other, many keys at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from pyspark.sql.types import StructType

from .._async.attempts import Attempts
from .._async.call_context import CallContext
from .._async.command import Command
from .._async.estimators import estimate_failure, estimator
from .._async.runner import CallRunner
from .._base.failures import Failure, final_failure
from .._metered.calls import CallSite, RunningCall, Told, added
from ..errors import ResultTypeMismatch
from .context import Attempt
from .options import KeyedCalls
from .permits import Permits
from .row_call import RowCall
from .tally import Tally

_STOP_LIMIT_S = 2.0
_TELL_S = 1.0


class KeyQueues(Attempts[RowCall]):
    """A queue of rows for each key; only the first row of a queue is called, ``capacity`` in all.

    ``function`` makes one call, ``attempt`` begins an attempt, ``accept`` checks its answer and
    returns rows, which become the call's ``answer``. With ``permits`` an attempt asks before it
    begins. ``tell`` gets the tally each second and at the end of a run. Made and used on the loop
    only.
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
        permits: Permits | None = None,
        tell: Callable[[Tally], None] | None = None,
    ) -> None:
        super().__init__(calls.options, self._exit)
        self._attempt, self._accept = attempt, accept
        self._permits, self._tell = permits, tell
        self._tally = Tally()
        self._raises = calls.options.on_error == "raise"
        functions = calls.options.estimators
        self._estimated = estimator(functions) if functions else None
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
            has_limits=calls.options.has_limits,
        )
        self._scope = uuid4().hex
        self.site = CallSite(calls.options.name, calls.options.units)
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
        if self._permits is not None:
            self._permits.begin_run(self)
        for call in calls:
            call.scope, call.id = self._scope, next(self._ids)
            queue = self._queues.get(call.key_index)
            if queue is None:
                self._queues[call.key_index] = deque()
                self._ready.append(call)
            else:
                queue.append(call)
        self._teller = self._later(_TELL_S, self._tell_each_second)
        try:
            self._fill()
            return await self._over
        finally:
            self._teller.cancel()
            self._stop()
            self._tell_tally()

    async def drain(self) -> bool:
        """Wait up to 2 s for cancelled calls. Return True if all have ended."""
        have_ended = await self.runner.drain(_STOP_LIMIT_S)
        self._tell_tally()
        return have_ended

    def _tell_each_second(self) -> None:
        self._tell_tally()
        if self._in_flight:
            self._teller = self._later(_TELL_S, self._tell_each_second)

    def _tell_tally(self) -> None:
        tally = self._tally.taken()
        if tally is not None and self._tell is not None:
            self._tell(tally)

    def _stop(self) -> None:
        self._queues.clear()
        self._ready.clear()
        for call in self._in_flight.values():
            if not call.has_begun:  # before others, whose permits they would get
                self._give_up(call)
        for call in self._in_flight.values():
            self._end_back_off(call)
            self._abandon(call)
            self._give_up(call)
            if call.deadline is not None:
                call.deadline.cancel()
        self._in_flight.clear()
        if self._permits is not None:
            self._permits.flush()

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
        if self._permits is None:
            self._start(call)
        elif (failure := self._estimate(call)) is not None:
            self._fail(call, failure)
        else:
            call.asks, call.has_begun, call.used = True, False, None
            self._permits.ask(call)

    def _estimate(self, call: RowCall) -> Failure | None:
        """Let functions estimate what a call will use, once. Return why that is unknown."""
        if self._estimated is None or call.amounts is not None:
            return None
        call.amounts, what, trace = self._estimated(call.row)
        return None if what is None else estimate_failure(what, trace or "")

    def begins(self, call_id: int) -> None:
        call = self._in_flight.get(call_id)
        if call is not None and call.asks and not call.has_begun:  # it is not given up meanwhile
            call.has_begun = True
            self._start(call)

    def refused(self, call_id: int, failure: Failure, ends_task: bool) -> None:
        call = self._in_flight.get(call_id)
        if call is not None and call.asks:
            call.asks, call.ends_task = False, ends_task
            self._fail(call, failure)

    def _start(self, call: RowCall) -> None:
        call.current = self._attempt(call)
        call.problem = None
        self._tally.calls += 1
        self._note_attempts(call)
        self._tally.retries += call.attempts > 1
        self.runner.call(call.id, call.attempt, call, call.call_id)

    def _end_attempt(self, call: RowCall, failure: Failure | None) -> None:
        """Give back the permit of an attempt that has ended."""
        if call.asks and call.has_begun:
            call.asks = False
            assert self._permits is not None
            self._permits.ended(call, failure)
        else:
            self._give_up(call)

    def _give_up(self, call: RowCall) -> None:
        if call.asks:
            call.asks = False
            assert self._permits is not None
            self._permits.gave_up(call)

    def used(self, call: RunningCall, unit: str, amounts: Sequence[float]) -> None:
        self._tally.usage[unit] = added(self._tally.usage.get(unit, 0.0), amounts[0])
        if (one := self._of_attempt(call)) is not None:
            one.used = one.used or {}
            one.used[unit] = added(one.used.get(unit, 0.0), amounts[0])
        super().used(call, unit, amounts)

    def told(self, call: RunningCall, told: Told) -> None:
        if (one := self._of_attempt(call)) is not None:
            assert self._permits is not None
            self._permits.told(one.id, told)
        super().told(call, told)

    def _of_attempt(self, running: RunningCall) -> RowCall | None:
        """Return the call of an attempt that has a permit."""
        one = self._in_flight.get(running.elements[0])
        is_current = one is not None and one.attempt == running.attempts[0]
        return one if one is not None and is_current and one.asks and one.has_begun else None

    def _pause(self, call: RowCall, delay_s: float) -> None:
        if self._permits is not None:
            self._permits.pause(delay_s)

    def _attempt_over(self, call: RowCall) -> None:
        super()._attempt_over(call)
        if call.current is not None:
            call.current.take_back()
            call.current = None

    def completed(self, element_id: int, attempt: int, answer: Any) -> None:
        call = self._in_flight[element_id]
        self._answered(call)
        try:
            rows = self._accept(answer)
        except ResultTypeMismatch as mismatch:
            call.problem = mismatch
            self._attempt_failed(call, final_failure(mismatch))
            return
        assert call.current is not None
        call.current.keep()
        call.current = None
        self._end_attempt(call, None)
        super().completed(element_id, attempt, rows)

    def failed(self, element_id: int, attempt: int, failure: Failure) -> None:
        self._answered(self._in_flight[element_id])
        super().failed(element_id, attempt, failure)

    def _answered(self, call: RowCall) -> None:
        self._tally.latencies.append(round((self._loop.time() - call.attempt_started) * 1e6))

    def _attempt_failed(self, call: RowCall, failure: Failure) -> None:
        self._end_attempt(call, failure)
        if failure.overload or failure.retry_after_ms >= 0:
            self._tally.rate_limited += 1
        super()._attempt_failed(call, failure)

    def _on_deadline(self, call: RowCall) -> None:
        self._tally.timeouts += 1
        super()._on_deadline(call)

    def _on_attempt_deadline(self, call: RowCall) -> None:
        self._tally.timeouts += 1
        super()._on_attempt_deadline(call)

    def _fail(self, call: RowCall, failure: Failure) -> None:
        self._end_attempt(call, failure)
        self._tally.errors += 1
        super()._fail(call, failure)

    def _ended(self, call: RowCall) -> None:
        if self._permits is not None:
            self._permits.row_ended(call)
        queue = self._queues.get(call.key_index)
        if queue:
            # It comes before other keys, since the key with most rows determines the end.
            self._ready.appendleft(queue.popleft())
        elif queue is not None:
            del self._queues[call.key_index]
        is_last = call.failure is not None and (self._raises or call.ends_task)
        if is_last and not self._over.done():
            self._queues.clear()
            self._ready.clear()
            self._over.set_result(call)
