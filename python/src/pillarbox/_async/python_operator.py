"""The async operator of engine="python": capacity, order, deadlines and retries on an event loop.

A ``CallRunner`` makes the calls, so that both engines run functions alike.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from .._arrow.rows import RowReader
from .._base.failures import Failure
from .._metered.calls import Feedback
from .._metered.limit_keys import KeyReader, LimitKeys, Values
from .attempts import AttemptedCall, Attempts
from .lanes import Lanes
from .options import AsyncOptions
from .runner import CallRunner

_ROWS_READ_AT_ONCE = 512
_LEAST_ROOM_FOR_KEYS = 4096
_NO_KEYS = LimitKeys((), StructType([]))


class Element(AttemptedCall):
    """One input row, at ``index`` of the batch ``source``; the function sees ``columns`` of it."""

    __slots__ = ("call", "columns", "index", "outside", "source", "values")

    def __init__(
        self,
        scope: str,
        element_id: int,
        source: pa.RecordBatch,
        index: int,
        columns: Sequence[int],
        row: Any,
        values: Values,
    ) -> None:
        super().__init__(scope, element_id, row)
        self.columns = columns
        self.source = source
        self.index = index
        self.values = values
        self.outside = False
        self.call: _Call | None = None

    def given(self) -> object:
        # The values in their stored form: those of a user's type may have a repr without content.
        try:
            return [_in_utc(self.source.column(at)[self.index].as_py()) for at in self.columns]
        except (ValueError, OverflowError):  # a time that Python does not have
            return self.row


def _in_utc(value: Any) -> Any:
    """Return a value of Arrow with its times in UTC: they come in the session's time zone."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc) if value.tzinfo else value
    if isinstance(value, dict):
        return {name: _in_utc(one) for name, one in value.items()}
    return list(map(_in_utc, value)) if isinstance(value, (list, tuple)) else value


class _Call:
    """One running call of the function, for ``left`` elements."""

    __slots__ = ("left",)

    def __init__(self, elements: int) -> None:
        self.left = elements


