"""The rules for another attempt of a failed call, and its delay."""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from ._base.checks import check, check_between, check_count, check_flag, invalid, is_number
from ._base.durations import milliseconds
from ._base.functions import check_callback
from ._base.unknown_options import answers_unknown
from .errors import InvalidOption

RetryOn = (
    type[BaseException]
    | tuple[type[BaseException], ...]
    | Callable[[BaseException], bool]
    | str
    | tuple[str, ...]
)
_MOST_S = sys.float_info.max
_RETRIED_STATUSES = {408, 425, 429}
_MISTAKES = (
    TypeError,
    AttributeError,
    NameError,
    LookupError,
    ArithmeticError,
    AssertionError,
    ImportError,
    NotImplementedError,
    SyntaxError,
)
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")
_JAVA_CLASS = re.compile(r"[\w$]+(\.[\w$]+)+")


@answers_unknown
class RetryAfter(Exception):
    """Raised inside a function: this attempt failed, the next one starts after ``delay``.

    ``delay`` is a number of seconds, a duration such as "2 seconds" or a ``timedelta``, or the text
    of an HTTP header Retry-After, seconds ("2", "1.5") or a date, as in
    ``pb.RetryAfter(answer.headers.get("Retry-After"))``. None, and a text that is none of these, is
    a second: a header is the service's. ``delay_s`` has it in seconds.

    It overrides the backoff of :class:`Retry` for this attempt and is retried whatever ``on`` says,
    while attempts are left. Without ``retry=`` it is a failure like any other. ``message`` is what
    error rows show. Raises :class:`InvalidOption` for a number or ``timedelta`` below 0, an
    infinite one, or a value of another type.

    With ``all=True`` not only this row waits: no call under the limits of the operator begins for
    so long, in all executors that share them. Then it is retried also without ``retry=``, and uses
    up no attempt. Without ``limit=``, or with one of scope="key" alone, there is nothing else that
    could wait, and it is as any other.
    """

    def __init__(
        self, delay: float | str | timedelta | None, message: str = "", *, all: bool = False
    ) -> None:
        check_flag("all", all)
        try:
            self.delay_s = seconds_of(delay)
        except InvalidOption:
            if not isinstance(delay, (str, type(None))):
                raise
            self.delay_s = 1.0
        self.message = message
        self.all = all
        super().__init__(message or f"to be tried again after {self.delay_s} s")

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), all=self.all), (self.delay_s, self.message)


