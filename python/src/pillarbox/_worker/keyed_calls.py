"""The calls of a keyed function's rows, on whose attempts the JVM's async operator decides.

The frames of it, between a FRAME that has rows and its UPDATE, beside QUERY and ANSWER;
``keyed_frames`` has framing and blobs, ``frames`` the frames FAILURES, USAGE, TOLD and NOTE. A text
is a blob of UTF-8. The id of a call is the number of its row among all rows of the task. ::

    W ATTEMPTS JVM -> Python   one after the other: u8 what, i64 id of the call, and
                               1 an attempt begins: i32 its number, 16 bytes name of the call;
                               2 nobody waits for an attempt any more: i32 its number;
                               3 the call has failed: u8 1 if the task is to fail for it,
                               i32 attempts, i64 ms from the first to the end,
                               texts name of the call, kind, message, traceback;
                               4 all calls of the FRAME have ended (the id means nothing)
    D ANSWERED Python -> JVM   u32 n, n x i64 id, n x i32 attempt: they have returned rows
    M AMOUNTS  Python -> JVM   what functions have estimated for the next rows of the FRAME:
                               u32 n, then of each u8 0 and a f64 for each limit with a function,
                               or u8 1, texts kind, message, traceback

- A key has one call under way, up to its end. What its attempt has written is kept if that was
  ANSWERED, unless the call has another attempt or fails afterwards, which the JVM tells before
  another call of the key begins. So nothing is sent to keep it.
- Each attempt is ANSWERED, or fails (FAILURES), or is given up. Answers may cross what gives up.
- With functions that estimate, a row may begin when its AMOUNTS have come.
"""

from __future__ import annotations

import asyncio
import struct
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from .._async.call_places import SLICE_S
from .._async.estimators import estimate_failure, estimator
from .._async.options import AsyncOptions
from .._async.runner import Outcomes
from .._base.failures import Failure
from .._keyed_async.row_attempts import RowAttempts
from .._keyed_async.row_call import RowCall
from .._metered.calls import RunningCall, added
from .frames import Reader, encode, packed, texts, u32
from .outcomes import OutcomeFrames

ATTEMPTS, ANSWERED, AMOUNTS = b"WDM"

_BEGINS, _GIVEN_UP, _FAILED, _ALL_ENDED = 1, 2, 3, 4
_HEAD = struct.Struct("<Bq")
_BEGIN, _GIVE_UP, _FAIL = struct.Struct("<i16s"), struct.Struct("<i"), struct.Struct("<Biq")
_STOP_LIMIT_S = 2.0
_ESTIMATED_AT_ONCE = 64


