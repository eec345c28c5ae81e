"""The options of calls of asynchronous keyed functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from .._arrow.schema import ERROR_TYPE, as_nullable, call_field
from .._async.command import check_resource
from .._async.estimators import check_estimators
from .._async.given import check_retry_on
from .._async.options import AsyncOptions
from .._base.checks import needs_other
from ..budgets import Budget, as_budget
from ..errors import error
from ..limits import Limit, as_limits
from ..options import ErrorColumn, Timeout, as_on_error, as_retry, as_timeout, as_units

if TYPE_CHECKING:
    from .._async.options import OnError
    from ..options import Duration
    from ..retry import Retry


@dataclass(frozen=True)
class CallOptions:
    """The options as given to ``process_keyed_async``, which documents them."""

    capacity: int = 100
    timeout: Duration | Timeout | None = None
    retry: int | Retry | None = None
    on_error: OnError | ErrorColumn = "raise"
    resource: Callable[[], Any] | None = None
    limit: Limit | Sequence[Limit] | None = None
    usage: str | Sequence[str] = ()
    budget: Budget | None = None
    call_column: str | None = None

    def calls(self, name: str, returns: StructType) -> KeyedCalls:
        """Check the options. Raises ``InvalidOption``, and ``InvalidFunction`` for a resource."""
        check_resource(self.resource)
        options = AsyncOptions(
            name=name,
            ordered=False,
            explode=True,
            capacity=self.capacity,
            timeout=as_timeout(self.timeout),
            retry=as_retry(self.retry),
            on_error=as_on_error(self.on_error),
            limits=_limits(self.limit),
            usage=as_units(self.usage),
            budget=as_budget(self.budget),
            call_column=self.call_column,
        )
        check_estimators(options)
        check_retry_on(options.retry, on_jvm=False)
        return KeyedCalls(options, self.resource, returns)


def _limits(given: object) -> tuple[Limit, ...]:
    limits = as_limits(given)
    if any(limit.scope == "key" for limit in limits):
        condition = "in process_keyed_async, which calls for one row of a key at a time"
        raise needs_other("limit.scope", "key", condition, "Leave this limit out.")
    for limit in limits:
        if limit.key is not None:
            advice = "Leave key out, or use pb.async_io before or after it."
            raise needs_other("limit.key", limit.key, "in process_keyed_async", advice)
    return limits


@dataclass(frozen=True)
class KeyedCalls:
    """The checked options; ``returns`` are the columns of the function's rows."""

    options: AsyncOptions
    resource: Callable[[], Any] | None
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