@answers_unknown
class NotRetryable(Exception):
    """Raised inside a function: this call failed for good, whatever :class:`Retry` says.

    ``message`` is what error rows show.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


def transient(problem: BaseException) -> bool:
    """Return True if ``problem`` may be transient: the default of ``pb.Retry(on=)``.

    An exception with an HTTP status, as those of aiohttp, httpx, requests and of clients built on
    them have, is transient for 408, 425, 429 and from 500 on. An ``Exception`` without a status is
    transient unless its type is that of a programmer's mistake: ``TypeError``, ``AttributeError``,
    ``NameError``, ``LookupError`` (``KeyError``, ``IndexError``), ``ArithmeticError``,
    ``AssertionError``, ``ImportError``, ``NotImplementedError``, ``SyntaxError``.
    """
    status = http_status(problem)
    if status is not None:
        return status in _RETRIED_STATUSES or status >= 500
    return isinstance(problem, Exception) and not isinstance(problem, _MISTAKES)


def http_status(problem: BaseException) -> int | None:
    """Return the HTTP status of an exception, by the names that clients give it; None for none."""
    try:
        response = getattr(problem, "response", None)
        statuses = (
            getattr(problem, "status", None),
            getattr(problem, "status_code", None),
            getattr(response, "status_code", None),
            getattr(response, "status", None),
        )
        found = (one for one in statuses if is_number(one, int) and one in range(100, 600))
        return next(found, None)
    except Exception:  # a property of the user's class
        return None


def retry_after_s(problem: BaseException) -> float | None:
    """Return the seconds of the header Retry-After that an exception, or its response, carries.

    None where there is no such header, or one without a meaning.
    """
    try:
        for owner in (problem, getattr(problem, "response", None)):
            headers = getattr(owner, "headers", None) or {}
            text = headers.get("Retry-After") or headers.get("retry-after")
            if isinstance(text, str):
                return seconds_of(text)
    except Exception:  # a property of the user's class, or a text without a meaning
        pass
    return None


@answers_unknown
@dataclass(frozen=True)
class Retry:
    """Up to ``max_attempts`` attempts in all; ``retry=3`` is ``pb.Retry(3)``.

    The n-th retry waits ``backoff * multiplier ** (n - 1)``, at most ``max_backoff``, moved at
    random by at most ``jitter`` up or down, or as long as the header Retry-After says that the
    exception or its ``response`` carries. Rows that were called together, by ``batch_size``, and
    failed wait equally long, and are called together again.

    The predicates are plain functions of one argument. They run in the Python worker, on the event
    loop, and must not block. What one raises is the row's failure, which is not retried.

    Parameters
    ----------
    max_attempts: the number of attempts of a call, the first included.
    backoff: the wait before the second attempt.
    multiplier: the factor of each further wait.
    max_backoff: the longest wait, without the jitter.
    jitter: the share of the wait, from 0 to 1, by which it moves at random.
    on: the exceptions that are worth another attempt: types, or a predicate; by default
        :func:`transient`. ``on=Exception`` retries every one. For a :class:`JvmFunction` it names
        classes: ``"java.io.IOException"``, or several; an exception of a class derived from one of
        them counts too, and by default every exception does but a ``NotRetryable``.
    if_result: a predicate on each result: with True it counts as a failure that is worth
        another attempt. The result of the last attempt is used as it is.

    Raises :class:`InvalidOption`.
    """

    max_attempts: int = 3
    _: KW_ONLY
    backoff: str | timedelta = "500ms"
    multiplier: float = 2.0
    max_backoff: str | timedelta = "30s"
    jitter: float = 0.5
    on: RetryOn = transient
    if_result: Callable[[Any], bool] | None = None

    def __post_init__(self) -> None:
        check_count("retry.max_attempts", self.max_attempts, 3)
        check_between("retry.multiplier", self.multiplier, 1, 1_000_000)
        check_between("retry.jitter", self.jitter, 0, 1)
        backoff = milliseconds(self.backoff, "retry.backoff")
        fits = milliseconds(self.max_backoff, "retry.max_backoff") >= backoff
        example = repr(self.backoff)
        check(fits, "retry.max_backoff", "at least retry.backoff", self.max_backoff, example)
        check(
            _is_retry_on(self.on),
            "retry.on",
            "an exception type, a tuple of them, or a predicate; for a JVM function "
            "the full name of a class, or a tuple of them",
            self.on,
            "(TimeoutError, ConnectionError)",
        )
        if callable(self.on) and not isinstance(self.on, type):
            _check_predicate("retry.on", self.on, "lambda problem: isinstance(problem, OSError)")
        if self.if_result is not None:
            _check_predicate("retry.if_result", self.if_result, "lambda result: result is None")

    def _backoff_s(self, retry: int, draw: float) -> float:
        """Return the delay in seconds before the ``retry``-th retry (from 1), jitter included.

        ``draw`` is a random number from 0 until 1: rows that have the same come back together.
        """
        spec = self._to_spec()
        try:
            delay = spec["backoff_ms"] * float(self.multiplier) ** (retry - 1)
        except OverflowError:
            delay = math.inf
        capped = min(delay, spec["max_backoff_ms"]) / 1000
        return float(capped * (1 + self.jitter * (2 * draw - 1)))

    def _to_spec(self) -> dict[str, Any]:
        """Return the part that the operator needs, as JSON-able values; durations in ms."""
        return {
            "max_attempts": self.max_attempts,
            "backoff_ms": milliseconds(self.backoff, "retry.backoff"),
            "multiplier": float(self.multiplier),
            "max_backoff_ms": milliseconds(self.max_backoff, "retry.max_backoff"),
            "jitter": float(self.jitter),
            "retry_on": list(self._classes),
            "refuses_results": self.if_result is not None,
        }

    @property
    def _classes(self) -> tuple[str, ...]:
        """The JVM classes of ``on``; none where it is about Python's."""
        if isinstance(self.on, str):
            return (self.on,)
        if isinstance(self.on, tuple):
            return tuple(one for one in self.on if isinstance(one, str))
        return ()


def seconds_of(delay: object) -> float:
    """Return the seconds of a delay: a number, a duration, or the text of a header Retry-After.

    Raises ``InvalidOption`` for anything else.
    """
    expected = 'seconds, a duration such as "2 seconds", or the text of a header Retry-After'
    if is_number(delay, int, float) and 0 <= delay <= _MOST_S:  # type: ignore[operator]
        return delay  # type: ignore[return-value]
    if isinstance(delay, timedelta) and delay >= timedelta(0):
        return delay.total_seconds()
    if isinstance(delay, str):
        text = delay.strip()
        if _SECONDS.fullmatch(text) and float(text) <= _MOST_S:
            return float(text)
        at = _http_date(text)
        if at is not None:
            return max((at - datetime.now(timezone.utc)).total_seconds(), 0.0)
        try:
            return milliseconds(text, "delay") / 1000
        except InvalidOption:
            pass
    raise invalid("delay", expected, delay, "2.5")


def _http_date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at


def _check_predicate(option: str, value: object, example: str) -> None:
    check_callback(option, value, "a predicate of one argument", 1, example)


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
