"""Failed attempts of calls, as failures that are retried or not under a ``Retry``.

The user's predicate may raise anything. This module catches all of it, except SystemExit and
KeyboardInterrupt, which end the worker.
"""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._base.checks import invalid
from .._base.failures import (
    Failure,
    failure,
    final_failure,
    kind_of,
    message_of,
    users_traceback,
)
from .._base.functions import name_of
from .._base.values import Names, shown_value
from ..errors import EXITS, PillarboxError, error
from ..retry import NotRetryable, Retry, RetryAfter, http_status, retry_after_s

# The kinds of failures that are no exceptions. A refused result is always retried.
TIMEOUT, RESULT_REFUSED = "TIMEOUT", "RESULT_REFUSED"

OVERLOADED = {429, 503}  # the HTTP statuses "too many requests" and "service unavailable"


def describe(problem: BaseException, retry: Retry | None, has_limits: bool = False) -> Failure:
    """Return the failure for ``problem``, raised by a function, under ``retry``.

    A ``RetryAfter(all=True)`` pauses the operator's limits, and needs no retry, if there are any.

    If ``retry.on`` raises, its error is the failure, with ``problem`` as cause, and not retried.

    Of an exception group, such as ``asyncio.TaskGroup`` raises, one exception is the failure.
    """
    causes = _causes(problem)
    if len(causes) > 1:
        deciding = min(causes, key=_precedence)
        return replace(describe(deciding, retry, has_limits), traceback=users_traceback(problem))
    (problem,) = causes
    try:
        if isinstance(problem, RetryAfter):
            return _asked_for_delay(problem, retry, problem.all and has_limits)
        found = failure(problem, _is_retryable(problem, retry))
        if http_status(problem) in OVERLOADED:
            found = replace(found, overload=True)
        delay_s = retry_after_s(problem) if found.retryable and retry is not None else None
        return found if delay_s is None else replace(found, retry_after_ms=_in_ms(delay_s))
    except EXITS:
        raise
    except BaseException as broken:
        if broken is not problem:
            broken.__cause__ = problem
        judged = f"{kind_of(problem)}: {message_of(problem)}"
        return _of_predicate("retry.on", retry and retry.on, broken, judged)


_GROUP: Any = getattr(builtins, "BaseExceptionGroup", ())  # Python 3.10 has none


def _causes(problem: BaseException) -> list[BaseException]:
    """Return the exceptions of a group and of the groups in it; else the exception alone."""
    if not isinstance(problem, _GROUP):
        return [problem]
    return [cause for inner in problem.exceptions for cause in _causes(inner)]


def _precedence(cause: BaseException) -> tuple[int, float]:
    """Order the exceptions of a group: what is final, the longest delay, overload, the first."""
    if isinstance(cause, (PillarboxError, NotRetryable)):
        return 0, 0.0
    if isinstance(cause, RetryAfter):
        return 1, -cause.delay_s
    return (2 if http_status(cause) in OVERLOADED else 3), 0.0


def refused_result(answer: Any, predicate: Callable[[Any], bool], names: Names) -> Failure | None:
    """Return the failure of an answer that ``retry.if_result`` refuses; None if it is accepted.

    ``names`` are those of all columns and fields that the answer is for.
    """
    try:
        if not _says(predicate, answer, "retry.if_result"):
            return None
    except EXITS:
        raise
    except BaseException as broken:
        judged = f"the result {shown_value(answer, names)}"
        return _of_predicate("retry.if_result", predicate, broken, judged)
    message = f"retry.if_result refused the result {shown_value(answer, names)}"
    return Failure(RESULT_REFUSED, message, retryable=True)


def timed_out(message: str) -> Failure:
    """Return the failure of a call that missed its deadline."""
    return Failure(TIMEOUT, message, retryable=True)


def _asked_for_delay(problem: RetryAfter, retry: Retry | None, pauses_limit: bool) -> Failure:
    delay = _in_ms(problem.delay_s)
    if retry is None and not pauses_limit:
        refusal = error("RETRY_AFTER_WITHOUT_RETRY", seconds=problem.delay_s)
        return Failure(
            refusal.condition,
            message_of(refusal),
            users_traceback(problem),
            retry_after_ms=delay,
        )
    return Failure(
        "RetryAfter",
        message_of(problem),
        users_traceback(problem),
        True,
        retry_after_ms=delay,
        pauses_limit=pauses_limit,
    )


def _in_ms(delay_s: float) -> int:
    return min(math.ceil(delay_s * 1000), 2**62) if delay_s < 1e15 else 2**62


def _is_retryable(problem: BaseException, retry: Retry | None) -> bool:
    if isinstance(problem, (PillarboxError, NotRetryable)):
        return False
    on: Any = Exception if retry is None else retry.on
    if isinstance(on, (type, tuple)):
        return isinstance(problem, on)
    return _says(on, problem, "retry.on")


def _says(predicate: Callable[[Any], bool], value: Any, option: str) -> bool:
    said: Any = predicate(value)
    if inspect.isawaitable(said):  # of a lambda around a coroutine function
        if inspect.iscoroutine(said):
            said.close()
        raise invalid(option, "a predicate that says True or False", said, "lambda value: True")
    return bool(said)


def _of_predicate(option: str, predicate: Any, broken: BaseException, judged: str) -> Failure:
    found = final_failure(broken)
    if predicate is None or isinstance(broken, PillarboxError):
        return found
    raised = f"{option} ({name_of(predicate)}) raised {kind_of(broken)}: {found.message}"
    message = f"{raised}, when it judged {judged}"
    return replace(found, message=message)
