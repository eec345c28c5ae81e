"""Runs one keyed process function over rows and timers of some keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any

from ..errors import shown
from .context import (
    EVENT_TIMER,
    FOREVER,
    PROCESSING_TIMER,
    ROW,
    UNKNOWN,
    Context,
    OpenContext,
)
from .declare import HANDLES, StateRegistry
from .methods import has_own, without_on_timer
from .timers import Timer, Timers

Accept = Callable[[Any], Any]

_SHOWN = 200  # characters of a row


class KeyedRuntime:
    """One function with its states and timers, over keys that are known by their slot.

    Whoever drives it binds the states and the timers of the slots (a frame of a worker, or all
    keys of a test), moves the clocks, and calls ``run_rows``, ``run_events`` and the ``fire_``
    methods. ``rows`` collects what the function emits, ``ends[i]`` is its length after event i of
    ``event_slots``. What the function raises comes out as it is; ``current_event`` tells where.

    ``sorted_input``: rows and event-time timers of a key run in the order of time, a row of time t
    before a timer of time t. The function's watermark then is that of its event alone, t - 1 for
    a row and t for a timer, so that neither it nor event-time TTL depends on how the input is cut.
    """

    def __init__(
        self,
        function: Any,
        name: str,
        *,
        event_time: bool = True,
        sorted_input: bool = False,
        tags: dict[str, Accept] | None = None,
        state_kinds: tuple[str, ...] | None = None,
    ) -> None:
        self.function = function
        self.context = Context(name, tags or {})
        refusal = None
        if not has_own(function, "on_timer"):
            refusal = lambda: without_on_timer(function, name)  # noqa: E731
        self.timers = self.context.timers = Timers(self.context, event_time, refusal)
        self.registry = StateRegistry(self.context, event_time, state_kinds or tuple(HANDLES))
        self.sorted_input = sorted_input
        self._watermark = UNKNOWN
        self.rows: list[Any] = []
        self.ends: list[int] = []
        self.event_slots: list[int] = []
        self._events: list[Any] = []

    def open(self) -> None:
        """Calls the function's ``open``; states can be declared in it only."""
        self.registry.is_open = True
        try:
            self.function.open(OpenContext(self.registry.declare, self.context._name))
        finally:
            self.registry.is_open = False

    def set_clocks(self, watermark: int, processing_time: int) -> None:
        """``UNKNOWN`` for no watermark yet."""
        self._watermark = self.context._watermark = watermark
        self.context.current_processing_time = processing_time

    def begin(self, keys: Any) -> None:
        """Starts a round of events of ``keys`` (anything that gives the key of a slot)."""
        self.context._keys = keys
        self.context.side_rows = []
        self.rows, self.ends, self.event_slots, self._events = [], [], [], []

    def end(self) -> None:
        """The round is over: state and timers are out of reach until the next event."""
        self.context._slot = None
        self._events = []

    def run_rows(
        self, slots: Sequence[int], times: Sequence[int | None], rows: Sequence[Any]
    ) -> None:
        """Processes rows as they come; ``times`` are their timestamps in ms, None for none."""
        context, process = self.context, self.function.process
        collected, ended = self.rows, self.ends.append
        append, extend = collected.append, collected.extend
        context._event = ROW
        self.event_slots.extend(slots)
        self._events.extend(rows)
        for slot, time, row in zip(slots, times, rows, strict=True):
            context._slot = slot
            context.timestamp = time
            answer = process(row, context)
            if answer is not None:
                kind = answer.__class__
                if kind is GeneratorType or kind is list:
                    extend(answer)
                elif kind is tuple or kind is dict or not hasattr(answer, "__next__"):
                    if answer or kind is not tuple:
                        append(answer)
                else:
                    extend(answer)
            ended(len(collected))

    def run_events(
        self,
        kinds: Sequence[int],
        slots: Sequence[int],
        times: Sequence[int | None],
        rows: Sequence[Any],
    ) -> None:
        """Rows and due timers, those of a key in the order of time; ``rows`` has the rows only.

        A timer that was deleted meanwhile does not fire; one that is registered for a time that
        has passed fires at its place, and after the last event at the latest.
        """
        for kind, slot, time in zip(kinds, slots, times, strict=True):
            if kind != ROW and time is not None:
                self.timers.hand_over(slot, kind, time)
        next_row = iter(rows)
        for kind, slot, time in zip(kinds, slots, times, strict=True):
            if kind == ROW:
                self._row(slot, time, next(next_row))
            elif time is not None:
                self._fire_due(slot, kind, time)
        self._fire_rest(kinds, slots)

    def fire_event_time(self, slots: Sequence[int], watermark: int) -> None:
        """Fires the event-time timers of ``slots`` up to ``watermark``, a key after the other."""
        for slot in slots:
            self._fire_due(slot, EVENT_TIMER, watermark)

    def fire_processing_time(self, slots: Sequence[int], time: int) -> None:
        """Fires the processing-time timers of ``slots`` up to ``time``."""
        for slot in slots:
            self._fire_due(slot, PROCESSING_TIMER, time)

    def finish_keys(self, slots: Sequence[int]) -> None:
        """In a batch no more rows of these keys come: all timers fire, event-time timers first.

        Timers that are registered by that are dropped, as in Flink's batch mode: a timer that
        sets the next one would never end.
        """
        self._watermark = self.context._watermark = FOREVER
        self.timers.frozen = True
        try:
            self.fire_event_time(slots, FOREVER)
            self.fire_processing_time(slots, FOREVER)
        finally:
            self.timers.frozen = False

    def fire_one(self, slot: int, kind: int, time: int) -> None:
        """Fires one timer, if it is still there."""
        if not self.timers.take(slot, kind, time):
            return
        context = self.context
        context._slot, context._event, context.timestamp = slot, kind, time
        if self.sorted_input and kind == EVENT_TIMER:
            context._watermark = time
        self._events.append(Timer(time, str(context.time_domain)))
        self._collect(slot, self.function.on_timer(time, context))

    def current_event(self) -> str:
        """What was being processed, for messages."""
        done = len(self.ends)
        event = self._events[done] if done < len(self._events) else None
        if isinstance(event, Timer):
            return f"on_timer({event.timestamp}) in {event.domain} time"
        return f"process({shown(event, _SHOWN)})"

    def go_back_to(self, event: int) -> None:
        """Makes an earlier event of the round the current one, for messages."""
        self.context._slot = self.event_slots[event]
        del self.ends[event:]

    def _row(self, slot: int, time: int | None, row: Any) -> None:
        context = self.context
        if self.sorted_input and time is not None:
            self._fire_due(slot, EVENT_TIMER, time - 1)
            context._watermark = time - 1
        context._slot, context._event, context.timestamp = slot, ROW, time
        self._events.append(row)
        self._collect(slot, self.function.process(row, context))

    def _fire_due(self, slot: int, kind: int, limit: int) -> None:
        """In order of time; what the firing registers up to ``limit`` fires too."""
        due = self.timers.next_due(slot, kind, limit)
        while due is not None:
            self.fire_one(slot, kind, due)
            due = self.timers.next_due(slot, kind, limit)

    def _fire_rest(self, kinds: Sequence[int], slots: Sequence[int]) -> None:
        touched = dict.fromkeys(slots)
        if self.sorted_input or EVENT_TIMER in kinds:
            self.fire_event_time(list(touched), self._watermark)
        if PROCESSING_TIMER in kinds:
            self.fire_processing_time(list(touched), self.context.current_processing_time)

    def _collect(self, slot: int, answer: Any) -> None:
        if answer is not None and not (answer.__class__ is tuple and not answer):
            is_many = isinstance(answer, list) or hasattr(answer, "__next__")
            self.rows.extend(answer) if is_many else self.rows.append(answer)
        self.event_slots.append(slot)
        self.ends.append(len(self.rows))
