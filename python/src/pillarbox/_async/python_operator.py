"""The async operator in Python: what the JVM does for engine="jvm", on one event loop.

A window of elements slides over the input: capacity, order, deadlines and retries live here; the
calls themselves are made by the worker's ``CallRunner``, so both engines run functions alike.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from .._arrow.rows import RowReader
from .._base.failures import Failure
from .attempts import timed_out
from .options import MOST_THREADS, AsyncOptions
from .places import SLICE_S
from .runner import CallRunner

_ROWS_READ_AT_ONCE = 512


class Element:
    """One input row on its way: ``source`` and ``index`` say where it came from."""

    __slots__ = (
        "answer",
        "attempt",
        "attempt_started",
        "attempt_timer",
        "call",
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
        self.call: _Call | None = None
        self.attempt_started = 0.0
        self.started = 0.0
        self.elapsed_ms = 0
        self.done = False
        self.answer: Any = None
        self.failure: Failure | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.attempt_timer: asyncio.TimerHandle | None = None
        self.retry_timer: asyncio.TimerHandle | None = None


class _Call:
    """One call of the function that is under way, for ``left`` elements."""

    __slots__ = ("left",)

    def __init__(self, elements: int) -> None:
        self.left = elements


class AsyncOperator:
    """Takes batches of rows, gives finished elements to ``emit``; lives on the loop's thread.

    At most ``capacity`` elements are in flight, those that are done but wait for their turn
    included. ``want_input`` is called whenever less than ``capacity`` rows are left to start;
    ``feed`` or ``end_input`` answers it. ``finished`` is called after the last element was emitted,
    ``exited`` with what ends the task otherwise. Deadlines start with an element's call: neither
    company nor a thread that it waits for before counts.
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
        self._asked = self._ended = self._over = self._filling = self._paused = False
        self._next_id = 0
        self._in_flight: dict[int, Element] = {}
        self._order: deque[Element] = deque()
        self._backing_off = 0
        self._group: list[Element] = []
        self._group_timer: asyncio.TimerHandle | None = None
        self._most_calls = sys.maxsize
        self._calls = 0
        self._line: deque[list[Element]] = deque()

    def start(self, runner: CallRunner) -> None:
        """Begins, with the runner whose outcomes come back to this operator."""
        self.runner = runner
        if runner.uses_threads:
            self._most_calls = min(self._options.capacity, MOST_THREADS)
        self._guarded(self._fill)

    def feed(self, batch: pa.RecordBatch) -> None:
        """More input."""
        self._asked = False
        self._waiting.append((batch, 0))
        self._rows_waiting += batch.num_rows
        self._guarded(self._fill)

    def end_input(self) -> None:
        """No more input; what is in flight, retries included, runs to its end."""
        self._asked = False
        self._ended = True
        self._guarded(self._fill)

    def _guarded(self, step: Callable[..., None], *arguments: Any) -> None:
        """Runs ``step``. Of what it raises the loop would only make a line in the log."""
        try:
            step(*arguments)
        except BaseException as problem:
            self.exited(problem)

    def _later(
        self, delay_s: float, step: Callable[..., None], *arguments: Any
    ) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, self._guarded, step, *arguments)

    def _fill(self) -> None:
        """Starts elements while there is room; for 10 ms, then in another turn of the loop."""
        if self._filling or self._paused:
            return  # a call that ended at once, while the loop below started it
        self._filling = True
        ends = time.monotonic() + SLICE_S
        while self._rows_waiting and self._room() and not self._paused:
            self._begin(self._next_element())
            if time.monotonic() >= ends:
                self._paused = True
                self._loop.call_soon(self._guarded, self._resume)
        self._filling = False
        if not self._paused:
            self._ask_or_end()

    def _resume(self) -> None:
        self._paused = False
        self._fill()

    def _ask_or_end(self) -> None:
        if not self._ended:
            if not self._asked and self._rows_waiting < self._options.capacity:
                self._asked = True
                self._want_input()
            return
        if not self._rows_waiting:
            self._send_if_none_comes()
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
        for index, row in enumerate(self._reader.read_each(inputs), start):
            self._rows.append(Element(self._next_id, batch, index, row))
            self._next_id += 1

    def _begin(self, element: Element) -> None:
        self._in_flight[element.id] = element
        if self._options.ordered:
            self._order.append(element)
        self._request(element)

    def _request(self, element: Element) -> None:
        """Another attempt, by itself or with others."""
        size = self._options.batch_size
        if size is None:
            self._request_call([element])
            return
        self._group.append(element)
        if len(self._group) >= size:
            self._group = _undecided(self._group)
        if len(self._group) >= size:
            self._send_group()
        elif self._group_timer is None:
            wait_s = self._options.batch_wait_ms / 1000
            self._group_timer = self._later(wait_s, self._send_group)

    def _send_group(self) -> None:
        if self._group_timer is not None:
            self._group_timer.cancel()
            self._group_timer = None
        group, self._group = self._group, []
        self._request_call(group)

    def _send_if_none_comes(self) -> None:
        """A group does not wait for company that can't come. (A call that fails may bring some.)"""
        if self._ended and not self._rows_waiting and not self._backing_off and self._group:
            self._send_group()

    def _request_call(self, elements: list[Element]) -> None:
        """One call for all of them, now or when there is a thread for it."""
        if self._calls < self._most_calls:
            self._start_call(elements)
        else:
            self._line.append(elements)

    def _start_calls(self) -> None:
        while self._line and self._calls < self._most_calls:
            self._start_call(self._line.popleft())

    def _start_call(self, elements: list[Element]) -> None:
        if self._options.batch_size is None:
            (element,) = elements
            if not element.done:
                self._begin_attempts(elements)
                self.runner.call(element.id, element.attempt, element.row)
        elif elements := _undecided(elements):
            self._begin_attempts(elements)
            self.runner.group(
                [element.id for element in elements],
                [element.attempt for element in elements],
                [element.row for element in elements],
            )

    def _begin_attempts(self, elements: list[Element]) -> None:
        call = _Call(len(elements))
        self._calls += 1
        for element in elements:
            element.call = call
            self._note_attempt(element)

    def _note_attempt(self, element: Element) -> None:
        element.attempt += 1
        element.attempt_started = self._loop.time()
        if element.attempt == 1:
            element.started = element.attempt_started
            if self._options.timeout_ms:
                timeout_s = self._options.timeout_ms / 1000
                element.deadline = self._later(timeout_s, self._on_deadline, element)
        if self._options.attempt_timeout_ms:
            timeout_s = self._options.attempt_timeout_ms / 1000
            element.attempt_timer = self._later(timeout_s, self._on_attempt_deadline, element)

    def _attempt_over(self, element: Element) -> None:
        """The present attempt, if there is one, has ended; its call with the last of them."""
        if element.attempt_timer is not None:
            element.attempt_timer.cancel()
        call, element.call = element.call, None
        if call is not None:
            call.left -= 1
            self._calls -= not call.left

    def completed(self, element_id: int, attempt: int, answer: Any) -> None:
        """Of the runner: an attempt gave ``answer``."""
        element = self._in_flight[element_id]
        self._attempt_over(element)
        element.answer = answer
        self._finish(element)

    def failed(self, element_id: int, attempt: int, failure: Failure) -> None:
        """Of the runner: an attempt failed; another one follows if the retry policy allows it."""
        self._attempt_failed(self._in_flight[element_id], failure)

    def _attempt_failed(self, element: Element, failure: Failure) -> None:
        self._attempt_over(element)
        retry = self._options.retry
        if retry is None or not failure.retryable or element.attempt >= retry.max_attempts:
            self._fail(element, failure)
            return
        if failure.retry_after_ms >= 0:
            delay = failure.retry_after_ms / 1000
        else:
            delay = retry.backoff_s(element.attempt)
        self._backing_off += 1
        element.retry_timer = self._later(delay, self._retry, element)
        self._start_calls()

    def _retry(self, element: Element) -> None:
        self._end_back_off(element)
        self._request(element)
        self._send_if_none_comes()

    def _end_back_off(self, element: Element) -> None:
        if element.retry_timer is not None:
            element.retry_timer.cancel()
            element.retry_timer = None
            self._backing_off -= 1

    def _on_deadline(self, element: Element) -> None:
        self._abandon(element)
        message = (
            "The call was not answered within its total timeout: "
            f"{self._ms_since(element.started)} ms since the first attempt, in attempt "
            f"{element.attempt}. Raise the timeout, or look at why the service is slow."
        )
        self._end_back_off(element)
        self._fail(element, timed_out(message))

    def _on_attempt_deadline(self, element: Element) -> None:
        self._abandon(element)
        failure = timed_out(
            f"Attempt {element.attempt} of the call was not answered within its attempt timeout: "
            f"{self._ms_since(element.attempt_started)} ms. "
            "Raise the attempt timeout, or look at why the service is slow."
        )
        self._attempt_failed(element, failure)

    def _abandon(self, element: Element) -> None:
        self.runner.cancel([(element.id, element.attempt)])
        self._attempt_over(element)

    def _ms_since(self, start: float) -> int:
        return round((self._loop.time() - start) * 1000)

    def _fail(self, element: Element, failure: Failure) -> None:
        element.failure = failure
        self._finish(element)

    def _finish(self, element: Element) -> None:
        if element.deadline is not None:
            element.deadline.cancel()
        if element.attempt_timer is not None:
            element.attempt_timer.cancel()
        element.done = True
        element.elapsed_ms = self._ms_since(element.started)
        del self._in_flight[element.id]
        if not self._options.ordered:
            self._emit(element)
        while self._order and self._order[0].done:
            self._emit(self._order.popleft())
        self._start_calls()
        self._fill()


def _undecided(elements: list[Element]) -> list[Element]:
    return [element for element in elements if not element.done]
