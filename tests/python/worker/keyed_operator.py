"""A keyed operator in a few lines of Python, over a worker: what the JVM's does with frames.

It cuts micro-batches into frames of ``frame_rows`` rows, keeps state, timers and waiting rows, and
sends due timers until there are none. The worker holds the keys of up to ``held_frames`` frames.
Parity suites hold it against the harness.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from pillarbox._keyed.memory import hashable
from worker.keyed_driver import KEEP, NONE, KeyedInProcess, Store

ROW, EVENT, PROCESSING = 0, 1, 2
END_OF_KEYS = 4


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
        self.late = 0

    def process_batch(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        events = []
        for row in rows:
            time = self._time(row)
            if time is not None and time <= self.watermark * 1000:
                self.late += 1
            elif self.sorted:
                self.waiting.append((time, self._key(row), row))
            else:
                ms = NONE if time is None else time // 1000
                events.append((ROW, self._key(row), ms, row))
        return self._frames(events) + self._timers()

    def advance_watermark(self, watermark: int) -> list[Any]:
        self.watermark = max(self.watermark, watermark)
        if not self.sorted:
            return self._timers()
        limit = self.watermark * 1000
        due = sorted((w for w in self.waiting if w[0] <= limit), key=lambda w: w[0])
        self.waiting = [w for w in self.waiting if w[0] > limit]
        events = [(ROW, key, -(-time // 1000), row) for time, key, row in due]
        events += self._due(EVENT, self.watermark)
        events.sort(key=lambda event: (event[2], event[0]))
        # A key's events must not be spread over frames: its later timers would come too late.
        by_key: dict[Any, list[Any]] = {}
        for event in events:
            by_key.setdefault(event[1], []).append(event)
        out = []
        for own in by_key.values():
            out += self._send(own)
        return out + self._timers()

    def advance_processing_time(self, time: int) -> list[Any]:
        self.processing_time = max(self.processing_time, time)
        return self._timers()

    def run_batch(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        by_key: dict[Any, list[Any]] = {}
        for row in rows:
            by_key.setdefault(self._key(row), []).append(row)
        out = []
        for key, own in by_key.items():
            if self.sorted:
                own.sort(key=lambda row: self._time(row))
            up = 999 if self.sorted else 0
            times = [self._time(row) for row in own]
            events = [
                (ROW, key, NONE if time is None else (time + up) // 1000, row)
                for time, row in zip(times, own, strict=True)
            ]
            head, tail = events[: self.frame_rows], events[self.frame_rows :]
            out += self._send(head, END_OF_KEYS if not tail else 0)
            if tail:
                out += self._send(tail, END_OF_KEYS)
            self.store.cells = {k: v for k, v in self.store.cells.items() if k[1] != key}
            assert not self.store.timers
        return out

    def _frames(self, events: list[Any]) -> list[Any]:
        out = []
        for number, start in enumerate(range(0, len(events), self.frame_rows), 1):
            flags = KEEP if number % self.held_frames else 0
            out += self._send(events[start : start + self.frame_rows], flags)
        return out + (self._send([]) if self.store.held else [])

    def _timers(self) -> list[Any]:
        out = []
        while due := self._due(EVENT, self.watermark) or self._due(
            PROCESSING, self.processing_time
        ):
            out += self._send(sorted(due, key=lambda event: event[2]))
        return out

    def _due(self, kind: int, limit: int) -> list[Any]:
        return [
            (kind, k, time, None)
            for k, of, time in self.store.timers
            if of == kind and time <= limit
        ]

    def _send(self, events: list[Any], flags: int = 0) -> list[Any]:
        rows = self.store.run(
            events,
            watermark=self.watermark,
            processing_time=self.processing_time,
            flags=flags,
        )
        if rows and rows[0][0] == "T" and isinstance(rows[0][1], dict):
            raise WorkerEnded(rows[0][1]["message"])
        return rows

    def _key(self, row: tuple[Any, ...]) -> Any:
        key = tuple(row[at] for at in self.by)
        return hashable(key[0]) if len(key) == 1 else key

    def _time(self, row: tuple[Any, ...]) -> int | None:
        value = None if self.timestamp is None else row[self.timestamp]
        if isinstance(value, datetime):
            return round(value.astimezone(timezone.utc).timestamp() * 1_000_000)
        return None if value is None else value * 1000


class WorkerEnded(Exception):
    """The worker sent FATAL."""
