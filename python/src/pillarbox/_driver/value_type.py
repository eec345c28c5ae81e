"""The type of what a function of values returns."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._base.functions import name_of
from ..errors import PillarboxError, error, shown

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def value_type(returns: Any, function: Callable[..., Any], is_batch: bool, column: str) -> DataType:
    """Return the type of a row's value that ``returns`` or the function's annotation says.

    Raises ``InvalidSchema``: INVALID_RETURNS, RETURNS_MISSING, or UNSUPPORTED_TYPE with ``column``.
    """
    from pyspark.sql.types import DataType

    from .._arrow.classes import mapped_annotation
    from .._arrow.ddl import parse_type
    from .._arrow.schema import check_type, invalid_value

    if returns is None:
        annotation = _annotation(function, is_batch)
        if is_batch:
            annotation = _of_each(annotation, function)
        mapped = mapped_annotation(annotation, f"returns of {name_of(function)}", invalid_value)
        found: DataType = mapped.data_type
    elif isinstance(returns, (str, DataType)):
        found = parse_type(returns, "returns", invalid_value)
    else:
        found = mapped_annotation(returns, "returns", invalid_value).data_type
    check_type(found, column, "returns")
    return found


def _annotation(function: Any, is_batch: bool) -> Any:
    """Return the annotation of the result. Raises ``InvalidSchema`` (RETURNS_MISSING)."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isroutine(inner):
        inner = inner.__call__
    try:
        return typing.get_type_hints(inner, include_extras=True)["return"]
    except Exception as problem:
        has_none = isinstance(problem, KeyError)
        reason = "it has no annotation of its result" if has_none else str(problem)
        raise _missing(function, reason, is_batch) from None


def _missing(function: Any, reason: str, is_batch: bool) -> PillarboxError:
    one, several = "(text: str) -> float", "(texts: list[str]) -> list[float]"
    example = f"async def score{several if is_batch else one}"
    return error("RETURNS_MISSING", function=name_of(function), reason=reason, example=example)


def _of_each(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return what a list has elements of. Raises ``InvalidSchema`` (RETURNS_MISSING)."""
    found = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Sequence) and len(found) == 1:
        return found[0]
    reason = f"with batch_size its result is a list, and its annotation is {shown(annotation)}"
    raise _missing(function, reason, is_batch=True)
