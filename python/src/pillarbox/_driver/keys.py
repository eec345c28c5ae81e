"""The columns that ``by`` and ``call_key`` name, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._arrow.schema import check_type, find_columns
from .._async.options import AsyncOptions
from .._base.checks import needs_other
from .._keyed.input_columns import check_comparable

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType


def key_columns(
    schema: StructType, names: Sequence[str], case_sensitive: bool, option: str = "by"
) -> list[StructField]:
    """Return the columns of keys. Raises ``InvalidOption`` and ``InvalidSchema``."""
    keys = find_columns(schema, names, option, case_sensitive)
    for key in keys:
        check_type(key.dataType, key.name, option)
        check_comparable(key, option)
    return keys


def check_call_key(
    options: AsyncOptions,
    schema: StructType,
    inputs: StructType,
    streaming: bool,
    case_sensitive: bool,
) -> None:
    """Raise ``InvalidOption`` and ``InvalidSchema`` if the input can't name its calls."""
    if options.journal is not None and options.journal.path is None and not streaming:
        advice = "Pass the path of a folder that all executors reach."
        condition = "without a path on a batch DataFrame, which has no checkpoint"
        raise needs_other("journal", True, condition, advice)
    columns = inputs.fields
    if options.call_key is not None:
        columns = find_columns(schema, options.call_key, "call_key", case_sensitive)
    elif options.journal is None and not options.share_calls:
        return
    for column in columns:
        check_comparable(column, "call_key")
