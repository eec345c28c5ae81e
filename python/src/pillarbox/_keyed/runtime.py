"""The run of one keyed process function over rows and timers of some keys."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import get_ident
from types import GeneratorType
from typing import Any

from .._base.failures import message_of
from .._base.values import LONGEST_ROW, row_text, shown_value
from ..errors import PillarboxError, error
from .context import EVENT_TIMER, FOREVER, PROCESSING_TIMER, ROW, UNKNOWN, KeyedContext
from .declare import ROW_KINDS, StateRegistry
from .methods import has_own, without_on_timer
from .opening import OpenContext
from .surface import Timer
from .timers import KeyTimers

Accept = Callable[[Any], Any]


def rows_of(answer: Any) -> Any:
    """Return the rows of a method's answer: those of a list or generator, or just one."""
    if answer is None or (answer.__class__ is tuple and not answer):
        return ()
    return answer if isinstance(answer, list) or hasattr(answer, "__next__") else (answer,)


class KeyedRuntime:
    """One function with its states and timers, over keys that are known by their index.

    Its driver binds the states and the timers of these keys (a frame of a worker, or all
    keys of a test), sets the clocks, and hands over events in an order that is right for each key:
    ``run_rows``, ``run_events``, and in a batch ``finish_keys``. It places the timers that the
    function sets meanwhile. ``rows`` collects what the function emits, ``ends[i]`` is its length
    after event i of ``event_keys``. What the function raises comes out as it is;
    ``current_event`` tells where.

    ``sorted_input``: every key has its own time, and so has every key of a batch when it
    ends: all rows of a time t, which see t - 1, then the timers up to t, which see t, or their own
    time if no row was there. It never goes back.
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
        self.context = self._context(name, tags or {})
        self.timers = self.context.timers = KeyTimers(self.context, event_time, self._refusal())
        self.registry = StateRegistry(self.context, event_time, state_kinds or ROW_KINDS)
        self.sorted_input = sorted_input
        self._start = UNKNOWN
        self._reached: dict[int, int] = {}
        self.rows: list[Any] = []
        self.ends: list[int] = []
        self.event_keys: list[int] = []
        self._events: list[Any] = []
        self._place: str | None = None
        self._late: Iterator[bool] | None = None

    def _context(self, name: str, tags: dict[str, Accept]) -> KeyedContext:
        return KeyedContext(name, tags)

    @property
    def has_timers(self) -> bool:
        """True if the function may set timers."""
        return has_own(self.function, "on_timer") or bool(self.registry.timers)

    @property
    def uses_event_time(self) -> bool:
        """True if the function may set timers, or has state that expires by event time."""
        ttls = (state.declaration.ttl for state in self.registry.states.values())
        return self.has_timers or any(ttl and ttl.time_domain == "event_time" for ttl in ttls)

    def _refusal(self) -> Callable[[], Exception] | None:
        """Return a function that makes the error for a timer; None if timers are allowed."""
        if has_own(self.function, "on_timer"):
            return None
        return lambda: without_on_timer(self.function, self.context._name)

    def open(self) -> None:
        """Call the function's ``open``; states can be declared in it only."""
        self.registry.is_open = True
        try:
            self.function.open(OpenContext(self.registry.declare, self.context._name))
        finally:
            self.registry.is_open = False
        if self.registry.timers and not has_own(self.function, "on_timers"):
            raise without_on_timer(self.function, self.context._name, "on_timers")

    def set_clocks(self, watermark: int, processing_time: int, *, of_first: bool = False) -> None:
        """Set how far time has come: ``UNKNOWN`` for no watermark, ``of_first`` for key 0 only."""
        self.context._watermark = watermark
        self.context.processing_time = processing_time
        self._start = UNKNOWN if of_first else watermark
        self._reached = {0: watermark} if of_first else {}

    def begin(self, keys: Any) -> None:
        """Start a round of events of ``keys`` (anything that gives the key of an index)."""
        self.context._keys = keys
        self.context.side_rows = []
        self.rows, self.ends, self.event_keys, self._events = [], [], [], []
        self._late, self.context.is_late = None, False
        self._place = None

    def release(self) -> None:
        """Free the rows and timers of the last round: the next one may come much later."""
        self.begin(())
        self.timers.start(())

    def mark_late(self, flags: Iterable[bool]) -> None:
        """Tell which of the round's rows, in their order, are late. They go to ``run_rows``."""
        self._late = iter(flags)

    def end(self) -> None:
        """End the round: state and timers are out of reach until the next event."""
        self.context.leave()
        self._events = []

    def run_rows(
        self, key_indexes: Sequence[int], times: Sequence[int | None], rows: Sequence[Any]
    ) -> None:
        """Process rows as they come; ``times`` are their timestamps in ms, None for none."""
        context = self.context
        process = self.function.process if self._late is None else self._marking(self._late)
        collected, ended = self.rows, self.ends.append
        append, extend = collected.append, collected.extend
        context._event = ROW
        self.event_keys.extend(key_indexes)
        self._events.extend(rows)
        context._thread = get_ident()
        count = len(collected)
        for key_index, time, row in zip(key_indexes, times, rows, strict=True):
            context._key_index = key_index
            context.timestamp = time
            answer = process(row, context)
            if answer is not None:
                kind = answer.__class__
                if kind is tuple:
                    if answer:
                        append(answer)
                        count += 1
                elif kind is GeneratorType or (
                    kind is not dict and (issubclass(kind, list) or hasattr(answer, "__next__"))
                ):
                    extend(answer)
                    count = len(collected)
                else:
                    append(answer)
                    count += 1
            ended(count)

    def _marking(self, late: Iterator[bool]) -> Callable[[Any, Any], Any]:
        """Return ``process`` for rows with their lateness."""
        process, context = self.function.process, self.context

        def marked(row: Any, ctx: Any) -> Any:
            context.is_late = next(late)
            return process(row, ctx)

        return marked

    def run_events(
        self,
        kinds: Sequence[int],
        key_indexes: Sequence[int],
        times: Sequence[int],
        rows: Sequence[Any],
        horizon: int,
    ) -> None:
        """Process rows and fire due timers; ``rows`` has the rows only, with ``times`` if sorted.

        A timer that was deleted meanwhile does not fire; one that is registered meanwhile fires at
        its place, after the last event only up to ``horizon``: no event of that time is to come.
        """
        for kind, key_index, time in zip(kinds, key_indexes, times, strict=True):
            if kind != ROW:
                self.timers.hand_over(key_index, kind, time)
        next_row = iter(rows)
        for kind, key_index, time in zip(kinds, key_indexes, times, strict=True):
            if kind == ROW:
                self._row(key_index, time, next(next_row))
            else:
                self._fire_due(key_index, kind, time)
        kind = PROCESSING_TIMER if PROCESSING_TIMER in kinds else EVENT_TIMER
        for key_index in dict.fromkeys(key_indexes):
            if not self._may_follow(key_index, kind, horizon):
                self._fire_due(key_index, kind, horizon)

    def finish_keys(self, key_indexes: Sequence[int]) -> None:
        """Fire all timers of keys that get no more rows in a batch, event-time timers first.

        Timers that are registered meanwhile are dropped, as in Flink's batch mode: a timer that
        sets the next one would never end.
        """
        for key_index in key_indexes:
            if self.sorted_input:  # the rows of the last time are through
                self._fire_due(key_index, EVENT_TIMER, self._time_of(key_index))
            self.timers.frozen = True
            try:
                self._fire_due(key_index, EVENT_TIMER, FOREVER)
                self._fire_due(key_index, PROCESSING_TIMER, FOREVER)
            finally:
                self.timers.frozen = False

    def current_event(self) -> dict[str, str]:
        """Return the current ``event`` and its ``row`` or ``timer``, for messages."""
        if self._place is not None:
            return {"event": self._place}
        done = len(self.ends)
        event = self._events[done] if done < len(self._events) else None
        if isinstance(event, Timer):
            at, domain = event.timestamp, event.time_domain.replace("_", " ")
            return {
                "event": f"on_timer({at}) in {domain}",
                "timer": f"{at} in {domain}",
            }
        told = {"event": f"process({shown_value(event, limit=LONGEST_ROW)})"}
        return told if event is None else {**told, "row": row_text(event)}

    def go_back_to(self, event: int) -> None:
        """Make an earlier event of the round the current one, for messages."""
        self.context.enter(self.event_keys[event])
        del self.ends[event:]

    def blame(self, row: int, ends: Sequence[int]) -> None:
        """Make the event that gave the ``row`` current; ``ends`` has the end of each one's rows."""
        self.go_back_to(bisect_right(ends, row))

    def blame_key(self, key_index: int, place: str) -> None:
        """Make a key current, and ``place`` its event: what it has there is of several events."""
        self.context.enter(key_index)
        self._place = place

    def failed(self, problem: BaseException) -> PillarboxError:
        """Return KEYED_CALL_FAILED for the ``problem`` of the current event."""
        context = self.context
        key = "none" if context._key_index is None else context._shown_key(context._key_index)
        failed = error(
            "KEYED_CALL_FAILED",
            operator=context._name,
            key=key,
            **self.current_event(),
            kind=type(problem).__name__,
            reason=message_of(problem).rstrip("."),
            hint=_hint(problem) if context.timestamp is None else "",
        )
        failed.__cause__ = problem
        return failed

    def _row(self, key_index: int, time: int, row: Any) -> None:
        context = self.context
        if time > self._time_of(key_index):
            self._fire_due(key_index, EVENT_TIMER, time - 1)
            self._reached[key_index] = time
        context._watermark = time - 1
        context.enter(key_index)
        context._event, context.timestamp = ROW, time
        self._events.append(row)
        self._collect(key_index, self.function.process(row, context))

    def _time_of(self, key_index: int) -> int:
        return self._reached.get(key_index, self._start)

    def _may_follow(self, key_index: int, kind: int, horizon: int) -> bool:
        """Return True if more rows of the key's current event time may follow."""
        return self.sorted_input and kind == EVENT_TIMER and self._time_of(key_index) > horizon

    def _fire_due(self, key_index: int, kind: int, limit: int) -> None:
        """Fire timers in order of time, also those that the firing registers up to ``limit``."""
        due = self.timers.next_due(key_index, kind, limit)
        while due is not None:
            self._fire(key_index, kind, due)
            due = self.timers.next_due(key_index, kind, limit)

    def _fire(self, key_index: int, kind: int, time: int) -> None:
        self.timers.take(key_index, kind, time)
        context, reached = self.context, self._time_of(key_index)
        if kind == EVENT_TIMER and time > reached:
            self._reached[key_index] = reached = time
        context._watermark = reached
        context.enter(key_index)
        context._event, context.timestamp, context.is_late = kind, time, False
        self._events.append(Timer(time, "event_time" if kind == EVENT_TIMER else "processing_time"))
        self.timers.check_handled()
        self._collect(key_index, self.function.on_timer(time, context))

    def _collect(self, key_index: int, answer: Any) -> None:
        self.rows.extend(rows_of(answer))
        self.event_keys.append(key_index)
        self.ends.append(len(self.rows))


def _hint(problem: BaseException) -> str:
    """Return the remedy for a function that computes with the time of a row without one."""
    if isinstance(problem, TypeError) and "NoneType" in message_of(problem):
        return (
            " ctx.timestamp is None here: name the column of the event time by timestamp=. In a "
            "stream df.withWatermark(column, delay) before process_keyed does so too."
        )
    return ""
