"""The queues of rows in a harness: those of a key are called one after the other, many keys at a
time, by the rules of attempts that ``engine="python"`` has."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from .._async.attempts import Attempts
from .._async.lanes import Lanes
from .._async.options import AsyncOptions
from .._async.runner import Outcomes
from .._base.failures import Failure
from .._metered.calls import Feedback
from .row_attempts import RowAttempts
from .row_call import RowCall

_STOP_LIMIT_S = 2.0


class KeyQueues(Attempts[RowCall]):
    """A queue of rows for each key; only the first row of a queue is called, ``capacity`` in all.

    Implements ``Calls``. Limits are kept here, all with scope "task". Made and used on the loop
    only.
    """

    def __init__(
        self, options: AsyncOptions, make_attempts: Callable[[Outcomes], RowAttempts]
    ) -> None:
        super().__init__(options, self._exit)
        self._rows = make_attempts(self)
        self.runner = self._rows.runner
        self._raises = options.on_error == "raise"
        self._lanes: Lanes[RowCall] = Lanes(options.limit, self, self._later)
        self._ids = count(1)
        self._queues: dict[int, deque[RowCall]] = {}
        self._ready: deque[RowCall] = deque()
        self._over: asyncio.Future[RowCall | None] = self._loop.create_future()
        self._broken: BaseException | None = None
        self._scope = uuid4().hex

    async def run(self, calls: Sequence[RowCall]) -> RowCall | None:
        if self._broken is not None:
            raise self._broken
        self._over = self._loop.create_future()
        for call in calls:
            call.scope, call.id = self._scope, next(self._ids)
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
        return await self.runner.drain(_STOP_LIMIT_S)

    def _stop(self) -> None:
        self._queues.clear()
        self._ready.clear()
        for call in self._in_flight.values():
            call.done = True  # nothing begins that waits for a limit
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
        self._lanes.add([call])

    def has_place(self) -> bool:
        """Return True: a call that waits for a limit keeps its place."""
        return True

    def start_call(self, calls: Sequence[RowCall]) -> None:
        """Start a call that has passed its limits."""
        (call,) = calls
        self._note_attempts(call)
        self._rows.begin(call, call.call_id)

    def _attempt_over(self, call: RowCall) -> None:
        if call.calls:
            # Not at once: the failure may be a pause, or the end of all.
            self._loop.call_soon(self._guarded, self._lanes.end, call.values)
        super()._attempt_over(call)

    def _pause(self, call: RowCall, delay_s: float) -> None:
        self._lanes.pause(call.values, delay_s)

    def _receive(self, call: RowCall, told: Feedback) -> None:
        self._lanes.told(call.values, told.remaining, told.reset_s)

    def completed(self, element_id: int, attempt: int, answer: Any) -> None:
        call = self._in_flight[element_id]
        failure = self._rows.answered(call, answer)
        if failure is not None:
            self._attempt_failed(call, failure)
        else:
            super().completed(element_id, attempt, call.answer)

    def _attempt_failed(self, call: RowCall, failure: Failure) -> None:
        self._rows.undo(call)
        super()._attempt_failed(call, failure)

    def _abandon(self, call: RowCall) -> None:
        super()._abandon(call)
        self._rows.undo(call)

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
