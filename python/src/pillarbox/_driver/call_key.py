"""The columns that name the calls of an ``async_io``, checked before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._arrow.schema import find_column
from .._async.options import AsyncOptions
from .._base.checks import needs_other
from .._keyed.input_columns import has_equality
from ..errors import error

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def check_call_key(
    options: AsyncOptions,
    schema: StructType,
    inputs: StructType,
    streaming: bool,
    case_sensitive: bool,
) -> None:
    """Raises ``InvalidOption`` and ``InvalidSchema`` for what the input can't give."""
    if options.journal is not None and options.journal.path is None and not streaming:
        advice = "Pass the path of a folder that all executors reach."
        condition = "without a path on a batch DataFrame, which has no checkpoint"
        raise needs_other("journal", True, condition, advice)
    columns = inputs.fields
    if options.call_key is not None:
        unknown = "UNKNOWN_CALL_KEY_COLUMN"
        columns = [
            find_column(schema, name, "call_key", unknown, case_sensitive)
            for name in options.call_key
        ]
    elif options.journal is None and not options.share_calls:
        return
    for column in columns:
        if not has_equality(column.dataType):
            data_type = column.dataType.simpleString()
            raise error("CALL_KEY_WITHOUT_EQUALITY", column=column.name, data_type=data_type)
