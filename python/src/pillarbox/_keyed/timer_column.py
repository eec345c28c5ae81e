"""The timers of the column form: one a key and time domain, kept like a value state."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pyarrow as pa

from .columnar import StateColumn, filled
from .context import EVENT_TIMER, PROCESSING_TIMER
from .timers import DELETE, NO_CHANGES, REGISTER, TimerChanges


class TimerColumn(StateColumn):
    """The time of each key's timer in epoch ms, null where none is set."""

    _stored: pa.Array | None = None
    _gone: Any = False

    @property
    def kind(self) -> int:
        """EVENT_TIMER or PROCESSING_TIMER."""
        is_event = self._declaration.time_domain == "event_time"
        return EVENT_TIMER if is_event else PROCESSING_TIMER

    def times(self) -> tuple[Any, Any]:
        """Return the times as int64, and as booleans which keys have a timer."""
        return _times(self._loaded())

    def hand_over(self, due: Any) -> None:
        """Tell the times of timers that are due, one a key, and are no longer their owner's."""
        times, has = self.times()
        self._gone = has & (times == due)

    def take(self, positions: Any) -> Any:
        """Return the times of timers that fire, and remove them."""
        times, has = self.times()
        has[positions] = False
        self._values = pa.array(times, mask=~has)
        self.changed[positions] = True
        return times[positions]

    def timer_changes(self, ended: int) -> TimerChanges:
        """Return what differs from the timers that their owner has, but of the first ``ended``."""
        if self._stored is None or not self.changed.any():
            return NO_CHANGES
        (old, had), (new, has) = _times(self._stored), self.times()
        had &= ~np.asarray(self._gone)
        same = had & has & (old == new)
        had[:ended] = has[:ended] = False
        deleted, registered = (had & ~same).nonzero()[0], (has & ~same).nonzero()[0]
        count = len(deleted) + len(registered)
        return (
            _packed("I", np.concatenate([deleted, registered]).astype(np.uint32)),
            bytes([self.kind]) * count,
            bytes([DELETE]) * len(deleted) + bytes([REGISTER]) * len(registered),
            _packed("q", np.concatenate([old[deleted], new[registered]])),
        )

    def write(self, values: Any) -> None:
        self._loaded()
        super().write(values)

    def _loaded(self) -> pa.Array:
        values = super()._loaded()
        if self._stored is None:
            self._stored = values
        return values


def _packed(code: str, numbers: Any) -> array[int]:
    return array(code, numbers.tobytes())


def _times(values: pa.Array) -> tuple[Any, Any]:
    return values.fill_null(0).to_numpy().copy(), filled(values).copy()
