"""The classes of rows, one for each list of column names."""

from __future__ import annotations

import functools
from typing import Any

from pyspark.sql.types import Row

from .._base.names import nearest
from ..errors import error, shown

try:  # the C implementation of a named tuple's fields
    from _collections import _tuplegetter as _field  # type: ignore[import-not-found]
except ImportError:

    def _field(index: int, doc: str) -> property:
        return property(lambda row: tuple.__getitem__(row, index), doc=doc)


@functools.cache
def row_class(names: tuple[str, ...]) -> type[Row]:
    """Return the ``Row`` class for columns of these names. It holds them, so a row is one tuple.

    Attributes are read at the speed of a named tuple. Rows pickle, compare and print as plain
    ``Row`` objects. The names of tuple's methods (``count``, ``index``) stay methods, as in
    pyspark.
    """
    positions = {name: index for index, name in reversed(list(enumerate(names)))}

    def missing(name: object) -> Exception:
        columns = ", ".join(names) or "none"
        near = nearest(str(name), names) or "none"
        return error("UNKNOWN_ROW_COLUMN", column=shown(name), nearest=near, columns=columns)

    def get_item(row: Row, item: Any) -> Any:
        if isinstance(item, (int, slice)):
            return tuple.__getitem__(row, item)
        if item not in positions:
            raise missing(item)
        return tuple.__getitem__(row, positions[item])

    def get_attribute(row: Row, name: str) -> Any:
        if name in positions:
            return tuple.__getitem__(row, positions[name])
        raise AttributeError(name) if name.startswith("__") else missing(name)

    body: dict[str, Any] = {
        "__fields__": list(names),
        "__getitem__": get_item,
        "__getattr__": get_attribute,
    }
    for index, name in enumerate(names):
        if name not in body and not name.startswith("__") and not hasattr(Row, name):
            body[name] = _field(index, f"The column {name}.")
    return type("Row", (Row,), body)
