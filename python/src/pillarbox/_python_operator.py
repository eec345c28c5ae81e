"""The async operator in Python: what the JVM does for engine="jvm", on one event loop.

A window of elements slides over the input: capacity, order, deadlines and retries live here; the
calls themselves are made by the worker's ``CallRunner``, so both engines run functions alike.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ._failures import Failure
from ._options import AsyncOptions
from ._rows import RowReader
from ._worker.runner import CallRunner

_ROWS_READ_AT_ONCE = 512


class Element:
    """One input row on its way: ``source`` and ``index`` say where it came from."""

    __slots__ = (
        "answer",
        "attempt",
        "attempt_started",
        "attempt_timer",
        "deadline",
        "done",
        "elapsed_ms",
        "failure",
        "id",
        "index",
        "retry_timer",
        "row",
        "source",
        "started",
    )

    def __init__(self, element_id: int, source: pa.RecordBatch, index: int, row: Any) -> None:
        self.id = element_id
        self.source = source
        self.index = index
        self.row = row
        self.attempt = 0
        self.attempt_started = 0.0
        self.started = 0.0
        self.elapsed_ms = 0
        self.done = False
        self.answer: Any = None
        self.failure: Failure | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.attempt_timer: asyncio.TimerHandle | None = None
        self.retry_timer: asyncio.TimerHandle | None = None

    def stop_timers(self) -> None:
        for timer in (self.deadline, self.attempt_timer, self.retry_timer):
            if timer is not None:
                timer.cancel()


class AsyncOperator:
    """Takes batches of rows, gives finished elements to ``emit``; lives on the loop's thread.

    At most ``capacity`` elements are in flight, those that are done but wait for their turn
    included. ``want_input`` is called whenever less than ``capacity`` rows are left to start;
    ``feed`` or ``end_input`` answers it. ``finished`` is called after the last element was emitted.
    The deadline of an element starts with its first attempt.
    """

    def __init__(
        self,
        options: AsyncOptions,
        reader: RowReader,
        input_columns: list[int],
        *,
        emit: Callable[[Element], None],
        want_input: Callable[[], None],
        finished: Callable[[], None],
        exited: Callable[[BaseException], None],
    ) -> None:
        self.runner: CallRunner
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._reader = reader
        self._input_columns = input_columns
        self._emit, self._want_input, self._finished = emit, want_input, finished
        self.exited = exited
        self._waiting: deque[tuple[pa.RecordBatch, int]] = deque()
        self._rows: deque[Element] = deque()
        self._rows_waiting = 0
        self._asked = self._ended = self._over = self._filling = False
        self._next_id = 0
        self._in_flight: dict[int, Element] = {}
        self._order: deque[Element] = deque()
        self._group: list[Element] = []
        self._group_timer: asyncio.TimerHandle | None = None

    def start(self, runner: CallRunner) -> None:
        """Begins, with the runner whose outcomes come back to this operator."""
        self.runner = runner
        self._fill()

    def feed(self, batch: pa.RecordBatch) -> None:
        """More input."""
        self._asked = False
        self._waiting.append((batch, 0))
        self._rows_waiting += batch.num_rows
        self._fill()

    def end_input(self) -> None:
        """No more input; what is in flight, retries included, runs to its end."""
        self._asked = False
        self._ended = True
        self._fill()

    def _fill(self) -> None:
        if self._filling:
            return  # a call that ended at once, while the loop below started it
        self._filling = True
        while self._rows_waiting and self._room():
            self._begin(self._next_element())
        self._filling = False
        self._ask_or_end()

    def _ask_or_end(self) -> None:
        if not self._ended:
            if not self._asked and self._rows_waiting < self._options.capacity:
                self._asked = True
                self._want_input()
            return
        if not self._rows_waiting:
            self._call_group()
            if not self._in_flight and not self._order and not self._over:
                self._over = True
                self._finished()

    def _room(self) -> bool:
        held = self._order if self._options.ordered else self._in_flight
        return len(held) < self._options.capacity

    def _next_element(self) -> Element:
        while not self._rows:
            self._read_rows()
        self._rows_waiting -= 1
        return self._rows.popleft()

    def _read_rows(self) -> None:
        batch, start = self._waiting.popleft()
        part = batch.slice(start, _ROWS_READ_AT_ONCE)
        end = start + part.num_rows
        if end < batch.num_rows:
            self._waiting.appendleft((batch, end))
        columns = [part.column(index) for index in self._input_columns]
        names = [str(index) for index in self._input_columns]
        inputs = pa.RecordBatch.from_arrays(columns, names) if columns else part
        for index, row in enumerate(self._reader.read(inputs), start):
            self._rows.append(Element(self._next_id, batch, index, row))
            self._next_id += 1

    def _begin(self, element: Element) -> None:
        self._in_flight[element.id] = element
        if self._options.ordered:
            self._order.append(element)
        element.started = self._loop.time()
        if self._options.timeout_ms:
            element.deadline = self._loop.call_later(
                self._options.timeout_ms / 1000, self._on_deadline, element
            )
        self._attempt(element)

    def _attempt(self, element: Element) -> None:
        element.attempt += 1
        element.attempt_started = self._loop.time()
        if self._options.attempt_timeout_ms:
            element.attempt_timer = self._loop.call_later(
                self._options.attempt_timeout_ms / 1000, self._on_attempt_deadline, element
            )
        if self._options.batch_size is None:
            self.runner.call(element.id, element.attempt, element.row)
        else:
            self._join_group(element, self._options.batch_size)

    def _join_group(self, element: Element, size: int) -> None:
        self._group.append(element)
        if len(self._group) >= size:
            self._call_group()
        elif self._group_timer is None:
            self._group_timer = self._loop.call_later(
                self._options.batch_wait_ms / 1000, self._call_group
            )

    def _call_group(self) -> None:
        if self._group_timer is not None:
            self._group_timer.cancel()
            self._group_timer = None
        members = [element for element in self._group if not element.done]
        self._group = []
        if members:
            self.runner.group(
                [element.id for element in members],
                [element.attempt for element in members],
                [element.row for element in members],
            )

    def completed(self, element_id: int, attempt: int, answer: Any) -> None:
        """Of the runner: an attempt gave ``answer``."""
        element = self._in_flight[element_id]
        element.answer = answer
        self._finish(element)

    def failed(self, element_id: int, attempt: int, failure: Failure) -> None:
        """Of the runner: an attempt failed; another one follows if the retry policy allows it."""
        self._attempt_failed(self._in_flight[element_id], failure)

    def _attempt_failed(self, element: Element, failure: Failure) -> None:
        if element.attempt_timer is not None:
            element.attempt_timer.cancel()
        retry = self._options.retry
        if retry is None or not failure.retryable or element.attempt >= retry.max_attempts:
            element.failure = failure
            self._finish(element)
            return
        if failure.retry_after_ms >= 0:
            delay = failure.retry_after_ms / 1000
        else:
            delay = retry.backoff_s(element.attempt)
        element.retry_timer = self._loop.call_later(delay, self._attempt, element)

    def _on_deadline(self, element: Element) -> None:
        self._abandon(element)
        element.failure = _timed_out(
            "The call was not answered within its total timeout: "
            f"{self._ms_since(element.started)} ms since the first attempt, in attempt "
            f"{element.attempt}. Raise the timeout, or look at why the service is slow."
        )
        self._finish(element)

    def _on_attempt_deadline(self, element: Element) -> None:
        self._abandon(element)
        failure = _timed_out(
            f"Attempt {element.attempt} of the call was not answered within its attempt timeout: "
            f"{self._ms_since(element.attempt_started)} ms. "
            "Raise the attempt timeout, or look at why the service is slow."
        )
        self._attempt_failed(element, failure)

    def _abandon(self, element: Element) -> None:
        self.runner.cancel([(element.id, element.attempt)])
        if element in self._group:
            self._group.remove(element)

    def _ms_since(self, start: float) -> int:
        return round((self._loop.time() - start) * 1000)

    def _finish(self, element: Element) -> None:
        element.stop_timers()
        element.done = True
        element.elapsed_ms = self._ms_since(element.started)
        del self._in_flight[element.id]
        if not self._options.ordered:
            self._emit(element)
        while self._order and self._order[0].done:
            self._emit(self._order.popleft())
        self._fill()


def _timed_out(message: str) -> Failure:
    return Failure("TimeoutError", message, retryable=True)
