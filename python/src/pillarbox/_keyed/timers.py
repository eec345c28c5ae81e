"""The timers of some keys, which are registered, deleted, listed by key, and taken when due."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from threading import get_ident
from typing import Any, NamedTuple

from .._base.checks import is_number
from .._base.values import shown_value
from ..errors import PillarboxError, error
from .context import EVENT_TIMER, PROCESSING_TIMER, KeyedContext
from .surface import Timer, Timers

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
_LIMIT = 1 << 63

_FEW = 8  # for up to so many times finding the least is faster than making a heap

REGISTER, DELETE = 0, 1

Load = Callable[[int], Iterable[tuple[int, int]]]


class TimerChange(NamedTuple):
    """The change of one timer of a key; ``op`` is REGISTER, or DELETE (also if it has fired)."""

    key_index: int
    kind: int
    op: int
    timestamp: int


# Key indexes, kinds, ops and times, each a sequence of one number a change.
TimerChanges = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]

NO_CHANGES: TimerChanges = ((), (), (), ())


def as_columns(changes: Sequence[TimerChange]) -> TimerChanges:
    """Return changes as sequences of one number each."""
    if not changes:
        return NO_CHANGES
    key_indexes, kinds, ops, times = zip(*changes, strict=True)
    return key_indexes, kinds, ops, times


class KeyTimers(Timers):
    """The timers of all keys of a runtime; a function sees those of the current key.

    ``refusal`` returns the error for a timer of a function without ``on_timer``.

    A key with many timers gets a heap of them when its earliest one is needed. Times that are taken
    out stay in the heap until they are the least; those that are not pending are skipped then.
    """

    __slots__ = (
        "_at", "_before", "_deleted", "_fired", "_has_event_time", "_heaps", "_load", "_loaded",
        "_pending", "_refusal", "frozen",
    )  # fmt: skip

    def __init__(
        self,
        at: KeyedContext,
        has_event_time: bool = True,
        refusal: Callable[[], Exception] | None = None,
    ) -> None:
        self._at = at
        self._refusal = refusal
        self._has_event_time = has_event_time
        self._pending: dict[int, dict[int, set[int]]] = {EVENT_TIMER: {}, PROCESSING_TIMER: {}}
        self._before: dict[int, dict[int, frozenset[int]]] = {}
        self._deleted: dict[int, dict[int, set[int]]] = {}
        self._load: Load | None = None
        self._loaded: set[int] = set()
        self.frozen = False
        self.start(())

    def register_event_time(self, time: int | datetime) -> None:
        if not self._has_event_time:
            raise error("TIMER_WITHOUT_WATERMARK", operator=self._at._name)
        self._register(EVENT_TIMER, time)

    def register_processing_time(self, time: int | datetime) -> None:
        self._register(PROCESSING_TIMER, time)

    def delete_event_time(self, time: int | datetime) -> None:
        self._delete(EVENT_TIMER, time)

    def delete_processing_time(self, time: int | datetime) -> None:
        self._delete(PROCESSING_TIMER, time)

    def delete_all(self) -> None:
        key_index = self._at.key_index()
        self._ask(key_index)
        for by_key in self._pending.values():
            by_key.pop(key_index, None)

    def list(self) -> Sequence[Timer]:
        key_index = self._at.key_index()
        return self.of(key_index)

    def of(self, key_index: int) -> Sequence[Timer]:
        """Return the timers of one key, the earliest first."""
        self._ask(key_index)
        event = self._pending[EVENT_TIMER].get(key_index, ())
        processing = self._pending[PROCESSING_TIMER].get(key_index, ())
        return sorted(
            [Timer(time, "event_time") for time in event]
            + [Timer(time, "processing_time") for time in processing]
        )

    def start(self, existing: Iterable[tuple[int, int, int]], load: Load | None = None) -> None:
        """Set the timers to ``(key_index, kind, time)``, without a change.

        With ``load`` there may be others, which are loaded only when timers are listed: it returns
        the ``(kind, time)`` of all timers of a key that their owner has.
        """
        event: dict[int, set[int]] = {}
        processing: dict[int, set[int]] = {}
        for key_index, kind, time in existing:
            times = event if kind == EVENT_TIMER else processing
            times.setdefault(key_index, set()).add(time)
        self._pending = {EVENT_TIMER: event, PROCESSING_TIMER: processing}
        self._heaps: dict[int, dict[int, list[int]]] = {EVENT_TIMER: {}, PROCESSING_TIMER: {}}
        self._load = load
        self._loaded = set()
        self.committed()

    def hand_over(self, key_index: int, kind: int, time: int) -> None:
        """Add a timer that is due, and that its owner no longer has."""
        self._add(key_index, kind, time)

    def committed(self) -> None:
        """Begin anew to record changes, after the recorded ones were stored."""
        self._fired = {EVENT_TIMER: 0, PROCESSING_TIMER: 0}
        self._deleted = {EVENT_TIMER: {}, PROCESSING_TIMER: {}}
        self._before = {
            kind: {key_index: frozenset(times) for key_index, times in by_key.items()}
            for kind, by_key in self._pending.items()
        }

    def changes(self) -> Sequence[TimerChange]:
        """Return the differences from ``start``, each timer at most once."""
        return [
            change
            for kind in (EVENT_TIMER, PROCESSING_TIMER)
            for change in self._changes(kind, self._pending[kind], self._before[kind])
        ] + [
            TimerChange(key_index, kind, DELETE, time)
            for kind, by_key in self._deleted.items()
            for key_index, times in by_key.items()
            for time in times
        ]

    @staticmethod
    def _changes(
        kind: int, pending: dict[int, set[int]], before: dict[int, frozenset[int]]
    ) -> Sequence[TimerChange]:
        changes = []
        for key_index, times in pending.items():
            old = before.get(key_index)
            if old is None:
                changes += [TimerChange(key_index, kind, REGISTER, time) for time in times]
            elif old != times:
                changes += [TimerChange(key_index, kind, DELETE, time) for time in old - times]
                changes += [TimerChange(key_index, kind, REGISTER, time) for time in times - old]
        for key_index, old in before.items():
            if key_index not in pending:
                changes += [TimerChange(key_index, kind, DELETE, time) for time in old]
        return changes

    def due(self, kind: int, limit: int) -> Sequence[tuple[int, int]]:
        """Return ``(time, key_index)`` of the timers of a kind up to ``limit``, in time order."""
        return sorted(
            (time, key_index)
            for key_index, times in self._pending[kind].items()
            for time in times
            if time <= limit
        )

    def next_due(self, key_index: int, kind: int, limit: int) -> int | None:
        """Return the earliest timer of a key up to ``limit``, if there is one."""
        times = self._pending[kind].get(key_index)
        if not times:
            return None
        earliest = min(times) if len(times) < _FEW else self._earliest(key_index, kind, times)
        return earliest if earliest <= limit else None

    def _earliest(self, key_index: int, kind: int, times: set[int]) -> int:
        heap = self._heaps[kind].get(key_index, ())
        while heap and heap[0] not in times:
            heapq.heappop(heap)
        if not heap or len(heap) > 2 * len(times):
            heap = self._heaps[kind][key_index] = sorted(times)
        return heap[0]

    def take(self, key_index: int, kind: int, time: int) -> None:
        self._discard(key_index, kind, self._pending[kind][key_index], time)
        self._fired[kind] += 1

    @property
    def fired(self) -> tuple[int, int]:
        """The numbers of event-time and processing-time timers fired since ``committed``."""
        return self._fired[EVENT_TIMER], self._fired[PROCESSING_TIMER]

    def forget(self, key_index: int) -> None:
        """Drop the timers of a key whose run has ended."""
        for kind in (EVENT_TIMER, PROCESSING_TIMER):
            self._pending[kind].pop(key_index, None)
            self._heaps[kind].pop(key_index, None)

    def check_handled(self) -> None:
        """Raise ``InvalidFunction`` (TIMER_WITHOUT_ON_TIMER) if there is no ``on_timer``."""
        if self._refusal is not None:
            raise self._refusal()

    def _register(self, kind: int, time: Any) -> None:
        self.check_handled()
        if time.__class__ is not int or not -_LIMIT <= time < _LIMIT:
            if time is None and kind == EVENT_TIMER:
                raise error("TIMER_WITHOUT_TIME", operator=self._at._name)
            time = epoch_ms(time)
        at = self._at
        key_index = at._key_index
        if at._thread != get_ident() or key_index is None:
            key_index = at.key_index()
        if self.frozen:
            return
        self._add(key_index, kind, time)
        if key_index in self._deleted[kind]:
            self._deleted[kind][key_index].discard(time)

    def _add(self, key_index: int, kind: int, time: int) -> None:
        times = self._pending[kind].get(key_index)
        if times is None:
            times = self._pending[kind][key_index] = set()
        if key_index in self._heaps[kind] and time not in times:
            heapq.heappush(self._heaps[kind][key_index], time)
        times.add(time)

    def _delete(self, kind: int, time: Any) -> None:
        time, key_index = epoch_ms(time), self._at.key_index()
        if self._load is not None and key_index not in self._loaded:
            self._deleted[kind].setdefault(key_index, set()).add(time)
        times = self._pending[kind].get(key_index)
        if times is not None and time in times:
            self._discard(key_index, kind, times, time)

    def _ask(self, key_index: int) -> None:
        """Load the timers of ``key_index`` that only their owner knows, once."""
        if self._load is None or key_index in self._loaded:
            return
        self._loaded.add(key_index)
        for kind, time in self._load(key_index):
            before = self._before[kind]
            before[key_index] = before.get(key_index, frozenset()) | {time}
            if time not in self._deleted[kind].get(key_index, ()):
                self._add(key_index, kind, time)
        for by_key in self._deleted.values():
            by_key.pop(key_index, None)  # those that existed differ from before by now

    def _discard(self, key_index: int, kind: int, times: set[int], time: int) -> None:
        times.discard(time)
        if not times:
            del self._pending[kind][key_index]


def epoch_ms(time: Any) -> int:
    """Return ``time`` in epoch ms, a datetime rounded down. Raises ``InvalidOption``."""
    if isinstance(time, datetime):
        as_python = getattr(time, "to_pydatetime", None)  # naive ones of pandas have no zone
        try:
            known = time if as_python is None else as_python(warn=False)
            return int((known.astimezone(timezone.utc) - _EPOCH) // _MS)
        except (TypeError, ValueError, OverflowError, OSError):
            raise _no_time("a datetime that UTC has too", time, "ctx.timestamp") from None
    if is_number(time, int) and -_LIMIT <= time < _LIMIT:
        return int(time)
    raise _no_time("epoch milliseconds or a datetime", time, "ctx.timestamp + 60_000")


def _no_time(expected: str, value: object, example: str) -> PillarboxError:
    shown = shown_value(value)
    return error("INVALID_OPTION", option="time", expected=expected, value=shown, example=example)
