"""State of the column form: whole Arrow columns, aligned with the keys of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .._arrow.converters import mismatch
from .batch import BatchContext
from .context import UNKNOWN
from .state import Declaration
from .whole_columns import ColumnConverter


class StateColumn:
    """One value state over the keys of a batch, with the rules of its TTL.

    ``converter`` takes what is written. ``load`` gives values (an array of the declared type) and
    stamps (int64 numpy) when first needed; ``latest`` the greatest timestamp of each key's rows,
    UNKNOWN without one.
    """

    def __init__(
        self,
        declaration: Declaration,
        converter: ColumnConverter,
        load: Callable[[], tuple[pa.Array, Any]],
        clock: BatchContext,
        latest: Callable[[], Any],
        keys: pa.Array,
    ) -> None:
        self._declaration = declaration
        self._converter = converter
        self._count = len(keys)
        self._load = load
        self._clock = clock
        self._latest = latest
        self._keys = keys
        self._values: pa.Array | None = None
        self._stamps: Any = None
        self.changed = np.zeros(len(keys), bool)

    def read(self) -> pa.Array:
        """The values that are alive (or shown once more)."""
        values, ttl = self._loaded(), self._declaration.ttl
        if ttl is None:
            return values
        now, filled = self._now(), values.is_valid().to_numpy(zero_copy_only=False)
        limit = max(now - ttl.ms, UNKNOWN)
        expired = filled & (self._stamps <= limit) & (self._stamps != UNKNOWN)
        alive = pc.if_else(pa.array(~expired), values, None) if expired.any() else values
        self._values = alive
        self.changed |= expired
        self._tell(values, expired)
        if ttl.update == "on_read_and_write":
            self._stamp(filled & ~expired)
        else:
            self._restamp(np.where(filled & (self._stamps == UNKNOWN), now, self._stamps))
        shown_once = ttl.visibility == "return_expired_if_not_cleaned_up"
        return values if shown_once else alive

    def write(self, values: Any) -> None:
        """All values anew."""
        new = self._converter.array(values)
        if len(new) != self._count:
            place = self._declaration.type.place
            raise mismatch(place, f"{self._count} values, one a key", values)
        if self._declaration.ttl is not None:
            had = self._loaded().is_valid().to_numpy(zero_copy_only=False)
            self._stamps = np.where(had, self._stamps, UNKNOWN)
            self._stamp(new.is_valid().to_numpy(zero_copy_only=False))
        self._values = new
        self.changed[:] = True

    def changes(self) -> tuple[Any, pa.Array, Any] | None:
        """Positions, values and stamps of what changed; None if nothing."""
        if not self.changed.any():
            return None
        positions = self.changed.nonzero()[0]
        values = self._loaded().take(pa.array(positions))
        filled = values.is_valid().to_numpy(zero_copy_only=False)
        if self._declaration.ttl is None:
            return positions, values, np.zeros(len(positions), np.int64)
        return positions, values, np.where(filled, self._stamps[positions], 0)

    def _loaded(self) -> pa.Array:
        if self._values is None:
            # A column that is written whole without TTL is never decoded.
            self._values, stamps = self._load()
            self._stamps = np.array(stamps, np.int64)
        return self._values

    def _now(self) -> int:
        assert self._declaration.ttl is not None
        if self._declaration.ttl.time == "processing":
            return self._clock.current_processing_time
        return UNKNOWN if self._clock.watermark is None else self._clock.watermark

    def _stamp(self, which: Any) -> None:
        assert self._declaration.ttl is not None
        if self._declaration.ttl.time == "processing":
            new = np.full(self._count, self._now(), np.int64)
        else:
            latest = self._latest()
            new = np.maximum(np.where(latest == UNKNOWN, self._now(), latest), self._stamps)
        self._restamp(np.where(which, new, self._stamps))

    def _restamp(self, new: Any) -> None:
        self.changed |= new != self._stamps
        self._stamps = new

    def _tell(self, values: pa.Array, expired: Any) -> None:
        ttl = self._declaration.ttl
        if ttl is not None and ttl.on_expire is not None:
            for position in expired.nonzero()[0].tolist():
                ttl.on_expire(self._keys[position].as_py(), values[position].as_py())
