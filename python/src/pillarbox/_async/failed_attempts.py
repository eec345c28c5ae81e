"""Failed attempts of calls, as failures that are retried or not under a ``Retry``.

The user's predicate may raise anything. This module catches all of it, except SystemExit and
KeyboardInterrupt, which end the worker.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from .._base.failures import Failure, failure, message_of, users_traceback
from ..errors import EXITS, PillarboxError, error
from ..retry import NotRetryable, Retry, RetryAfter, http_status

# The kinds of failures that are no exceptions. A refused result is always retried.
TIMEOUT, RESULT_REFUSED = "TIMEOUT", "RESULT_REFUSED"

OVERLOADED = {429, 503}  # the HTTP statuses "too many requests" and "service unavailable"


def describe(problem: BaseException, retry: Retry | None) -> Failure:
    """Return the failure for ``problem``, raised by a function, under ``retry``.

    If ``retry.on`` raises, its error is the failure, with ``problem`` as cause, and not retried.
    """
    try:
        if isinstance(problem, RetryAfter):
            return _asked_for_delay(problem, retry)
        found = failure(problem, _is_retryable(problem, retry))
        return replace(found, overload=True) if http_status(problem) in OVERLOADED else found
    except EXITS:
        raise
    except BaseException as broken:
        if broken is not problem:
            broken.__cause__ = problem
        return failure(broken, False)


def refused_result(shown_result: str) -> Failure:
    """Return the failure of an answer that ``retry.if_result`` refused."""
    message = f"retry.if_result refused the result {shown_result}"
    return Failure(RESULT_REFUSED, message, retryable=True, on_result=True)


def timed_out(message: str) -> Failure:
    """Return the failure of a call that missed its deadline."""
    return Failure(TIMEOUT, message, retryable=True)


def _asked_for_delay(problem: RetryAfter, retry: Retry | None) -> Failure:
    delay = min(math.ceil(problem.delay_s * 1000), 2**62) if problem.delay_s < 1e15 else 2**62
    if retry is None:
        refusal = error("RETRY_AFTER_WITHOUT_RETRY", seconds=problem.delay_s)
        return Failure(
            refusal.condition, message_of(refusal), users_traceback(problem), retry_after_ms=delay
        )
    return Failure(
        "RetryAfter", message_of(problem), users_traceback(problem), True, retry_after_ms=delay
    )


def _is_retryable(problem: BaseException, retry: Retry | None) -> bool:
    if isinstance(problem, (PillarboxError, NotRetryable)):
        return False
    on: Any = Exception if retry is None else retry.on
    if isinstance(on, (type, tuple)):
        return isinstance(problem, on)
    return bool(on(problem))
