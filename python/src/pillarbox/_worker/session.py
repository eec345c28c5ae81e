"""One task in the worker, from READY to END: frames in, calls, frames out."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from array import array
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from .._arrow.pieces import FrameSize
from .._arrow.results import Encoded, ResultEncoder
from .._arrow.rows import RowReader
from .._async.call_places import CallPlaces
from .._async.command import Command
from .._async.event_loop import complete, stopped_loop
from .._async.runner import CallRunner
from .._async.ticket_runner import TicketRunner, Wait
from .._async.ticketed import Ticketed
from .._async.watchdog import Watchdog
from .._base.failures import final_failure
from .._base.report import Reported, report_of
from .._metered.calls import CallSite
from ..errors import EXITS, PillarboxError, error
from . import frames
from .channel import Channel
from .outcomes import OutcomeFrames

if TYPE_CHECKING:
    from .frames import Init

T = TypeVar("T")

_STOP_LIMIT_S = 2.0
_SEND_LIMIT_S = 5.0
_MOST_ANSWERS = 1024


class Session(OutcomeFrames):
    """Implements ``Outcomes``: the answers of one turn of the loop are sent as one frame.

    A frame has up to 1,024 answers. An error here that is no row's failure is fatal. Lives on the
    loop's thread; only the watchdog's alarm comes from another one.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, channel: Channel, init: Init, command: Command
    ) -> None:
        super().__init__(loop, channel.send)
        self._channel = channel
        self._spec = init.spec
        self._command = command
        self._input_schema = init.input_schema
        self._reader = RowReader(command.input_schema)
        self._encoder = ResultEncoder(
            command.returns,
            init.result_schema,
            init.spec["explode"],
            bare=init.spec.get("expression", False),
        )
        self._frames = frames.FrameBuffer()
        self._size = FrameSize.of(init.spec)
        self._group_parts: list[tuple[Any, Any, list[Any], Any]] = []
        self._ids = array("q")
        self._attempts = array("i")
        self._answers: list[Any] = []
        self._waits: list[tuple[int, int, Wait]] = []
        self._has_places = init.spec.get("look_ahead", 0) > 0
        # A future ends the run, because uvloop may apply a loop.stop() to the next run.
        self._over: asyncio.Future[bool] = loop.create_future()
        self._runner: CallRunner
        self._places: CallPlaces
        self._handlers: dict[int, Callable[[memoryview], None]] = {
            frames.CALLS: self._on_calls,
            frames.PART: self._on_part,
            frames.GROUP: self._on_group,
            frames.COLLECT: self._on_collect,
            frames.CANCEL: self._on_cancel,
            frames.GIVE_UP: self._on_give_up,
            frames.END: self._on_end,
        }

    def run(self, open_resource: Callable[[], Any]) -> bool:
        """Serve the task. Return True if the worker may be used again.

        Raises ``EOFError`` if the JVM went away, ``Reported`` if the task can't go on, and the
        error of ``open_resource``, which is not reported yet.
        """
        try:
            complete(self._loop, self._start(open_resource), self._stopped)
            return self._serve()
        except EXITS as problem:  # raised by a task that the function itself started
            raise send_fatal(self._channel, problem) from problem

    def _stopped(self) -> BaseException:
        return send_fatal(self._channel, stopped_loop())

    async def _start(self, open_resource: Callable[[], Any]) -> None:
        resource, call_context = await open_resource()
        capacity: int = self._spec["capacity"]
        runner = TicketRunner if isinstance(self._command.function, Ticketed) else CallRunner
        self._runner = runner(
            self._command,
            resource,
            self,
            site=CallSite(self._spec["name"], self._spec["units"]),
            max_threads=self._spec["threads"],
            call_context=call_context,
        )
        most_places = capacity if self._has_places else None
        self._places = CallPlaces(most_places, self._runner.call, self._later)
        self._channel.send(frames.encode(frames.READY))

    def _serve(self) -> bool:
        self._channel.on_readable(self._on_readable)
        blocked_ms = self._spec["blocked_loop_ms"]
        clean = run_watched(self._loop, self._channel, blocked_ms, self._over, self._stopped)
        self._channel.flush(_SEND_LIMIT_S)
        return clean

    def stop(self, problem: BaseException) -> None:
        """End ``run`` with ``problem`` at the end of this turn of the loop."""
        self.has_ended = True
        if not self._over.done():
            self._over.set_exception(problem)

    def _on_readable(self) -> None:
        data = self._channel.receive()
        if data is None:
            return
        if not data:
            self.stop(EOFError("the JVM closed the connection"))
            return
        try:
            for kind, body in self._frames.feed(data):
                if kind not in self._handlers:
                    raise error("PROTOCOL_ERROR", reason=f"a frame of the unknown type {kind}")
                self._handlers[kind](body)
        except BaseException as problem:
            self.exited(problem)

    def _on_calls(self, body: memoryview) -> None:
        calls = frames.decode_calls(body, self._input_schema)
        rows = self._reader.read_each(calls.rows)
        self._places.call(zip(calls.ids, calls.attempts, rows, calls.names, strict=True))

    def _on_part(self, body: memoryview) -> None:
        calls = frames.decode_calls(body, self._input_schema)
        part = calls.ids, calls.attempts, self._reader.read_each(calls.rows), calls.names
        self._group_parts.append(part)

    def _on_group(self, body: memoryview) -> None:
        self._on_part(body)
        columns = zip(*self._group_parts, strict=True)
        ids, attempts, rows, names = (list(chain.from_iterable(column)) for column in columns)
        self._group_parts.clear()
        if ids:
            self._runner.group(ids, attempts, rows, names)

    def _on_collect(self, body: memoryview) -> None:
        asked = frames.decode_collect(body)
        assert isinstance(self._runner, TicketRunner)
        ticket = asked.ticket, asked.places, asked.of
        self._runner.collect(asked.ids, asked.attempts, asked.names, ticket)

    def _on_cancel(self, body: memoryview) -> None:
        ids, attempts, _ = frames.decode_ids(body)
        keys = list(zip(ids, attempts, strict=True))
        self._places.cancel(keys)
        self._runner.cancel(keys)

    def _on_give_up(self, body: memoryview) -> None:
        self._places.give_up(int.from_bytes(body, "little"))

    def _on_end(self, body: memoryview) -> None:
        # The bytes after the answer are the next task's preamble, and not for this session.
        self._channel.stop_reading()
        self._places.clear()
        self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        try:
            clean = await self._runner.drain(_STOP_LIMIT_S)
        except asyncio.CancelledError:
            clean = False  # a call that is cancelled has cancelled all tasks
        self.end()
        self._channel.send(frames.encode_end(clean))
        if not self._over.done():
            self._over.set_result(clean)

    def completed(self, element_id: int, attempt: int, answer: Any) -> None:
        self._ids.append(element_id)
        self._attempts.append(attempt)
        self._answers.append(answer)
        if not self._flush_planned:
            self._plan_flush()

    def pending(self, element_id: int, attempt: int, wait: Wait) -> None:
        self._waits.append((element_id, attempt, wait))
        self._plan_flush()

    def exited(self, problem: BaseException) -> None:
        self.stop(send_fatal(self._channel, problem))

    def end(self) -> None:
        super().end()
        self._ids, self._attempts = array("q"), array("i")
        self._answers, self._waits = [], []

    def _flush_answers(self) -> None:
        if self._waits:
            self._channel.send(frames.encode_tickets(self._waits))
            self._waits.clear()
        if not self._answers:
            return
        ids, attempts, answers = self._take_answers()
        if self._has_places:
            # Not freed where a call ends, since that would start the next call inside it.
            self._places.leave(zip(ids, attempts, strict=True))
        for first, last, encoded in self._encoder.pieces(answers, self._size):
            self._send_answers(ids[first:last], attempts[first:last], encoded)

    def _send_answers(self, ids: array[int], attempts: array[int], encoded: Encoded) -> None:
        counts = encoded.counts
        if encoded.mismatches:
            for index, mismatch in encoded.mismatches.items():
                self._failures.append((ids[index], attempts[index], final_failure(mismatch)))
            kept = [index for index in range(len(ids)) if index not in encoded.mismatches]
            ids = array("q", [ids[index] for index in kept])
            attempts = array("i", [attempts[index] for index in kept])
            counts = [counts[index] for index in kept]
        if ids:
            self._channel.send(frames.encode_results(ids, attempts, counts, encoded.batch))

    def _take_answers(self) -> tuple[array[int], array[int], list[Any]]:
        """Take the answers of one frame. The others have another turn, so that none takes long."""
        ids, attempts, answers = self._ids, self._attempts, self._answers
        self._ids, self._attempts, self._answers = array("q"), array("i"), []
        if len(answers) > _MOST_ANSWERS:
            self._ids, self._attempts = ids[_MOST_ANSWERS:], attempts[_MOST_ANSWERS:]
            self._answers = answers[_MOST_ANSWERS:]
            del ids[_MOST_ANSWERS:], attempts[_MOST_ANSWERS:], answers[_MOST_ANSWERS:]
            self._plan_flush()
        return ids, attempts, answers


def run_watched(
    loop: asyncio.AbstractEventLoop,
    channel: Channel,
    blocked_ms: int,
    work: Awaitable[T],
    stopped: Callable[[], BaseException] = stopped_loop,
) -> T:
    """Run ``loop`` in this thread until ``work`` is done, as ``complete`` does.

    If one callback holds the loop for ``blocked_ms``, the JVM is told and the process exits, since
    nothing else stops a thread that hangs in user code.
    """

    def leave(blocked: PillarboxError) -> None:
        send_fatal(channel, blocked)
        sys.stderr.flush()
        os._exit(1)

    watchdog = Watchdog(loop, threading.get_ident(), complete.__code__, blocked_ms, leave)
    watchdog.start()
    try:
        return complete(loop, work, stopped)
    finally:
        watchdog.stop()


def send_fatal(channel: Channel, problem: BaseException) -> Reported:
    """Send FATAL for ``problem`` and wait until it is on its way."""
    report = report_of(problem)
    channel.send_now(frames.encode_fatal(report.to_json()), _SEND_LIMIT_S)
    return Reported(report)
