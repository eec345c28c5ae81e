"""The keywords and options of asynchronous keyed functions and their calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructField, StructType

from .._arrow.schema import ERROR_TYPE, as_nullable, call_field
from .._async.estimators import check_estimators
from .._async.given import check_retry_on
from .._async.keywords import KeyedCallKeywords
from .._async.options import AsyncOptions
from .._base.checks import needs_other
from .._keyed.options import KeyedKeywords, RowKeywords
from ..errors import error
from ..limits import Limit


class AsyncRowKeywords(RowKeywords, KeyedCallKeywords, total=False):
    """Those of a harness."""


class KeyedAsyncKeywords(KeyedKeywords, KeyedCallKeywords, total=False):
    """Those of ``process_keyed_async``."""


def keyed_calls(name: str, given: Mapping[str, object], returns: StructType) -> KeyedCalls:
    """Check the options of ``process_keyed_async``; its rows have the columns ``returns``.

    Raises ``InvalidOption``, and ``InvalidFunction`` for a resource.
    """
    of_form = {"name": name, "inputs": None, "ordered": False, "explode": True}
    options = AsyncOptions.of(name, {**given, **of_form}, check_limit=_check_limit)
    check_estimators(options)
    check_retry_on(options.retry, on_jvm=False)
    return KeyedCalls(options, returns)


def _check_limit(limit: Limit) -> None:
    if limit.scope == "key":
        condition = "in process_keyed_async, which calls for one row of a key at a time"
        raise needs_other("limit.scope", "key", condition, "Leave this limit out.")
    if limit.key is not None:
        advice = "Leave key out, or use pb.async_io before or after it."
        raise needs_other("limit.key", limit.key, "in process_keyed_async", advice)


@dataclass(frozen=True)
class KeyedCalls:
    """The checked options; ``returns`` are the columns of the function's rows."""

    options: AsyncOptions
    returns: StructType

    @property
    def output(self) -> StructType:
        """The columns of the output. Raises ``InvalidSchema`` (OUTPUT_NAME_CLASH)."""
        options = self.options
        columns = self.returns if options.on_error == "raise" else as_nullable(self.returns)
        added: list[tuple[StructField, str]] = []
        if options.error_column is not None:
            added.append((StructField(options.error_column, ERROR_TYPE), "on_error"))
        if options.call_column is not None:
            call = call_field(options.call_column, options.name, options.units)
            added.append((call, "call_column"))
        owners = dict.fromkeys(columns.names, "returns")
        for field, option in added:
            if field.name in owners:
                names = {"first": owners[field.name], "second": option}
                raise error("OUTPUT_NAME_CLASH", column=field.name, **names)
            owners[field.name] = option
        return StructType([*columns.fields, *(field for field, _ in added)])
