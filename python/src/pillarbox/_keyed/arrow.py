"""What the column form is handed with a batch: its clocks, its keys, their state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import error, shown
from .context import UNKNOWN

if TYPE_CHECKING:
    import pyarrow as pa

    from .columnar import StateColumn


class ArrowContext:
    """What the column form knows of a batch. Times are epoch milliseconds.

    ``timestamps`` is an int64 array, one a row, null for rows without event time.
    """

    # State comes with the stamps that follow from it.
    _first_watermark = UNKNOWN

    def __init__(
        self, name: str, watermark: int, processing_time: int, timestamps: pa.Array
    ) -> None:
        self.name = name
        self.watermark = None if watermark == UNKNOWN else watermark
        self._watermark = watermark
        self.processing_time = processing_time
        self.timestamps = timestamps


class ArrowState:
    """The states of a batch's keys by name, and which row has which key.

    ``keys``: an array of the distinct keys (of structs for several key columns), in no order.
    ``index``: an int32 numpy array that can't be written to, for each row the position of its key
    in ``keys``.
    """

    def __init__(self, keys: pa.Array, index: Any, columns: dict[str, StateColumn]) -> None:
        self.keys = keys
        self.index = index
        self._columns = columns

    def __getitem__(self, name: str) -> pa.Array:
        """The values of a state, null where a key has none. :class:`StateError` for others."""
        return self._column(name).read()

    def __setitem__(self, name: str, values: Any) -> None:
        """Writes the state of all keys; null clears. An array, a numpy array or a list.

        Raises :class:`ResultTypeMismatch` for another length or type.
        """
        self._column(name).write(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def _column(self, name: str) -> StateColumn:
        if name not in self._columns:
            declared = ", ".join(map(repr, self._columns)) or "none"
            raise error("UNKNOWN_STATE", state=shown(name), declared=declared)
        return self._columns[name]
