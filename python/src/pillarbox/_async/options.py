"""The options of ``async_io``, checked once, before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from .._base.durations import milliseconds, rate
from .._base.numbers import check_count
from ..errors import error, shown
from ..retry import Retry

Duration = str | timedelta

OnError = Literal["raise", "null", "column"]
Engine = Literal["auto", "jvm", "python"]
BLOCKED_LOOP_MS = 5000
MOST_THREADS = 512  # of a plain function in one worker, without those that hang
_DEFAULT_BATCH_WAIT_MS = 10


@dataclass(frozen=True)
class AsyncOptions:
    """Valid options; durations in ms, 0 for none."""

    ordered: bool
    capacity: int
    timeout_ms: int
    attempt_timeout_ms: int
    retry: Retry | None
    on_error: str
    error_column: str
    max_concurrency: int | None
    rate: dict[str, int] | None
    inputs: tuple[str, ...] | None
    explode: bool
    batch_size: int | None
    batch_wait_ms: int
    name: str

    def to_spec(self) -> dict[str, Any]:
        """As JSON-able values, for the operator on either side."""
        return {
            "name": self.name,
            "ordered": self.ordered,
            "capacity": self.capacity,
            "timeout_ms": self.timeout_ms,
            "attempt_timeout_ms": self.attempt_timeout_ms,
            "retry": self.retry.to_spec() if self.retry else None,
            "on_error": self.on_error,
            "error_column": self.error_column,
            "max_concurrency": self.max_concurrency,
            "rate": self.rate,
            "explode": self.explode,
            "batch_size": self.batch_size,
            "batch_wait_ms": self.batch_wait_ms,
            "blocked_loop_ms": BLOCKED_LOOP_MS,
        }


def parse_options(
    *,
    ordered: bool,
    capacity: int,
    timeout: Duration | None,
    attempt_timeout: Duration | None,
    retry: Retry | None,
    on_error: str,
    error_column: str,
    max_concurrency: int | None,
    rate_limit: str | None,
    inputs: Sequence[str] | None,
    explode: bool,
    batch_size: int | None,
    batch_wait: Duration | None,
    name: str,
) -> AsyncOptions:
    """Raises ``InvalidOption`` for the first option that can't work."""
    _flag("ordered", ordered)
    _flag("explode", explode)
    check_count("capacity", capacity)
    _choice("on_error", on_error, get_args(OnError))
    _text("error_column", error_column)
    _text("name", name)
    if max_concurrency is not None:
        check_count("max_concurrency", max_concurrency)
    if retry is not None and not isinstance(retry, Retry):
        _invalid("retry", "a pb.Retry", retry, 'pb.Retry(3, backoff="100ms")')
    timeout_ms = _optional_ms("timeout", timeout)
    attempt_ms = _optional_ms("attempt_timeout", attempt_timeout)
    if 0 < timeout_ms < attempt_ms:
        raise error(
            "TIMEOUT_BELOW_ATTEMPT_TIMEOUT", timeout_ms=timeout_ms, attempt_timeout_ms=attempt_ms
        )
    return AsyncOptions(
        ordered=ordered,
        capacity=capacity,
        timeout_ms=timeout_ms,
        attempt_timeout_ms=attempt_ms,
        retry=retry,
        on_error=on_error,
        error_column=error_column,
        max_concurrency=max_concurrency,
        rate=None if rate_limit is None else rate(rate_limit),
        inputs=_names(inputs),
        explode=explode,
        batch_size=batch_size,
        batch_wait_ms=_batch(batch_size, batch_wait, capacity),
        name=name,
    )


def _names(inputs: Sequence[str] | None) -> tuple[str, ...] | None:
    if inputs is None:
        return None
    fits = isinstance(inputs, (list, tuple)) and all(isinstance(name, str) for name in inputs)
    if not fits or not inputs:
        _invalid("inputs", "a list of column names", inputs, '["origin", "hour"]')
    return tuple(inputs)


def _batch(batch_size: int | None, batch_wait: Duration | None, capacity: int) -> int:
    if batch_size is None:
        if batch_wait is not None:
            raise error(
                "OPTION_NEEDS_OTHER",
                option="batch_wait",
                value=shown(batch_wait),
                condition="without batch_size",
                advice="Give batch_size too, or leave batch_wait out.",
            )
        return 0
    check_count("batch_size", batch_size)
    if batch_size > capacity:
        _invalid("batch_size", f"at most capacity ({capacity})", batch_size, capacity)
    wait = _DEFAULT_BATCH_WAIT_MS
    return wait if batch_wait is None else milliseconds(batch_wait, "batch_wait")


def check_engine(engine: str) -> None:
    """Raises ``InvalidOption`` unless ``engine`` is one there is."""
    _choice("engine", engine, get_args(Engine))


def refuse_for_python(options: AsyncOptions) -> None:
    """Raises ``InvalidOption`` for limits that only an operator in the executor can keep."""
    reason = "it holds for a whole executor, and Python workers know nothing of each other"
    if options.max_concurrency is not None:
        raise error("OPTION_NEEDS_JVM_ENGINE", option="max_concurrency", reason=reason)
    if options.rate is not None:
        raise error("OPTION_NEEDS_JVM_ENGINE", option="rate_limit", reason=reason)


def _optional_ms(option: str, value: Duration | None) -> int:
    return 0 if value is None else milliseconds(value, option)


def _flag(option: str, value: object) -> None:
    if not isinstance(value, bool):
        _invalid(option, "True or False", value, True)


def _text(option: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        _invalid(option, "a name", value, f'"{option}"')


def _choice(option: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        names = ", ".join(f'"{choice}"' for choice in choices)
        _invalid(option, f"one of {names}", value, f'"{choices[0]}"')


def _invalid(option: str, expected: str, value: object, example: object) -> None:
    raise error(
        "INVALID_OPTION", option=option, expected=expected, value=shown(value), example=example
    )
