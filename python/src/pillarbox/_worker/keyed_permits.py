"""The worker's end of what a keyed function's calls ask the JVM, which has limits and budgets.

It is spoken between a FRAME and its UPDATE, beside QUERY and ANSWER; ``keyed_frames`` has framing
and blobs. A text is a blob of UTF-8, and units are those of the operator, in their order. ::

    W ATTEMPTS Python -> JVM   one after the other: u8 what, i64 id of the call, and
                               1 ask: u32 index of its row among those of the FRAME, a f64 for
                               each limit whose estimate is a function;
                               2 ended: u8 flags (1 failed, 2 overloaded, 4 pauses all limits,
                               8 timed out), i64 ms after which to retry or -1, used amounts;
                               3 gave up: u8 1 if it has begun, used amounts;
                               4 told: i32 unit, -1 calls, -2 all limits; f64 what is left of it,
                               f64 s until all of it is there again;
                               5 the row has ended: u8 1 if it failed
                               used amounts: a f64 for each unit, NaN if nothing was reported;
                               others count in TALLY alone
    G ANSWERS  JVM -> Python   one after the other: u8 what, i64 id of the call, and
                               1 it may begin;
                               2 it may not, 3 and that ends the task: text kind, text message
    B TALLY    Python -> JVM   since the last one: i64 calls, retries, timeouts, errors and calls
                               that the service refused, u32 units, of each a text and a f64,
                               and an i64 for each attempt that was answered: microseconds
                               since its start

Each ask is answered by one answer, and ends with one "ended" or "gave up" of the same id, unless it
was refused. Answers may cross a "gave up", and come before any frame of the JVM; those for what
was given up mean nothing. A function without limits and budget sends only TALLY.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator, Sequence
from math import nan
from typing import TYPE_CHECKING

from .._async.failed_attempts import TIMEOUT
from .._base.failures import Failure
from .._metered.calls import Told
from .frames import Reader, encode, texts, u32

if TYPE_CHECKING:
    from .._keyed_async.permits import Asker
    from .._keyed_async.row_call import RowCall
    from .._keyed_async.tally import Tally

ATTEMPTS, ANSWERS, TALLY = b"WGB"

_ASK, _ENDED, _GAVE_UP, _TOLD, _ROW_ENDED = 1, 2, 3, 4, 5
_BEGINS, _REFUSED, _ENDS_TASK = 1, 2, 3
_FAILED, _OVERLOADED, _PAUSES_LIMITS, _TIMED_OUT = 1, 2, 4, 8
_HEAD = struct.Struct("<Bq")
_WITH_ROW, _WITH_FLAG = struct.Struct("<BqI"), struct.Struct("<BqB")
_END, _SAID = struct.Struct("<BqBq"), struct.Struct("<Bqidd")
_SUM = struct.Struct("<d")

# Rows that a budget has refused were not called for.
_BUDGET = {"BUDGET_EXCEEDED", "BUDGET_NOT_KEPT"}


class JvmPermits:
    """``Permits`` of the JVM. What is asked in one turn of the loop is sent as one frame."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, units: Sequence[str], send: Callable[[bytes], None]
    ) -> None:
        self._loop, self._send = loop, send
        self._amounts = struct.Struct(f"<{len(units)}d")
        self._units = units
        self._told: list[bytes] = []
        self._asker: Asker | None = None

    def begin_run(self, asker: Asker) -> None:
        self._asker = asker

    def ask(self, call: RowCall) -> None:
        amounts = call.amounts or ()
        estimated = struct.pack(f"<{len(amounts)}d", *amounts)
        self._put(_WITH_ROW.pack(_ASK, call.id, call.index), estimated)

    def ended(self, call: RowCall, failure: Failure | None) -> None:
        flags, retry_after_ms = 0, -1
        if failure is not None:
            flags = _FAILED | _OVERLOADED * failure.overload | _PAUSES_LIMITS * failure.pauses_limit
            flags |= _TIMED_OUT * (failure.kind == TIMEOUT)
            retry_after_ms = failure.retry_after_ms
        self._put(_END.pack(_ENDED, call.id, flags, retry_after_ms), self._used(call))

    def gave_up(self, call: RowCall) -> None:
        self._put(_WITH_FLAG.pack(_GAVE_UP, call.id, call.has_begun), self._used(call))

    def _used(self, call: RowCall) -> bytes:
        used = call.used or {}
        return self._amounts.pack(*(used.get(unit, nan) for unit in self._units))

    def row_ended(self, call: RowCall) -> None:
        kind = call.failure and call.failure.kind
        if kind not in _BUDGET:
            self._put(_WITH_FLAG.pack(_ROW_ENDED, call.id, kind is not None))

    def told(self, call_id: int, told: Told) -> None:
        self._put(_SAID.pack(_TOLD, call_id, told.unit, told.remaining, told.reset_s))

    def pause(self, delay_s: float) -> None:
        """Do nothing: the JVM learns it from what it is told."""

    def _put(self, *parts: bytes) -> None:
        if not self._told:
            self._loop.call_soon(self.flush)
        self._told += parts

    def flush(self) -> None:
        if self._told:
            told, self._told = self._told, []
            self._send(encode(ATTEMPTS, *told))

    def answer(self, body: memoryview) -> None:
        """Take ANSWERS, on the loop."""
        assert self._asker is not None
        try:
            for what, call_id, failure in _answers(body):
                if failure is None:
                    self._asker.begins(call_id)
                else:
                    self._asker.refused(call_id, failure, what == _ENDS_TASK)
        except BaseException as problem:
            self.lost(problem)

    def lost(self, problem: BaseException) -> None:
        """Take note, on the loop, that no answer can come any more."""
        if self._asker is not None:
            self._asker.exited(problem)


def _answers(body: memoryview) -> Iterator[tuple[int, int, Failure | None]]:
    reader, at, end = Reader(body), 0, len(body)
    while at < end:
        what, call_id = _HEAD.unpack(reader.take(_HEAD.size))
        at += _HEAD.size
        failure = None
        if what != _BEGINS:
            texts = [bytes(reader.blob()), bytes(reader.blob())]
            at += sum(4 + len(text) for text in texts)
            failure = Failure(texts[0].decode(), texts[1].decode())
        yield what, call_id, failure


def encode_tally(tally: Tally) -> bytes:
    """Encode TALLY."""
    counts = struct.pack("<5q", *tally.counts)
    usage = [part for unit, sum in tally.usage.items() for part in (texts(unit), _SUM.pack(sum))]
    units = u32(len(tally.usage))
    return encode(
        TALLY, counts, units, *usage, struct.pack(f"<{len(tally.latencies)}q", *tally.latencies)
    )
