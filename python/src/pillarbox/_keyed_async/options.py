"""What only asynchronous keyed functions have: the options of their calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from .._arrow.schema import ERROR_TYPE, as_nullable
from .._async.command import check_resource
from .._async.options import AsyncOptions
from .._base.checks import needs_other
from ..errors import error
from ..options import ErrorColumn, Timeout, as_on_error, as_retry

if TYPE_CHECKING:
    from .._async.options import OnError
    from ..options import Duration
    from ..retry import Retry


@dataclass(frozen=True)
class CallOptions:
    """As the user gave them to ``process_keyed``, where they are explained; None for not at all."""

    capacity: int | None = None
    timeout: Duration | None = None
    attempt_timeout: Duration | None = None
    retry: Retry | None = None
    on_error: OnError | None = None
    error_column: str | None = None
    resource: Callable[[], Any] | None = None

    def refuse(self, condition: str) -> None:
        """Raises ``InvalidOption`` (OPTION_NEEDS_OTHER) for each that was given."""
        for option, value in vars(self).items():
            if value is not None:
                advice = f"Extend pb.AsyncKeyedProcessFunction, or leave {option} out."
                raise needs_other(option, value, condition, advice)

    def calls(self, name: str, returns: StructType) -> KeyedCalls:
        """Raises ``InvalidOption`` for one that can't be, ``InvalidFunction`` for a resource."""
        check_resource(self.resource)
        on_error = as_on_error("raise" if self.on_error is None else self.on_error)
        if self.error_column is not None:
            if not isinstance(on_error, ErrorColumn):
                advice = 'Give on_error="column" too, or leave error_column out.'
                condition = 'without on_error="column"'
                raise needs_other("error_column", self.error_column, condition, advice)
            on_error = ErrorColumn(self.error_column)
        options = AsyncOptions(
            name=name,
            ordered=False,
            explode=True,
            capacity=100 if self.capacity is None else self.capacity,
            timeout=Timeout(self.timeout, attempt=self.attempt_timeout),
            retry=as_retry(self.retry),
            on_error=on_error,
        )
        return KeyedCalls(options, self.resource, returns)


@dataclass(frozen=True)
class KeyedCalls:
    """The checked options; ``returns`` are the columns that the function gives."""

    options: AsyncOptions
    resource: Callable[[], Any] | None
    returns: StructType

    @property
    def output(self) -> StructType:
        """The columns that come out. Raises ``InvalidSchema`` (OUTPUT_NAME_CLASH)."""
        if self.options.on_error == "raise":
            return self.returns
        columns = as_nullable(self.returns)
        name = self.options.error_column
        if name is None:
            return columns
        if name in columns.names:
            raise error("OUTPUT_NAME_CLASH", column=name, first="returns", second="on_error")
        return StructType([*columns.fields, StructField(name, ERROR_TYPE)])
