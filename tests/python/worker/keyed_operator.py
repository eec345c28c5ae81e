"""A keyed operator in a few lines of Python, over a worker: what the JVM's does with frames.

It polls rows and timers as the order in the JVM does, and cuts them into frames of ``frame_rows``
events anywhere; the worker holds the keys of up to ``held_frames`` frames. Parity suites hold it
against the harness and the golden cases.
"""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import groupby
from typing import Any

from pillarbox._harness.memory import hashable
from worker.keyed_driver import BATCH, KEEP, NONE, TIME_SORTED, KeyedInProcess, Store

ROW, EVENT, PROCESSING = 0, 1, 2


class Operator:
    """Rows are tuples of the input columns; ``by`` and ``timestamp`` are positions in them."""

    def __init__(
        self, worker: KeyedInProcess, by: list[int], timestamp: int | None, time_sorted: bool,
        frame_rows: int = 3, held_frames: int = 3,
    ) -> None:  # fmt: skip
        self.store = Store(worker, timers_on_demand=True)
        self.by, self.timestamp, self.sorted = by, timestamp, time_sorted
        self.frame_rows, self.held_frames = frame_rows, held_frames
        self.watermark, self.processing_time = NONE, 0
        self.waiting: list[tuple[int, Any, tuple[Any, ...]]] = []
        self.frame: list[Any] = []
        self.frames, self.reached, self.before_frame = 0, NONE, NONE
        self.out: list[Any] = []
        self.late = 0

    def run_micro_batch(
        self, rows: list[tuple[Any, ...]], watermark: int = NONE, processing_time: int = 0
    ) -> list[Any]:
        """A micro-batch that brings the clocks there, if they are behind."""
        self.out, self.reached = [], self.watermark
        for row in rows:
            time = self._time(row)
            if time is not None and self.watermark != NONE and time <= self.watermark * 1000:
                self.late += 1
            elif self.sorted:
                self.waiting.append((time, self._key(row), row))
            else:
                self._add((ROW, self._key(row), _down(time), row), NONE)
        self._settle(NONE)
        self.watermark = max(self.watermark, watermark)
        self.processing_time = max(self.processing_time, processing_time)
        self.reached = self.reached if self.sorted else self.watermark
        while self._event_time() + self._processing_time():
            pass
        return self.out

    def advance_watermark(self, watermark: int) -> list[Any]:
        return self.run_micro_batch([], watermark=watermark)

    def advance_processing_time(self, time: int) -> list[Any]:
        return self.run_micro_batch([], processing_time=time)

    def run_batch(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        """Key after key, cut anywhere; frames say how many of their keys have ended."""
        by_key: dict[Any, list[Any]] = {}
        for row in rows:
            by_key.setdefault(self._key(row), []).append(row)
        keys = [*by_key, *dict.fromkeys(key for key, _, _ in self.store.timers)]
        self.out, self.store.timers_on_demand, gathered = [], False, {}
        for key in dict.fromkeys(keys):
            own = by_key.get(key, [])
            if self.sorted:
                own.sort(key=lambda row: self._time(row))
            gathered.setdefault(key, [])
            for row in own:
                time = _up(self._time(row)) if self.sorted else _down(self._time(row))
                gathered.setdefault(key, []).append((ROW, key, time, row))
                if sum(map(len, gathered.values())) == self.frame_rows:
                    self._send_batch(gathered, ended=len(gathered) - 1)
                    gathered, self.before_frame = {}, time if self.sorted else NONE
            # A key that ends without further rows is in a frame all the same.
            gathered.setdefault(key, [])
            if sum(map(len, gathered.values())) >= self.frame_rows or len(gathered) == 5:
                self._send_batch(gathered, ended=len(gathered))
                gathered, self.before_frame = {}, NONE
        if gathered:
            self._send_batch(gathered, ended=len(gathered))
        return self.out

    def _send_batch(self, gathered: dict[Any, list[Any]], ended: int) -> None:
        events = [event for own in gathered.values() for event in own]
        keys = list(gathered)
        watermark = self.before_frame if self._goes_on(keys[0]) else NONE
        self.out += self._checked(
            self.store.run(
                events, keys, watermark=watermark, horizon=1 << 40,  # which means nothing here
                processing_time=self.processing_time,
                flags=BATCH | (TIME_SORTED if self.sorted else 0), ended=ended,
            )
        )  # fmt: skip
        self.went_on = keys[-1] if ended < len(keys) else None
        gone = set(keys[:ended])
        self.store.cells = {k: v for k, v in self.store.cells.items() if k[1] not in gone}
        self.store.timers = {timer for timer in self.store.timers if timer[0] not in gone}

    went_on: Any = None

    def _goes_on(self, key: Any) -> bool:
        return self.went_on is not None and self.went_on == key

    def _event_time(self) -> bool:
        """Rows that waited and timers, the earliest first; whether there were any."""
        found = False
        while self.watermark != NONE:
            rows, timers = self._first_rows(), self._timers(EVENT, self.watermark)
            if not rows and not timers:
                break
            found = True
            if rows and (not timers or (_up(rows[0][0]), repr(rows[0][1])) <= timers[0][:2]):
                for of in rows:
                    self.waiting.remove(of)
                for micros, key, row in rows:
                    time = _up(micros)
                    self._add((ROW, key, time, row), time - 1)
                    self.reached = max(self.reached, time)
            else:
                self._poll(timers[0], EVENT)
            if not self._first_rows() and not self._timers(EVENT, self.watermark):
                self._settle(self.watermark)  # then there may be more
        self.reached = self.watermark
        return found

    def _processing_time(self) -> bool:
        found = False
        while timers := self._timers(PROCESSING, self.processing_time):
            found = True
            self._poll(timers[0], PROCESSING)
            if not self._timers(PROCESSING, self.processing_time):
                self._settle(self.processing_time)
        return found

    def _first_rows(self) -> list[Any]:
        """The rows of the earliest time, of one key."""
        due = [of for of in self.waiting if of[0] <= self.watermark * 1000]
        due.sort(key=lambda of: (_up(of[0]), repr(of[1]), of[0]))
        return next((list(own) for _, own in groupby(due, key=lambda of: (_up(of[0]), of[1]))), [])

    def _timers(self, kind: int, limit: int) -> list[Any]:
        due = [(time, repr(key), key) for key, of, time in self.store.timers if of == kind]
        return sorted((one for one in due if one[0] <= limit), key=lambda one: one[:2])

    def _poll(self, timer: Any, kind: int) -> None:
        time, _, key = timer
        self.store.timers.discard((key, kind, time))
        if self.sorted and kind == EVENT:
            self.reached = max(self.reached, time)
        self._add((kind, key, time, None), max(time - 1, NONE))

    def _add(self, event: Any, horizon: int) -> None:
        if not self.frame:
            self.before_frame = self.reached
        self.frame.append(event)
        if len(self.frame) == self.frame_rows:
            self.frames += 1
            self._send(horizon, KEEP if self.frames % self.held_frames else 0)

    def _settle(self, horizon: int) -> None:
        if self.frame or self.store.held:
            self._send(horizon, 0)

    def _send(self, horizon: int, flags: int) -> None:
        events, self.frame = self.frame, []
        self.out += self._checked(
            self.store.run(
                events, watermark=self.before_frame, horizon=horizon,
                processing_time=self.processing_time,
                flags=flags | (TIME_SORTED if self.sorted else 0),
            )
        )  # fmt: skip

    @staticmethod
    def _checked(rows: list[Any]) -> list[Any]:
        if rows and rows[0][0] == "T" and isinstance(rows[0][1], dict):
            raise WorkerEnded(rows[0][1])
        return rows

    def _key(self, row: tuple[Any, ...]) -> Any:
        key = tuple(row[at] for at in self.by)
        return hashable(key[0]) if len(key) == 1 else key

    def _time(self, row: tuple[Any, ...]) -> int | None:
        value = None if self.timestamp is None else row[self.timestamp]
        if isinstance(value, datetime):
            return round(value.astimezone(timezone.utc).timestamp() * 1_000_000)
        return None if value is None else value * 1000


def _down(micros: int | None) -> int:
    return NONE if micros is None else micros // 1000


def _up(micros: int | None) -> int:
    assert micros is not None
    return -(-micros // 1000)


class WorkerEnded(Exception):
    """The worker sent FATAL."""
