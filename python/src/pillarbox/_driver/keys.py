"""The columns that ``by`` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._arrow.schema import check_type, find_column
from .._keyed.input_columns import has_equality
from ..errors import error

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType


def key_columns(
    schema: StructType, names: Sequence[str], case_sensitive: bool
) -> list[StructField]:
    """Raises ``InvalidOption`` and ``InvalidSchema`` for what can't be a key."""
    unknown = "UNKNOWN_KEY_COLUMN"
    keys = [find_column(schema, name, "by", unknown, case_sensitive) for name in names]
    for key in keys:
        check_type(key.dataType, key.name, "by")
        if not has_equality(key.dataType):
            data_type = key.dataType.simpleString()
            raise error("KEY_WITHOUT_EQUALITY", column=key.name, data_type=data_type)
    return keys
