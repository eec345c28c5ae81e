"""The attempts of elements on one event loop: deadlines, retries, and how each element ends."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from .._base.failures import Failure
from .._metered.calls import OF_CALLS, PAUSE, Feedback, RunningCall, added
from .call_places import SLICE_S
from .failed_attempts import timed_out
from .failed_calls import FailedCalls
from .options import AsyncOptions
from .runner import CallRunner

_LONG_S, _LOOK_S = 60, 5  # the seconds after which a call is long, and between two looks


class AttemptedCall(ABC):
    """One row that is called for, in one or several attempts.

    Its call is named by ``scope``, its number there, and what the function is given.
    """

    __slots__ = ("answer", "attempt", "attempt_started", "attempt_timer", "calls", "deadline",
                 "done", "draw", "elapsed_ms", "failure", "id", "name", "pauses", "retry_timer",
                 "row", "scope", "started", "told", "usage")  # fmt: skip

    def __init__(self, scope: str, element_id: int, row: Any) -> None:
        self.scope = scope
        self.name: str | None = None  # made when somebody asks
        self.id = element_id
        self.row = row
        self.attempt = self.pauses = 0  # the number of the attempt is without pauses
        self.attempt_started = 0.0
        self.draw = 0.0
        self.calls = False
        self.told = 0
        self.started = -1.0
        self.elapsed_ms = 0
        self.done = False
        self.answer: Any = None
        self.usage: dict[str, float] | None = None  # made when something is reported
        self.failure: Failure | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.attempt_timer: asyncio.TimerHandle | None = None
        self.retry_timer: asyncio.TimerHandle | None = None

    @property
    def attempts(self) -> int:
        """The attempts that were made, those that ended in a pause of the limits among them."""
        return self.attempt + self.pauses

    @abstractmethod
    def given(self) -> object:
        """Return what the function is given, with a ``repr`` that tells all of it."""

    def call_id(self) -> str:
        """Return the id of its call: 32 hexadecimal digits. ``CallKeys.scala`` has its own."""
        if self.name is None:
            text = f"{self.scope}-{self.id} {self.given()!r}"
            self.name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.name

    def call_values(self, is_first: bool) -> dict[str, Any]:
        """Return the fields of the call column for the first of a call's rows, or another one.

        ``CallColumn.scala`` makes the same.
        """
        used = self.usage.items() if is_first and self.usage else ()
        return {
            "call_id": self.call_id(),
            "attempts": self.attempts if is_first else 0,
            "elapsed_ms": self.elapsed_ms,
            "from_journal": False,
            "usage": [(unit, amount) for unit, amount in used if amount > 0],
        }

    def is_long(self, latest: float) -> bool:
        """Return True if its attempt is under way since ``latest``, and nobody was told of it."""
        return self.calls and self.told != self.attempt and self.attempt_started <= latest

    def error_values(self, failure: Failure) -> dict[str, Any]:
        """Return the fields of the error column."""
        return {
            "kind": failure.kind,
            "message": failure.message,
            "attempts": self.attempts,
            "elapsed_ms": self.elapsed_ms,
            "call_id": self.call_id(),
        }


E = TypeVar("E", bound=AttemptedCall)


class Attempts(ABC, Generic[E]):
    """Starts elements, and their further attempts, until each is done; implements ``Outcomes``.

    Lives on the loop's thread. Subclasses choose the next element and handle its end. ``exited`` is
    called with an error that ends the task. Deadlines start with an element's first attempt.
    """

    runner: CallRunner
    failed_calls: FailedCalls | None = None

    def __init__(self, options: AsyncOptions, exited: Callable[[BaseException], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._total_s = options.timeout._total_ms / 1000
        self._attempt_s = options.timeout._attempt_ms / 1000
        self.exited = exited
        self._in_flight: dict[int, E] = {}
        self._backing_off = 0
        self._filling = self._paused = False
        self._look: asyncio.TimerHandle | None = None

    @abstractmethod
    def _may_start(self) -> bool:
        """Return True if there is an element to start, and room for it."""

    @abstractmethod
    def _start_next(self) -> None:
        """Start the next element with ``_begin``."""

    @abstractmethod
    def _filled(self) -> None:
        """Called when all elements that may start have been started."""

    @abstractmethod
    def _request(self, element: E) -> None:
        """Start another attempt with ``_note_attempts`` and a call of the runner."""

    @abstractmethod
    def _ended(self, element: E) -> None:
        """Called when an element is done and no longer in flight."""

    def _guarded(self, step: Callable[..., None], *arguments: Any) -> None:
        """Run ``step``, and end the task if it raises. The loop itself would only log the error."""
        try:
            step(*arguments)
        except BaseException as problem:
            self.exited(problem)

    def _later(
        self, delay_s: float, step: Callable[..., None], *arguments: Any
    ) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, self._guarded, step, *arguments)

    def _fill(self) -> None:
        """Start elements while there is room, for 10 ms in each turn of the event loop."""
        if self._filling or self._paused:
            return  # called by an element that ended while the while loop below started it
        self._filling = True
        ends = time.monotonic() + SLICE_S
        while not self._paused and self._may_start():
            self._start_next()
            if time.monotonic() >= ends:
                self._paused = True
                self._loop.call_soon(self._guarded, self._resume)
        self._filling = False
        if not self._paused:
            self._filled()

    def _resume(self) -> None:
        self._paused = False
        self._fill()

    def _begin(self, element: E) -> None:
        self._in_flight[element.id] = element
        if self._look is None and self.failed_calls is not None:
            self._look = self._later(_LOOK_S, self._look_for_long)
        self._request(element)

    def _look_for_long(self) -> None:
        """Tell of calls that have come to last for a minute without an answer."""
        self._look = self._later(_LOOK_S, self._look_for_long) if self._in_flight else None
        latest = self._loop.time() - _LONG_S
        calls = [one for one in self._in_flight.values() if one.is_long(latest)]
        for one in calls:
            one.told = one.attempt
        if calls and self.failed_calls is not None:
            first = min(calls, key=lambda one: one.attempt_started)
            seconds = int(self._loop.time() - first.attempt_started)
            call_id, more = first.call_id(), len(calls) - 1
            self.failed_calls.long(call_id, first.attempt, first.row, seconds, more)

    def _note_attempts(self, *elements: E) -> None:
        """Note that one call is made for all ``elements``: if it fails, they come back together."""
        draw = random.random()
        for element in elements:
            element.draw = draw
            self._note_attempt(element)

    def _note_attempt(self, element: E) -> None:
        element.attempt += 1
        element.calls = True
        element.attempt_started = self._loop.time()
        if element.started < 0:
            element.started = element.attempt_started
            if self._total_s:
                element.deadline = self._later(self._total_s, self._on_deadline, element)
        if self._attempt_s:
            timer = self._later(self._attempt_s, self._on_attempt_deadline, element)
            element.attempt_timer = timer

    def _attempt_over(self, element: E) -> None:
        """Called when the current attempt, if there is one, has ended."""
        element.calls = False
        if element.attempt_timer is not None:
            element.attempt_timer.cancel()

    def completed(self, element_id: int, attempt: int, answer: Any) -> None:
        """Called by the runner when an attempt has returned ``answer``."""
        element = self._in_flight[element_id]
        self._attempt_over(element)
        element.answer = answer
        self._finish(element)

    def used(self, call: RunningCall, unit: str, amounts: Sequence[float]) -> None:
        """Called by the runner with what the rows of a call have used of a unit."""
        for element_id, attempt, amount in zip(call.elements, call.attempts, amounts, strict=True):
            element = self._in_flight.get(element_id)
            if element is not None and element.calls and element.attempt == attempt:
                element.usage = element.usage or {}
                element.usage[unit] = added(element.usage.get(unit, 0.0), amount)

    def noted(self, kind: str, text: str) -> None:
        """Called by the runner with what was wrong with a report of a call."""
        if self.failed_calls is not None:
            self.failed_calls.note(kind, text)
        else:  # in a test
            warnings.warn(text, UserWarning, stacklevel=1)

    def told(self, call: RunningCall, told: Feedback) -> None:
        """Called by the runner with what the service has said of the operator's limits."""
        for element_id in call.elements:
            element = self._in_flight.get(element_id)
            if element is not None and told.unit == OF_CALLS:
                self._receive(element, told)
            elif element is not None and told.unit == PAUSE and self._options.has_limits:
                self._pause(element, told.reset_s)

    def _receive(self, element: E, told: Feedback) -> None:
        """Let no more calls begin under the element's limits than ``told`` says are left."""

    def _pause(self, element: E, delay_s: float) -> None:
        """Let no call under the element's limits begin for so long."""

    def failed(self, element_id: int, attempt: int, failure: Failure) -> None:
        """Called by the runner when an attempt has failed; ``retry`` may allow another one."""
        self._attempt_failed(self._in_flight[element_id], failure)

    def _attempt_failed(self, element: E, failure: Failure) -> None:
        self._attempt_over(element)
        retry = self._options.retry
        if failure.pauses_limit:
            self._pause(element, failure.retry_after_ms / 1000)
            element.attempt -= 1  # a pause uses up none
            element.pauses += 1
        elif retry is None or not failure.retryable or element.attempt >= retry.max_attempts:
            self._fail(element, failure)
            return
        if self.failed_calls is not None:
            self.failed_calls.attempt(element.row, element.attempts, failure)
        if failure.retry_after_ms >= 0:
            delay = failure.retry_after_ms / 1000
        else:
            assert retry is not None
            delay = retry._backoff_s(element.attempt, element.draw)
        self._backing_off += 1
        element.retry_timer = self._later(delay, self._retry, element)

    def _retry(self, element: E) -> None:
        self._end_back_off(element)
        self._request(element)
        self._fill()  # a call that waits for the limit of its value leaves room for others

    def _end_back_off(self, element: E) -> None:
        if element.retry_timer is not None:
            element.retry_timer.cancel()
            element.retry_timer = None
            self._backing_off -= 1

    def _on_deadline(self, element: E) -> None:
        self._abandon(element)
        message = (
            "The call was not answered within its total timeout: "
            f"{self._ms_since(element.started)} ms since the first attempt, in attempt "
            f"{element.attempt or element.attempts}. "
            "Raise the timeout, or look at why the service is slow."
        )
        self._end_back_off(element)
        self._fail(element, timed_out(message))

    def _on_attempt_deadline(self, element: E) -> None:
        self._abandon(element)
        failure = timed_out(
            f"Attempt {element.attempt} of the call was not answered within its attempt timeout: "
            f"{self._ms_since(element.attempt_started)} ms. "
            "Raise attempt of pb.Timeout, or look at why the service is slow."
        )
        self._attempt_failed(element, failure)

    def _abandon(self, element: E) -> None:
        self.runner.cancel([(element.id, element.attempt)])
        self._attempt_over(element)

    def _ms_since(self, start: float) -> int:
        return round((self._loop.time() - start) * 1000)

    def _fail(self, element: E, failure: Failure) -> None:
        element.failure = failure
        if self.failed_calls is not None and self._options.on_error != "raise":
            self.failed_calls.row(element.row, element.attempts, failure)
        self._finish(element)

    def _finish(self, element: E) -> None:
        if element.deadline is not None:
            element.deadline.cancel()
        element.done = True
        element.elapsed_ms = 0 if element.started < 0 else self._ms_since(element.started)
        del self._in_flight[element.id]
        self._ended(element)
        self._fill()
