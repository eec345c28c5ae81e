"""What became of calls, as frames for the JVM: those of one turn of the loop go together."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from .._base.failures import Failure
from .._metered.calls import Feedback, RunningCall
from . import frames

_MOST_FAILURES = 1024
_MOST_NOTES = 100


class OutcomeFrames(ABC):
    """Implements ``Outcomes`` but for answers, which subclasses send in ``_flush_answers``.

    Lives on the loop's thread. Once ``has_ended``, nothing is sent: it would go to the next task.
    """

    has_ended = False

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[bytes], None]) -> None:
        self._loop, self._send = loop, send
        self._failures: list[tuple[int, int, Failure]] = []
        self._usage: list[tuple[int, int, str, float]] = []
        self._noted: set[str] = set()
        self._flush_planned = False

    def used(self, call: RunningCall, unit: str, amounts: Sequence[float]) -> None:
        if not self.has_ended:
            rows = zip(call.elements, call.attempts, amounts, strict=True)
            self._usage += [(element_id, attempt, unit, one) for element_id, attempt, one in rows]
            self._plan_flush()

    def noted(self, kind: str, text: str) -> None:
        if not self.has_ended and kind not in self._noted and len(self._noted) < _MOST_NOTES:
            self._noted.add(kind)
            self._send(frames.encode_note(kind, text))

    def told(self, call: RunningCall, told: Feedback) -> None:
        if not self.has_ended:
            # For each row: those whose time is over are heard no more.
            rows = zip(call.elements, call.attempts, strict=True)
            self._send(frames.encode_told([(*row, told) for row in rows]))

    def failed(self, element_id: int, attempt: int, failure: Failure) -> None:
        self._failures.append((element_id, attempt, failure))
        self._plan_flush()

    @abstractmethod
    def exited(self, problem: BaseException) -> None:
        """End the task."""

    def _later(self, step: Callable[[], None]) -> None:
        """Run ``step`` in another turn of the loop, and end the task if it raises."""
        self._loop.call_soon(self._guarded, step)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except BaseException as problem:
            self.exited(problem)

    def _plan_flush(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._later(self.flush)

    def flush(self) -> None:
        """Send what has come."""
        self._flush_planned = False
        if self._usage:
            # All of it, before the outcomes of these calls.
            self._send(frames.encode_usage(self._usage))
            self._usage.clear()
        self._flush_answers()
        if self._failures:
            failures = self._failures[:_MOST_FAILURES]
            del self._failures[:_MOST_FAILURES]
            self._send(frames.encode_failures(failures))
            if self._failures:
                self._plan_flush()

    @abstractmethod
    def _flush_answers(self) -> None:
        """Send the answers that have come."""

    def end(self) -> None:
        """Drop what is not sent, and send nothing more."""
        self.has_ended = True
        self._failures, self._usage = [], []
