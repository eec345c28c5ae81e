"""The options of ``async_io`` as users give them, checked before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._base.checks import column_names, needs_other
from .._base.functions import JvmFunction, name_of
from ..budgets import as_budget
from ..limits import as_limits
from ..options import (
    as_batch_size,
    as_carry_over,
    as_journal,
    as_on_error,
    as_retry,
    as_share_calls,
    as_timeout,
    as_units,
)
from ..retry import Retry, transient
from .command import check_function, check_resource
from .estimators import check_estimators
from .function import AsyncFunction
from .options import AsyncOptions, name_of_operator
from .ticketed import Ticketed


def given_options(given: Mapping[str, Any]) -> AsyncOptions:
    """Return the options, plain values as the objects that they stand for.

    ``given`` are the arguments of ``async_io`` by name; others are not looked at. Raises
    ``InvalidOption``, and ``InvalidFunction`` for a function or a resource that can't be called so.
    """
    function, resource = given["function"], given["resource"]
    check_resource(resource)
    if isinstance(function, Ticketed):
        function._check_parameters(resource is not None, given["batch_size"] is not None)
    else:
        check_function(function, resource is not None, given["batch_size"] is not None)
    kept, key = as_journal(given["journal"]), _columns("call_key", given["call_key"])
    options = AsyncOptions(
        name=name_of_operator(given["name"], name_of(function), key, kept),
        inputs=_columns("inputs", given["inputs"]),
        explode=given["explode"],
        batch_size=as_batch_size(given["batch_size"]),
        ordered=given["ordered"],
        by=_columns("by", given["by"]) or (),
        capacity=given["capacity"],
        limits=as_limits(given["limit"]),
        usage=as_units(given["usage"]),
        timeout=as_timeout(given["timeout"]),
        retry=as_retry(given["retry"]),
        on_error=as_on_error(given["on_error"]),
        call_key=key,
        share_calls=as_share_calls(given["share_calls"]),
        budget=as_budget(given["budget"]),
        call_column=given["call_column"],
        journal=kept,
        carry_over=as_carry_over(given["carry_over"]),
        ticketed=function if isinstance(function, Ticketed) else None,
    )
    check_estimators(options)
    return options


def _columns(option: str, names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else column_names(option, names)


def check_kind(function: Any, options: AsyncOptions, resource: object) -> None:
    """Refuse options that don't go with this kind of function."""
    on_jvm = isinstance(function, JvmFunction)
    check_retry_on(options.retry, on_jvm)
    if isinstance(function, AsyncFunction) and resource is not None:
        advice = "Open it in the function's open, and close it in close."
        raise needs_other("resource", resource, "for a pb.AsyncFunction", advice)
    refused = {
        "resource": resource,
        "batch_size": options.batch_size,
        "retry.if_result": options.retry and options.retry.if_result,
    }
    for option, value in refused.items():
        if on_jvm and value is not None:
            raise needs_other(option, value, "for a JVM function", f"Leave {option} out.")


def check_retry_on(retry: Retry | None, on_jvm: bool) -> None:
    """Raise ``InvalidOption`` for exceptions of Python on the JVM, and of Java in Python."""
    if retry is None or retry.on in (transient, Exception) or bool(retry._classes) == on_jvm:
        return
    if on_jvm:
        kind, advice = "JVM", 'Name Java classes, such as on="java.io.IOException".'
    else:
        kind = "Python"
        advice = "Pass exception types, such as on=(TimeoutError, ConnectionError)."
    raise needs_other("retry.on", retry.on, f"for a {kind} function", advice)