class JvmCalls(OutcomeFrames):
    """Makes the attempts that the JVM begins, for one task; implements ``Calls``.

    What comes in one turn of the loop is sent as one frame. On the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[bytes], None]) -> None:
        super().__init__(loop, send)
        self._ids, self._numbers = array("q"), array("i")
        self._calls: Sequence[RowCall] = ()
        self._first = 0  # the id of the first of the calls
        self._told: deque[memoryview] = deque()  # of the first one so much is done:
        self._at = 0
        self._is_busy = False
        self._over: asyncio.Future[RowCall | None] | None = None
        self._broken: BaseException | None = None
        self._rows: RowAttempts
        self._estimated: Any = None

    def make(
        self, options: AsyncOptions, make_attempts: Callable[[Outcomes], RowAttempts]
    ) -> JvmCalls:
        """Make attempts by what ``make_attempts`` makes, on the loop."""
        self._rows = make_attempts(self)
        self._estimated = estimator(options.estimators) if options.estimators else None
        return self

    async def run(self, calls: Sequence[RowCall]) -> RowCall | None:
        if self._broken is not None:
            raise self._broken
        self._over = self._loop.create_future()
        self._calls = calls
        for call_id, call in enumerate(calls, self._first):
            call.id = call_id
        estimating = self._loop.create_task(self._estimate()) if self._estimated else None
        try:
            self._is_busy = False
            self.work()
            return await self._over
        finally:
            if estimating is not None:
                estimating.cancel()
            self._stop()

    async def drain(self) -> bool:
        have_ended = await self._rows.runner.drain(_STOP_LIMIT_S)
        self.flush()
        self.end()
        return have_ended

    def _stop(self) -> None:
        for call in self._calls:
            if call.current is not None and call.current.is_open:
                self._rows.cancel(call)
        self._first += len(self._calls)
        self._calls, self._over = (), None
        self.flush()

    async def _estimate(self) -> None:
        """Let functions estimate what rows will use, a few in each turn of the loop."""
        try:
            for start in range(0, len(self._calls), _ESTIMATED_AT_ONCE):
                calls = self._calls[start : start + _ESTIMATED_AT_ONCE]
                estimates = [_encoded(*self._estimated(call.row)) for call in calls]
                self._send(encode(AMOUNTS, u32(len(estimates)), *estimates))
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise
        except BaseException as problem:
            self.exited(problem)

    def take(self, body: memoryview) -> None:
        """Take ATTEMPTS, for ``work``."""
        self._told.append(body)

    def work(self) -> None:
        """Do as was told. That waits if the FRAME that it belongs to is being decoded."""
        if self._told and self._over is not None and not self._is_busy:
            self._guarded(self._work)

    def _work(self) -> None:
        """Do as was told, for 10 ms in each turn of the loop, until a call fails the task."""
        over, ends = self._over, time.monotonic() + SLICE_S
        self._is_busy = False
        while self._told and over is not None and not over.done():
            body, at = self._told[0], self._at
            while at < len(body) and not self._is_busy and not over.done():
                at = self._do(body, at, over)
                self._is_busy = time.monotonic() >= ends
            if at == len(body):
                self._told.popleft()
                at = 0
            self._at = at
            if self._is_busy:
                self._later(self._work)
                return

    def _do(self, body: memoryview, at: int, over: asyncio.Future[RowCall | None]) -> int:
        """Do what ``body`` tells at a place. Return the next one."""
        what, call_id = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        place = call_id - self._first
        if what == _BEGINS:
            number, name = _BEGIN.unpack_from(body, at)
            self._begin(self._calls[place], number, name.hex())
            return at + _BEGIN.size
        if what == _GIVEN_UP:
            (number,) = _GIVE_UP.unpack_from(body, at)
            if place >= 0:  # else it crossed with the end of its FRAME
                self._give_up(self._calls[place], number)
            return at + _GIVE_UP.size
        if what == _FAILED:
            call = self._calls[place]
            ends_task, size = self._fail(call, body[at:])
            if ends_task:
                over.set_result(call)
            return at + size
        over.set_result(None)
        return at

    def _begin(self, call: RowCall, number: int, name: str) -> None:
        call.pauses += number <= call.attempt  # after a pause the number is the same
        call.attempt, call.name = number, name
        if call.started < 0:
            call.started = self._loop.time()
        call.calls = True
        self._rows.begin(call, name)

    def _give_up(self, call: RowCall, number: int) -> None:
        if call.attempt == number:
            call.calls = False
            self._rows.cancel(call)

    def _fail(self, call: RowCall, body: memoryview) -> tuple[bool, int]:
        """Fail a call, also one that has answered.

        Return True if the task is to fail for it, and how much of ``body`` tells of it.
        """
        reader = Reader(body[_FAIL.size :])
        told = [bytes(reader.blob()) for _ in range(4)]
        call.name, kind, message, trace = (text.decode() for text in told)
        ends_task, call.attempt, call.elapsed_ms = _FAIL.unpack_from(body)
        call.pauses = 0
        call.failure = Failure(kind, message, trace)
        self._rows.undo(call)
        return bool(ends_task), _FAIL.size + sum(4 + len(text) for text in told)

    def completed(self, element_id: int, attempt: int, answer: Any) -> None:
        call = self._calls[element_id - self._first]
        call.calls = False
        failure = self._rows.answered(call, answer)
        if failure is not None:
            super().failed(element_id, attempt, failure)
            return
        call.elapsed_ms = round((self._loop.time() - call.started) * 1000)
        self._ids.append(element_id)
        self._numbers.append(attempt)
        if not self._flush_planned:
            self._plan_flush()

    def failed(self, element_id: int, attempt: int, failure: Failure) -> None:
        call = self._calls[element_id - self._first]
        call.calls = False
        self._rows.undo(call)
        super().failed(element_id, attempt, failure)

    def used(self, call: RunningCall, unit: str, amounts: Sequence[float]) -> None:
        super().used(call, unit, amounts)
        at = call.elements[0] - self._first
        one = self._calls[at] if 0 <= at < len(self._calls) else None
        if one is not None and one.calls and one.attempt == call.attempts[0]:
            one.usage = one.usage or {}
            one.usage[unit] = added(one.usage.get(unit, 0.0), amounts[0])

    def _flush_answers(self) -> None:
        if self._ids:
            ids, self._ids = self._ids, array("q")
            numbers, self._numbers = self._numbers, array("i")
            self._send(encode(ANSWERED, u32(len(ids)), packed("q", ids), packed("i", numbers)))

    def exited(self, problem: BaseException) -> None:
        self._broken = problem
        if self._over is not None and not self._over.done():
            self._over.set_exception(problem)


def _encoded(amounts: list[float] | None, what: str | None, trace: str | None) -> bytes:
    if amounts is not None:
        return struct.pack(f"<B{len(amounts)}d", 0, *amounts)
    failure = estimate_failure(what or "", trace or "")
    return b"\1" + texts(failure.kind, failure.message, failure.traceback)
