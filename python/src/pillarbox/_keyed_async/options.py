"""The options of calls of asynchronous keyed functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from .._arrow.schema import ERROR_TYPE, as_nullable
from .._async.command import check_resource
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
        )
        return KeyedCalls(options, self.resource, returns)


def _limits(given: object) -> tuple[Limit, ...]:
    limits = as_limits(given)
    if any(limit.scope == "key" for limit in limits):
        condition = "in process_keyed_async, which calls for one row of a key at a time"
        raise needs_other("limit.scope", "key", condition, "Leave this limit out.")
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
        if self.options.on_error == "raise":
            return self.returns
        columns = as_nullable(self.returns)
        name = self.options.error_column
        if name is None:
            return columns
        if name in columns.names:
            raise error("OUTPUT_NAME_CLASH", column=name, first="returns", second="on_error")
        return StructType([*columns.fields, StructField(name, ERROR_TYPE)])
