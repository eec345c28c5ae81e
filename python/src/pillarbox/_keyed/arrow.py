"""The arguments of the column form beside a batch: its clocks, its keys and their state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import error, shown
from .context import UNKNOWN

if TYPE_CHECKING:
    import pyarrow as pa

    from .columnar import StateColumn


class ArrowContext:
    """The clocks of a batch of the column form. Times are epoch milliseconds.

    ``timestamps`` is an int64 array, one a row, null for rows without event time. In ``on_timers``
    it has the times of the timers, of which ``timer`` is the name; in ``process`` that is None.
    ``watermark`` is how far event time had come before the batch.
    """

    # The JVM has applied the first watermark to the stamps of the state already.
    _first_watermark = UNKNOWN

    def __init__(
        self,
        name: str,
        watermark: int,
        processing_time: int,
        timestamps: pa.Array,
        timer: str | None = None,
    ) -> None:
        self.name = name
        self.timer = timer
        self.watermark = None if watermark == UNKNOWN else watermark
        # Of timers that fire each key has a time of its own: an array then.
        self._watermark: Any = watermark
        self.processing_time = processing_time
        self.timestamps = timestamps


class ArrowState:
    """The states of a batch's keys by name, and the key of each row.

    ``keys`` is an array of the distinct keys (of structs for several key columns), in no order.
    ``index`` is a read-only int32 numpy array with the position in ``keys`` of each row's key.

    It lasts as long as its call of ``process``: a thread that outlives the call gets
    :class:`StateError` (NO_CURRENT_KEY) for reads and writes.
    """

    def __init__(self, keys: pa.Array, index: Any, columns: dict[str, StateColumn]) -> None:
        self.keys = keys
        self.index = index
        self._columns = columns
        self._ended: str | None = None

    def __getitem__(self, name: str) -> pa.Array:
        """Return the values of a state, null where a key has none. Raises :class:`StateError`."""
        return self._column(name).read()

    def __setitem__(self, name: str, values: Any) -> None:
        """Write the state of all keys from an Arrow or numpy array or a list; null clears.

        Raises :class:`ResultTypeMismatch` for another length or type.
        """
        self._column(name).write(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def _end(self, operator: str) -> None:
        """Refuse what comes from now on, as the state of the call is about to be taken."""
        self._ended = operator

    def _column(self, name: str) -> StateColumn:
        if self._ended is not None:
            raise error("NO_CURRENT_KEY", operator=self._ended)
        if name not in self._columns:
            declared = ", ".join(map(repr, self._columns)) or "none"
            raise error("UNKNOWN_STATE", state=shown(name), declared=declared)
        return self._columns[name]
