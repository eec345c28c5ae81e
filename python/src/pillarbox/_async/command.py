"""The function of an ``async_io``, its checks on the driver, and its way to the worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._base.functions import (
    JvmFunction,
    check_called,
    check_parameters,
    is_async,
    name_of,
    pickled,
    unpickled,
)
from ..retry import Retry
from .function import AsyncFunction, Opening, answer_of, check_methods, invoke

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .options import AsyncOptions
    from .ticketed import Ticketed


@dataclass(frozen=True)
class Command:
    """The Python part of an ``async_io``, which is pickled once and sent to workers.

    ``input_schema`` has the Spark types of the function's columns, which Arrow's types don't
    determine (user-defined types, timestamps without a zone).
    """

    function: Any  # a callable, or a Ticketed
    is_async: bool
    is_batch: bool
    resource: Callable[[], Any] | None
    retry: Retry | None
    input_schema: StructType
    returns: StructType
    name: str
    has_limits: bool = False

    def dumps(self) -> bytes:
        """Cloudpickle it. Raises ``InvalidFunction`` (NOT_PICKLABLE) naming the function."""
        return pickled(self, self.name)

    @staticmethod
    def of(
        function: Callable[..., Any] | AsyncFunction | Ticketed,
        options: AsyncOptions,
        input_schema: StructType,
        returns: StructType,
    ) -> Command:
        """Return the command of a function, or of an object, which is opened like a resource."""
        called: Any
        name, resource = name_of(function), options.resource
        if isinstance(function, AsyncFunction):
            resource, called = Opening(function, options.name), invoke
            calls = is_async(function.invoke)
        elif options.ticketed is not None:
            called, calls = options.ticketed, is_async(options.ticketed.submit)
            name = name_of(options.ticketed.submit)
        else:
            called, calls = function, is_async(function)
        return Command(
            function=called,
            is_async=calls,
            is_batch=options.batch_size is not None,
            resource=resource,
            retry=options.retry,
            input_schema=input_schema,
            returns=returns,
            name=name,
            has_limits=options.has_limits,
        )


class Shipped:
    """A command that its task unpickles, so that an error of that is reported.

    It is pickled with the plan, so that its broadcast variables belong to the plan.
    """

    def __init__(self, command: Command) -> None:
        self._command = command
        self._pickled = b""

    def __getstate__(self) -> bytes:
        return self._command.dumps()

    def __setstate__(self, pickled: bytes) -> None:
        self._pickled = pickled

    def command(self) -> Command:
        """Unpickle it in the task. Raises ``WorkerFailed`` (FUNCTION_LOAD_FAILED)."""
        made = unpickled(self._pickled)
        assert isinstance(made, Command)
        return made


def check_function(function: object, with_resource: bool, is_batch: bool) -> None:
    """Raise ``InvalidFunction`` unless the signature of ``function`` takes the row (or rows)."""
    if isinstance(function, JvmFunction):
        return
    if isinstance(function, AsyncFunction):
        check_methods(function, is_batch)
        return
    called = check_called(function, "NOT_A_FUNCTION", answer_of(is_batch))
    arguments = ("rows" if is_batch else "row", *(("resource",) if with_resource else ()))
    check_parameters(called, arguments, name_of(called))