class AsyncOperator(Attempts[Element]):
    """Takes batches of rows and passes finished elements to ``emit``; on the loop's thread only.

    At most ``capacity`` elements are in flight, and ten times as many if those are counted that are
    done and wait for their turn.
    Calls are named by ``scope`` and the number of their row.
    ``want_input`` is called whenever fewer than ``capacity`` rows are left to start; ``feed`` or
    ``end_input`` answers it. ``finished`` is called after the last element was emitted, ``exited``
    with an error that ends the task. Deadlines start with an element's call, after it has waited
    for its group and for the limit.
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
        scope: str,
        keys: LimitKeys = _NO_KEYS,
    ) -> None:
        super().__init__(options, exited)
        self._scope = scope
        self._reader = reader
        self._input_columns = input_columns
        self._keys = KeyReader(keys)
        self._has_keys = bool(keys.positions)
        self._max_waiting = options.max_waiting or 1  # the order is empty where there is none
        self._emit, self._want_input, self._finished = emit, want_input, finished
        self._waiting: deque[tuple[pa.RecordBatch, int]] = deque()
        self._rows: deque[Element] = deque()
        self._rows_waiting = 0
        self._asked = self._at_end = self._over = False
        self._next_id = 0
        self._order: deque[Element] = deque()
        self._group: list[Element] = []
        self._group_timer: asyncio.TimerHandle | None = None
        self._lanes: Lanes[Element] = Lanes(options.limit, self, self._later)

    def start(self, runner: CallRunner) -> None:
        """Begin with the runner that reports to this operator."""
        self.runner = runner
        self._guarded(self._fill)

    def feed(self, batch: pa.RecordBatch) -> None:
        self._asked = False
        self._waiting.append((batch, 0))
        self._rows_waiting += batch.num_rows
        self._guarded(self._fill)

    def end_input(self) -> None:
        """End the input; elements in flight run to their end, with their retries."""
        self._asked = False
        self._at_end = True
        self._guarded(self._fill)

    def _may_start(self) -> bool:
        return bool(self._rows_waiting) and self._room()

    def _start_next(self) -> None:
        self._begin(self._next_element())

    def _filled(self) -> None:
        if not self._at_end:
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
        outside = self._lanes.outside
        capacity = self._options.capacity
        return (
            len(self._in_flight) - outside < capacity
            and len(self._order) - outside < self._max_waiting
            and outside < max(capacity, _LEAST_ROOM_FOR_KEYS)
        )

    def has_place(self) -> bool:
        """Return True if another call may be under way, where some wait without a place."""
        places = len(self._in_flight) - self._lanes.outside
        return not self._has_keys or places < self._options.capacity

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
        rows = zip(self._reader.read_each(inputs), self._keys.read(part), strict=True)
        for index, (row, values) in enumerate(rows, start):
            made = self._scope, self._next_id, batch, index, self._input_columns, row, values
            self._rows.append(Element(*made))
            self._next_id += 1

    def _begin(self, element: Element) -> None:
        if self._options.ordered:
            self._order.append(element)
        super()._begin(element)

    def _request(self, element: Element) -> None:
        """Request another attempt, by itself or in a group."""
        batch = self._options.batch_size
        if batch is None:
            self._request_call([element])
            return
        self._group.append(element)
        if len(self._group) >= batch.rows:
            self._group = _undecided(self._group)
        if len(self._group) >= batch.rows:
            self._send_group()
        elif self._group_timer is None:
            wait_s = batch._wait_ms / 1000
            self._group_timer = self._later(wait_s, self._send_group)

    def _send_group(self) -> None:
        if self._group_timer is not None:
            self._group_timer.cancel()
            self._group_timer = None
        group, self._group = self._group, []
        self._request_call(group)

    def _send_if_none_comes(self) -> None:
        """Send a group that no further element can join. (A call that fails may add one.)"""
        if self._at_end and not self._rows_waiting and not self._backing_off and self._group:
            self._send_group()

    def _request_call(self, elements: list[Element]) -> None:
        """Make one call for all ``elements`` as soon as the limit allows it."""
        if elements:
            self._lanes.add(elements)

    def start_call(self, elements: Sequence[Element]) -> None:
        """Start a call that has passed its limits, for elements that are not done."""
        self._begin_attempts(elements)
        if self._options.batch_size is None:
            (element,) = elements
            self.runner.call(element.id, element.attempt, element.row, element.call_id)
        else:
            self.runner.group(
                [element.id for element in elements],
                [element.attempt for element in elements],
                [element.row for element in elements],
                [element.call_id for element in elements],
            )

    def _pause(self, element: Element, delay_s: float) -> None:
        self._lanes.pause(element.values, delay_s)

    def _receive(self, element: Element, told: Feedback) -> None:
        self._lanes.told(element.values, told.remaining, told.reset_s)

    def _begin_attempts(self, elements: Sequence[Element]) -> None:
        call = _Call(len(elements))
        for element in elements:
            element.call = call
        self._note_attempts(*elements)

    def _attempt_over(self, element: Element) -> None:
        """End the call with the last of its elements."""
        super()._attempt_over(element)
        call, element.call = element.call, None
        if call is not None:
            call.left -= 1
            if not call.left:
                self._lanes.end(element.values)

    def _attempt_failed(self, element: Element, failure: Failure) -> None:
        super()._attempt_failed(element, failure)
        self._lanes.serve()

    def _retry(self, element: Element) -> None:
        super()._retry(element)
        self._send_if_none_comes()

    def _ended(self, element: Element) -> None:
        self._lanes.leave(element)
        if element.failure is not None and self._options.on_error == "raise":
            self._emit(element)  # which ends the task, and does not wait for its turn
            return
        if not self._options.ordered:
            self._emit(element)
        while self._order and self._order[0].done:
            self._emit(self._order.popleft())
        self._lanes.serve()


def _undecided(elements: list[Element]) -> list[Element]:
    return [element for element in elements if not element.done]
