"""The function of an ``async_udf``, which takes values of columns, on its way to the worker."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
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
        by_place(self.function, self.name, has_resource, range(places), dict.fromkeys(by_name))
        schema = StructType.fromJson(json.loads(spec["input_schema"]))
        of_rows = _of_rows if self.is_batch else _of_row
        function = of_rows(self.function, places, by_name)
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


def _of_rows(
    function: Callable[..., Any], places: int, by_name: Sequence[str]
) -> Callable[..., Any]:
    """Return the function of a list of rows, and of the resource if there is one.

    The user's function gets a list of the values of each column.
    """

    def call(rows: list[Any], *resource: Any) -> Any:
        columns = list(map(list, zip(*rows, strict=True)))
        named = dict(zip(by_name, columns[places:], strict=True))
        return function(*resource, *columns[:places], **named)

    return call


def by_place(
    function: Callable[..., Any],
    name: str,
    has_resource: bool,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    problem: str = "WRONG_ARGUMENTS",
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments by place as far as that goes, so that equal calls look alike.

    Raises ``InvalidFunction`` (``problem``) unless ``function`` takes such arguments.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return arguments, named  # a built-in without a signature
    try:
        bound = signature.bind(*(None,) * has_resource, *arguments, **named)
    except TypeError as refusal:
        columns = [f"column {number + 1}" for number in range(len(arguments))]
        given = ["resource"] * has_resource + columns + [f"{one}=column" for one in named]
        raise error(
            problem,
            function=name,
            signature=str(signature),
            call=f"{name}({', '.join(given)})",
            reason=str(refusal),
        ) from None
    return bound.args[has_resource:], bound.kwargs
