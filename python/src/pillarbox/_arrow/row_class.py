"""Classes of rows, each for one list of column names."""

from __future__ import annotations

import functools
from typing import Any

from pyspark.sql.types import Row

from .._base.names import nearest
from ..errors import error, shown

try:  # what named tuples read their fields with, in C
    from _collections import _tuplegetter as _field  # type: ignore[import-not-found]
except ImportError:

    def _field(index: int, doc: str) -> property:
        return property(lambda row: tuple.__getitem__(row, index), doc=doc)


@functools.cache
def row_class(names: tuple[str, ...]) -> type[Row]:
    """The one ``Row`` class for columns of these names, which it holds: a row costs one tuple.

    A column can be read as an attribute at the speed of a named tuple. Its rows pickle, compare
    and print as plain ``Row`` objects. Names that a tuple uses itself (``count``, ``index``) stay
    methods, as in pyspark.
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
