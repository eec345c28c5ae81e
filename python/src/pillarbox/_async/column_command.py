"""The function of an ``async_udf``, which takes values of columns, on its way to the worker."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..errors import error
from .command import Command


class ColumnCommand(Command):
    """The Python part of an ``async_udf``, which is pickled once.

    Only the task knows the types of the columns, and which of them are given by name.
    """

    def for_task(self, spec: dict[str, Any]) -> Command:
        """Return the command of a task whose spec names the arguments, "" for those without a name.

        Raises ``InvalidFunction`` (WRONG_ARGUMENTS) if the function doesn't take them.
        """
        from pyspark.sql.types import StructType

        names: list[str] = spec["arguments"]
        by_name = [name for name in names if name]
        places = len(names) - len(by_name)
        has_resource = self.resource is not None
        check_arguments(self.function, self.name, has_resource, places, by_name)
        schema = StructType.fromJson(json.loads(spec["input_schema"]))
        function = _of_row(self.function, places, by_name)
        return replace(self, function=function, input_schema=schema)


def _of_row(
    function: Callable[..., Any], places: int, by_name: Sequence[str]
) -> Callable[..., Any]:
    """Return the function of a row, and of the resource if there is one."""
    if not by_name:
        return lambda row, *resource: function(*resource, *row)

    def call(row: Any, *resource: Any) -> Any:
        named = dict(zip(by_name, row[places:], strict=True))
        return function(*resource, *row[:places], **named)

    return call


def check_arguments(
    function: Callable[..., Any],
    name: str,
    has_resource: bool,
    places: int,
    by_name: Sequence[str],
) -> None:
    """Raise ``InvalidFunction`` (WRONG_ARGUMENTS) unless ``function`` takes such arguments."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return  # a built-in without a signature
    try:
        signature.bind(*range(places + has_resource), **dict.fromkeys(by_name))
    except TypeError as problem:
        columns = [f"column {number + 1}" for number in range(places)]
        given = ["resource"] * has_resource + columns + [f"{one}=column" for one in by_name]
        raise error(
            "WRONG_ARGUMENTS",
            function=name,
            signature=str(signature),
            call=f"{name}({', '.join(given)})",
            reason=str(problem),
        ) from None


def by_place(
    function: Callable[..., Any],
    has_resource: bool,
    arguments: Sequence[Any],
    named: dict[str, Any],
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the arguments by place as far as that goes, so that equal calls look alike."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return arguments, named
    bound = signature.bind(*(None,) * has_resource, *arguments, **named)
    return bound.args[has_resource:], bound.kwargs
