"""State of the column form: whole Arrow columns, aligned with the keys of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .._arrow.converters import mismatch
from .context import UNKNOWN
from .state import Declaration
from .ttl import Clock, StateTtl, TtlPolicy
from .whole_columns import ColumnConverter


class ColumnTtl(TtlPolicy):
    """A policy over arrays of timestamps, one a key; ``latest`` returns the times of their rows."""

    __slots__ = ("_keys", "_latest")

    def __init__(self, ttl: StateTtl, at: Clock, latest: Callable[[], Any], keys: Any) -> None:
        super().__init__(ttl, at)
        self._latest = latest
        self._keys = keys

    def tell_all(self, values: Any, which: Any) -> None:
        """Call ``on_expire``, if there is one, for the values where ``which`` is True."""
        if self._on_expire is not None:
            for position in which.nonzero()[0].tolist():
                self._on_expire(self._keys[position].as_py(), None, values[position].as_py())

    def limit(self) -> Any:
        """Return the latest expired timestamp; of each key, where keys have times of their own."""
        now = self.now()
        if not isinstance(now, np.ndarray):
            return super().limit()
        return np.maximum(now, UNKNOWN + self.ttl) - self.ttl

    def _record(self) -> Any:
        latest = self._latest()
        return np.where(latest == UNKNOWN, self._at._watermark, latest)

    def _later(self, one: Any, other: Any) -> Any:
        return np.maximum(one, other)

    def _chosen(self, condition: Any, one: Any, other: Any) -> Any:
        return np.where(condition, one, other)


class StateColumn:
    """One value state over the keys of a batch, with the rules of its TTL.

    ``converter`` converts values that are written. ``load`` returns values (an array of the
    declared type) and stamps (int64 numpy) when they are first needed, ``latest`` the greatest
    timestamp of each key's rows, UNKNOWN without one.
    """

    def __init__(
        self,
        declaration: Declaration,
        converter: ColumnConverter,
        load: Callable[[], tuple[pa.Array, Any]],
        clock: Clock,
        latest: Callable[[], Any],
        keys: pa.Array,
    ) -> None:
        self._declaration = declaration
        self._converter = converter
        self._count = len(keys)
        self._load = load
        ttl = declaration.ttl
        self._policy = None if ttl is None else ColumnTtl(ttl, clock, latest, keys)
        self._values: pa.Array | None = None
        self._stamps: Any = None
        self.changed = np.zeros(len(keys), bool)

    @property
    def name(self) -> str:
        """The name that the state was declared under."""
        return self._declaration.name

    def read(self) -> pa.Array:
        """Return the values that are alive, or expired and visible once more."""
        values, policy = self._loaded(), self._policy
        if policy is None:
            return values
        has = filled(values)
        expired = has & policy.is_expired(self._stamps)
        alive = pc.if_else(pa.array(~expired), values, None) if expired.any() else values
        self._values = alive
        self.changed |= expired
        policy.tell_all(values, expired)
        self._stamp(has & ~expired, policy.after_read(self._stamps))
        return values if policy.returns_expired else alive

    def write(self, values: Any) -> None:
        """Replace all values. Arrays of numpy and pandas are copied, as they may change later."""
        new = self._converter.array(values.copy() if _is_lent(values) else values)
        if len(new) != self._count:
            kept = self._declaration.type
            raise mismatch(kept.place, kept.data_type, values, f"{self._count} values, one a key")
        if self._policy is not None:
            self._stamps = np.where(filled(self._loaded()), self._stamps, UNKNOWN)
            self._stamp(filled(new), self._policy.stamp(self._stamps))
        self._values = new
        self.changed[:] = True

    def part(
        self, positions: Any, clock: Clock, latest: Callable[[], Any], keys: pa.Array
    ) -> StateColumn:
        """Return the state of the keys at ``positions``, to be given back to ``merge``."""

        def load() -> tuple[pa.Array, Any]:
            values, stamps = self._loaded().take(pa.array(positions)), self._stamps
            # Without TTL a column that was only written has no stamps.
            return values, np.zeros(len(positions)) if stamps is None else stamps[positions]

        return StateColumn(self._declaration, self._converter, load, clock, latest, keys)

    def merge(self, positions: Any, part: StateColumn) -> None:
        """Take what has changed in a part."""
        if not part.changed.any():
            return
        places = np.arange(self._count)
        places[positions] = self._count + np.arange(len(positions))
        both = pa.concat_arrays([self._loaded(), part._loaded()])
        self._values = both.take(pa.array(places))
        if self._policy is not None:
            self._stamps[positions] = part._stamps
        self.changed[positions] |= part.changed

    def changes(self) -> tuple[Any, pa.Array, Any] | None:
        """Return the positions, values and stamps of changed keys; None if there are none."""
        if not self.changed.any():
            return None
        positions = self.changed.nonzero()[0]
        values = self._loaded().take(pa.array(positions))
        if self._policy is None:
            return positions, values, np.zeros(len(positions), np.int64)
        return positions, values, np.where(filled(values), self._stamps[positions], 0)

    def _loaded(self) -> pa.Array:
        if self._values is None:
            # A column that is written whole without TTL is never decoded.
            self._values, stamps = self._load()
            self._stamps = np.array(stamps, np.int64)
        return self._values

    def _stamp(self, which: Any, stamps: Any) -> None:
        new = np.where(which, stamps, self._stamps)
        self.changed |= new != self._stamps
        self._stamps = new


def filled(values: pa.Array) -> Any:
    """Return as booleans which values are not null."""
    return values.is_valid().to_numpy(zero_copy_only=False)


def _is_lent(values: Any) -> bool:
    return hasattr(values, "dtype") and hasattr(values, "copy")
