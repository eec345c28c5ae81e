"""When and after how long a failed call is tried again."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ._base.checks import check, check_between, check_count, is_number
from ._base.durations import milliseconds

RetryOn = (
    type[BaseException]
    | tuple[type[BaseException], ...]
    | Callable[[BaseException], bool]
    | str
    | tuple[str, ...]
)
_JAVA_CLASS = re.compile(r"[\w$]+(\.[\w$]+)+")


class RetryAfter(Exception):
    """Raised inside a function: this attempt failed, try again ``seconds`` from now.

    It overrides the backoff of :class:`Retry` for this attempt and is retried whatever
    ``retry_on`` says, while attempts are left. Without ``retry=`` it is a failure like any other.
    ``message`` is what error rows show. Raises :class:`InvalidOption` for seconds below 0.
    """

    def __init__(self, seconds: float, message: str = "") -> None:
        fits = is_number(seconds, int, float) and seconds >= 0
        check(fits, "seconds", "a number of seconds, 0 or more", seconds, "2.5")
        self.seconds = seconds
        self.message = message
        super().__init__(message or f"to be tried again after {seconds} s")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seconds, self.message)


@dataclass(frozen=True)
class Retry:
    """Up to ``max_attempts`` attempts in all, the first included.

    The n-th retry waits ``backoff * multiplier ** (n - 1)``, at most ``max_backoff``, moved at
    random by at most ``jitter`` (0 to 1, a share of the delay) up or down. ``retry_on`` says which
    exceptions are worth it: types, or a predicate; by default every ``Exception``. For a
    :func:`jvm_function` it names classes: ``"java.io.IOException"``, or several; an exception of a
    class derived from one of them counts too. ``retry_if_result`` is asked for each result: true
    means that it counts as a failure that is worth another attempt; the result of the last attempt
    is used as it is.
    Both predicates run in the Python worker, on the event loop, and must not block.

    Raises :class:`InvalidOption`.
    """

    max_attempts: int
    backoff: str | timedelta = "100ms"
    multiplier: float = 2.0
    max_backoff: str | timedelta = "30s"
    jitter: float = 0.1
    retry_on: RetryOn = Exception
    retry_if_result: Callable[[Any], bool] | None = None

    def __post_init__(self) -> None:
        check_count("retry.max_attempts", self.max_attempts, 3)
        check_between("retry.multiplier", self.multiplier, 1, 1_000_000)
        check_between("retry.jitter", self.jitter, 0, 1)
        backoff = milliseconds(self.backoff, "retry.backoff")
        fits = milliseconds(self.max_backoff, "retry.max_backoff") >= backoff
        check(fits, "retry.max_backoff", "at least retry.backoff", self.max_backoff, '"30s"')
        check(
            _is_retry_on(self.retry_on),
            "retry.retry_on",
            "an exception type, a tuple of them, or a predicate; for a JVM function "
            "the full name of a class, or a tuple of them",
            self.retry_on,
            "(TimeoutError, ConnectionError)",
        )
        check(
            self.retry_if_result is None or callable(self.retry_if_result),
            "retry.retry_if_result",
            "a predicate on the result",
            self.retry_if_result,
            "lambda result: result is None",
        )

    def backoff_s(self, retry: int) -> float:
        """The delay in seconds before the ``retry``-th retry (from 1), jitter included."""
        spec = self.to_spec()
        try:
            delay = spec["backoff_ms"] * float(self.multiplier) ** (retry - 1)
        except OverflowError:
            delay = math.inf
        capped = min(delay, spec["max_backoff_ms"]) / 1000
        return float(capped * (1 + self.jitter * random.uniform(-1, 1)))

    def to_spec(self) -> dict[str, Any]:
        """The part that the operator needs, as JSON-able values; durations in ms."""
        return {
            "max_attempts": self.max_attempts,
            "backoff_ms": milliseconds(self.backoff, "retry.backoff"),
            "multiplier": float(self.multiplier),
            "max_backoff_ms": milliseconds(self.max_backoff, "retry.max_backoff"),
            "jitter": float(self.jitter),
            "retry_on": list(self.classes),
            "refuses_results": self.retry_if_result is not None,
        }

    @property
    def classes(self) -> tuple[str, ...]:
        """The JVM classes of ``retry_on``; none where it is about Python's."""
        if isinstance(self.retry_on, str):
            return (self.retry_on,)
        if isinstance(self.retry_on, tuple):
            return tuple(one for one in self.retry_on if isinstance(one, str))
        return ()


def _is_retry_on(value: object) -> bool:
    if isinstance(value, tuple):
        are_types, are_names = all(map(_is_exception_type, value)), all(map(_is_java_class, value))
        return bool(value) and (are_types or are_names)
    if _is_exception_type(value) or _is_java_class(value):
        return True
    return callable(value) and not isinstance(value, type)


def _is_exception_type(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _is_java_class(value: object) -> bool:
    return isinstance(value, str) and _JAVA_CLASS.fullmatch(value) is not None
