"""The timers of some keys: registered, deleted, listed by key; taken when they are due."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from threading import get_ident
from typing import Any, NamedTuple

from .._base.checks import invalid, is_number
from ..errors import error
from .context import EVENT_TIMER, PROCESSING_TIMER, KeyedContext
from .surface import Timer, Timers

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
_LIMIT = 1 << 63

_FEW = 8  # of so many times the least is found faster than a heap is made

REGISTER, DELETE = 0, 1

Load = Callable[[int], Iterable[tuple[int, int]]]


class TimerChange(NamedTuple):
    """What became of one timer of a key: ``op`` is REGISTER or DELETE (also when it fired)."""

    slot: int
    kind: int
    op: int
    timestamp: int


class KeyTimers(Timers):
    """The timers of all keys of a runtime; those of the current one are what a function sees.

    ``refusal`` gives the error for a timer that nobody would handle.

    A key with many timers has a heap of them once its earliest one is asked for. What is taken out
    stays in the heap until it comes up, and times that are not pending are passed over there.
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
        slot = self._at.slot()
        self._ask(slot)
        for by_slot in self._pending.values():
            by_slot.pop(slot, None)

    def list(self) -> Sequence[Timer]:
        slot = self._at.slot()
        return self.of(slot)

    def of(self, slot: int) -> Sequence[Timer]:
        """The timers of one key, the earliest first."""
        self._ask(slot)
        event = self._pending[EVENT_TIMER].get(slot, ())
        processing = self._pending[PROCESSING_TIMER].get(slot, ())
        return sorted(
            [Timer(time, "event_time") for time in event]
            + [Timer(time, "processing_time") for time in processing]
        )

    def start(self, existing: Iterable[tuple[int, int, int]], load: Load | None = None) -> None:
        """From now on there are the timers ``(slot, kind, time)``, and nothing has changed.

        With ``load`` there may be others, which nobody needs to know before they are listed: it
        gives the ``(kind, time)`` of all timers that their owner has of a slot.
        """
        event: dict[int, set[int]] = {}
        processing: dict[int, set[int]] = {}
        for slot, kind, time in existing:
            times = event if kind == EVENT_TIMER else processing
            times.setdefault(slot, set()).add(time)
        self._pending = {EVENT_TIMER: event, PROCESSING_TIMER: processing}
        self._heaps: dict[int, dict[int, list[int]]] = {EVENT_TIMER: {}, PROCESSING_TIMER: {}}
        self._load = load
        self._loaded = set()
        self.committed()

    def hand_over(self, slot: int, kind: int, time: int) -> None:
        """A timer that is due, and that its owner has let go of."""
        self._add(slot, kind, time)

    def committed(self) -> None:
        """What changed is written down."""
        self._fired = {EVENT_TIMER: 0, PROCESSING_TIMER: 0}
        self._deleted = {EVENT_TIMER: {}, PROCESSING_TIMER: {}}
        self._before = {
            kind: {slot: frozenset(times) for slot, times in by_slot.items()}
            for kind, by_slot in self._pending.items()
        }

    def changes(self) -> Sequence[TimerChange]:
        """What differs from ``start``, each timer at most once."""
        return [
            change
            for kind in (EVENT_TIMER, PROCESSING_TIMER)
            for change in self._changes(kind, self._pending[kind], self._before[kind])
        ] + [
            TimerChange(slot, kind, DELETE, time)
            for kind, by_slot in self._deleted.items()
            for slot, times in by_slot.items()
            for time in times
        ]

    @staticmethod
    def _changes(
        kind: int, pending: dict[int, set[int]], before: dict[int, frozenset[int]]
    ) -> Sequence[TimerChange]:
        changes = []
        for slot, times in pending.items():
            old = before.get(slot)
            if old is None:
                changes += [TimerChange(slot, kind, REGISTER, time) for time in times]
            elif old != times:
                changes += [TimerChange(slot, kind, DELETE, time) for time in old - times]
                changes += [TimerChange(slot, kind, REGISTER, time) for time in times - old]
        for slot, old in before.items():
            if slot not in pending:
                changes += [TimerChange(slot, kind, DELETE, time) for time in old]
        return changes

    def due(self, kind: int, limit: int) -> Sequence[tuple[int, int]]:
        """``(time, slot)`` of all timers of a kind at or before ``limit``, in order of time."""
        return sorted(
            (time, slot)
            for slot, times in self._pending[kind].items()
            for time in times
            if time <= limit
        )

    def next_due(self, slot: int, kind: int, limit: int) -> int | None:
        """The earliest timer of a key at or before ``limit``."""
        times = self._pending[kind].get(slot)
        if not times:
            return None
        earliest = min(times) if len(times) < _FEW else self._earliest(slot, kind, times)
        return earliest if earliest <= limit else None

    def _earliest(self, slot: int, kind: int, times: set[int]) -> int:
        heap = self._heaps[kind].get(slot, ())
        while heap and heap[0] not in times:
            heapq.heappop(heap)
        if not heap or len(heap) > 2 * len(times):
            heap = self._heaps[kind][slot] = sorted(times)
        return heap[0]

    def take(self, slot: int, kind: int, time: int) -> None:
        """Takes a timer out, as one that fires."""
        self._discard(slot, kind, self._pending[kind][slot], time)
        self._fired[kind] += 1

    @property
    def fired(self) -> tuple[int, int]:
        """How many event-time and processing-time timers have fired since ``committed``."""
        return self._fired[EVENT_TIMER], self._fired[PROCESSING_TIMER]

    def _register(self, kind: int, time: Any) -> None:
        if self._refusal is not None:
            raise self._refusal()
        if time.__class__ is not int or not -_LIMIT <= time < _LIMIT:
            if time is None and kind == EVENT_TIMER:
                raise error("TIMER_WITHOUT_TIME", operator=self._at._name)
            time = epoch_ms(time)
        at = self._at
        slot = at._slot
        if at._thread != get_ident() or slot is None:
            slot = at.slot()
        if self.frozen:
            return
        self._add(slot, kind, time)
        if slot in self._deleted[kind]:
            self._deleted[kind][slot].discard(time)

    def _add(self, slot: int, kind: int, time: int) -> None:
        times = self._pending[kind].get(slot)
        if times is None:
            times = self._pending[kind][slot] = set()
        if slot in self._heaps[kind] and time not in times:
            heapq.heappush(self._heaps[kind][slot], time)
        times.add(time)

    def _delete(self, kind: int, time: Any) -> None:
        time, slot = epoch_ms(time), self._at.slot()
        if self._load is not None and slot not in self._loaded:
            self._deleted[kind].setdefault(slot, set()).add(time)
        times = self._pending[kind].get(slot)
        if times is not None and time in times:
            self._discard(slot, kind, times, time)

    def _ask(self, slot: int) -> None:
        """Gets the timers of ``slot`` that only their owner knows, once."""
        if self._load is None or slot in self._loaded:
            return
        self._loaded.add(slot)
        for kind, time in self._load(slot):
            before = self._before[kind]
            before[slot] = before.get(slot, frozenset()) | {time}
            if time not in self._deleted[kind].get(slot, ()):
                self._add(slot, kind, time)
        for by_slot in self._deleted.values():
            by_slot.pop(slot, None)  # what was there of them differs from before by now

    def _discard(self, slot: int, kind: int, times: set[int], time: int) -> None:
        times.discard(time)
        if not times:
            del self._pending[kind][slot]


def epoch_ms(time: Any) -> int:
    """``time`` in epoch ms, a datetime rounded down. Raises ``InvalidOption`` for anything else."""
    if isinstance(time, datetime):
        as_python = getattr(
            time, "to_pydatetime", None
        )  # of pandas, whose naive times have no zone
        try:
            known = time if as_python is None else as_python(warn=False)
            return int((known.astimezone(timezone.utc) - _EPOCH) // _MS)
        except (TypeError, ValueError, OverflowError, OSError):
            raise invalid("time", "a datetime that UTC has too", time, "ctx.timestamp") from None
    if is_number(time, int) and -_LIMIT <= time < _LIMIT:
        return int(time)
    raise invalid("time", "epoch milliseconds or a datetime", time, "ctx.timestamp + 60_000")
