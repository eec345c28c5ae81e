"""The function of an ``async_io`` and its options as users give them, checked before any work."""

from __future__ import annotations

from typing import Any

from .._base.checks import needs_other
from .._base.functions import JvmFunction, name_of
from ..retry import Retry, transient
from .command import check_function
from .estimators import check_estimators
from .function import AsyncFunction
from .keywords import AsyncKeywords
from .options import AsyncOptions
from .ticketed import Ticketed


def given_options(function: Any, given: AsyncKeywords) -> AsyncOptions:
    """Return the options. Raises ``InvalidOption``, and ``InvalidFunction`` for a function or a
    resource that can't be called so."""
    is_ticketed = isinstance(function, Ticketed)
    options = AsyncOptions.of(name_of(function), given, function if is_ticketed else None)
    with_resource, is_batch = options.resource is not None, options.batch_size is not None
    if is_ticketed:
        function._check_parameters(with_resource, is_batch)
    else:
        check_function(function, with_resource, is_batch)
    check_estimators(options)
    return options


def check_kind(function: Any, options: AsyncOptions) -> None:
    """Refuse options that don't go with this kind of function."""
    on_jvm = isinstance(function, JvmFunction)
    check_retry_on(options.retry, on_jvm)
    if isinstance(function, AsyncFunction) and options.resource is not None:
        advice = "Open it in the function's open, and close it in close."
        raise needs_other("resource", options.resource, "for a pb.AsyncFunction", advice)
    refused = {
        "resource": options.resource,
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
