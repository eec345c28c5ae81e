"""The options of ``async_io``, checked once, before any work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

from .._base.checks import (
    check,
    check_choice,
    check_count,
    check_flag,
    check_name,
    column_list,
    column_names,
    needs_other,
)
from .._base.durations import milliseconds, rate
from ..errors import error
from ..retry import Retry

Duration = str | timedelta

Journal = str | os.PathLike[str] | bool | None

OnError = Literal["raise", "null", "column"]
Engine = Literal["auto", "jvm", "python"]
Scope = Literal["task", "executor", "query"]
ERROR_COLUMN = "error"
BLOCKED_LOOP_MS = 5000
MOST_THREADS = 512  # of a plain function in one worker, without those that hang


@dataclass(frozen=True)
class AsyncOptions:
    """As the user gave them to ``async_io``, where they are explained.

    Raises ``InvalidOption`` for the first that can't work.
    """

    name: str
    ordered: bool
    capacity: int
    timeout: Duration | None
    attempt_timeout: Duration | None
    retry: Retry | None
    on_error: OnError
    error_column: str | None
    max_concurrency: int | None
    rate_limit: str | None
    inputs: Sequence[str] | None
    explode: bool
    batch_size: int | None
    batch_wait: Duration | None
    carry_over: bool = False
    max_lag: Duration | None = None
    max_carried: int | None = None
    slots: int | None = None
    journal: Journal = None
    call_key: str | Sequence[str] | None = None
    journal_ttl: Duration | None = None
    share_calls: bool = False
    by: str | Sequence[str] | None = None
    per_key: int | None = None
    adaptive: bool = False
    scope: Scope | None = None

    def __post_init__(self) -> None:
        check_flag("ordered", self.ordered)
        check_flag("explode", self.explode)
        check_count("capacity", self.capacity)
        check_choice("on_error", self.on_error, OnError)
        self._check_error_column()
        check_name("name", self.name, "name")
        if self.max_concurrency is not None:
            check_count("max_concurrency", self.max_concurrency)
        is_retry = self.retry is None or isinstance(self.retry, Retry)
        check(is_retry, "retry", "a pb.Retry", self.retry, 'pb.Retry(3, backoff="100ms")')
        total, attempt = self.timeout_ms, self.attempt_timeout_ms
        if 0 < total < attempt:
            raise error(
                "TIMEOUT_BELOW_ATTEMPT_TIMEOUT", timeout_ms=total, attempt_timeout_ms=attempt
            )
        _ = self.rate
        check_flag("adaptive", self.adaptive)
        if self.adaptive and self.max_concurrency is None:
            advice = "Give max_concurrency too, which it starts from and does not exceed."
            raise needs_other("adaptive", True, "without max_concurrency", advice)
        if self.scope is not None:
            check_choice("scope", self.scope, Scope)
            if self.max_concurrency is None and self.rate_limit is None:
                advice = "Give one of them too, or leave scope out."
                condition = "without max_concurrency or rate_limit"
                raise needs_other("scope", self.scope, condition, advice)
        if self.inputs is not None:
            column_list("inputs", self.inputs)
        self._check_batch()
        self._check_carry_over()
        self._check_journal()
        self._check_by()

    def _check_error_column(self) -> None:
        if self.error_column is None:
            return
        check_name("error_column", self.error_column, "why")
        if self.on_error != "column":
            advice = 'Give on_error="column" too, or leave error_column out.'
            condition = 'without on_error="column"'
            raise needs_other("error_column", self.error_column, condition, advice)

    @property
    def added_error_column(self) -> str | None:
        """The name of the column that tells of errors; None where there is none."""
        if self.on_error != "column":
            return None
        return ERROR_COLUMN if self.error_column is None else self.error_column

    def _check_by(self) -> None:
        if self.per_key is not None:
            check_count("per_key", self.per_key)
            if self.by is None:
                advice = "Name the columns of the key in by, or leave per_key out."
                raise needs_other("per_key", self.per_key, "without by", advice)
        if self.by is None:
            return
        column_names("by", self.by)
        if self.carry_over:
            advice = "Leave one of them out."
            raise needs_other("by", self.by, "with carry_over, which has no shuffle", advice)
        if not self.ordered and self.per_key is None:
            advice = "Use ordered=True for an order within each key, or give per_key."
            raise needs_other("by", self.by, "with ordered=False and without per_key", advice)

    @property
    def by_columns(self) -> tuple[str, ...]:
        """The names of the columns of the key; none if there is no key."""
        return () if self.by is None else column_names("by", self.by)

    def _check_journal(self) -> None:
        check_flag("share_calls", self.share_calls)
        is_path = isinstance(self.journal, (str, os.PathLike)) and bool(os.fspath(self.journal))
        fits = is_path or self.journal is None or isinstance(self.journal, bool)
        expected = "the path of a folder, or True for one in the checkpoint of a stream"
        check(fits, "journal", expected, self.journal, '"hdfs:///journals/weather"')
        if self.journal_ttl is not None and not self.has_journal:
            advice = "Give journal too, or leave journal_ttl out."
            raise needs_other("journal_ttl", self.journal_ttl, "without journal", advice)
        _ = self.journal_ttl_ms
        if self.call_key is not None:
            column_names("call_key", self.call_key)
            if not self.has_journal and not self.share_calls:
                advice = "Give one of them too, or leave call_key out."
                condition = "without journal or share_calls"
                raise needs_other("call_key", self.call_key, condition, advice)

    @property
    def has_journal(self) -> bool:
        """Whether answers are kept."""
        return self.journal is not None and self.journal is not False

    @property
    def key_columns(self) -> tuple[str, ...] | None:
        """The names of the columns that name a call; None for those of the function."""
        return None if self.call_key is None else column_names("call_key", self.call_key)

    @cached_property
    def journal_ttl_ms(self) -> int:
        """0 for ever."""
        return _milliseconds("journal_ttl", self.journal_ttl)

    def _check_carry_over(self) -> None:
        check_flag("carry_over", self.carry_over)
        for option in ("max_lag", "max_carried", "slots"):
            value = getattr(self, option)
            if value is not None and not self.carry_over:
                advice = f"Give carry_over=True too, or leave {option} out."
                raise needs_other(option, value, "without carry_over", advice)
        _ = self.max_lag_ms
        if self.slots is not None:
            check_count("slots", self.slots)
        if self.max_carried is not None:
            check_count("max_carried", self.max_carried)
            if not self.ordered:
                advice = "Leave max_carried out: results leave as they come."
                raise needs_other("max_carried", self.max_carried, "with ordered=False", advice)
            least = f"at least capacity ({self.capacity})"
            wanted = self.max_carried >= self.capacity
            check(wanted, "max_carried", least, self.max_carried, 10 * self.capacity)

    def _check_batch(self) -> None:
        size = self.batch_size
        if size is not None:
            check_count("batch_size", size)
            most = f"at most capacity ({self.capacity})"
            check(size <= self.capacity, "batch_size", most, size, self.capacity)
        elif self.batch_wait is not None:
            raise needs_other(
                "batch_wait",
                self.batch_wait,
                "without batch_size",
                "Give batch_size too, or leave batch_wait out.",
            )
        _ = self.batch_wait_ms

    @cached_property
    def timeout_ms(self) -> int:
        """0 for none."""
        return _milliseconds("timeout", self.timeout)

    @cached_property
    def attempt_timeout_ms(self) -> int:
        """0 for none."""
        return _milliseconds("attempt_timeout", self.attempt_timeout)

    @cached_property
    def batch_wait_ms(self) -> int:
        """0 without batches."""
        return _milliseconds("batch_wait", self.batch_wait, 0 if self.batch_size is None else 10)

    @cached_property
    def max_lag_ms(self) -> int:
        """Half a minute if nothing else was asked for."""
        return _milliseconds("max_lag", self.max_lag, 30_000)

    @cached_property
    def rate(self) -> dict[str, int] | None:
        """As ``durations.rate`` has it; None for none."""
        return None if self.rate_limit is None else rate(self.rate_limit)

    def to_spec(self) -> dict[str, Any]:
        """As JSON-able values, for the operator and its worker; durations in ms, 0 for none."""
        return {
            "name": self.name,
            "ordered": self.ordered,
            "capacity": self.capacity,
            "timeout_ms": self.timeout_ms,
            "attempt_timeout_ms": self.attempt_timeout_ms,
            "retry": self.retry.to_spec() if self.retry else None,
            "on_error": self.on_error,
            "error_column": self.added_error_column or ERROR_COLUMN,
            "limit": self._limit_spec(),
            "calls_per_key": self.per_key,
            "explode": self.explode,
            "batch": self.batch_size and {"rows": self.batch_size, "wait_ms": self.batch_wait_ms},
            "carry_over": self._carry_over_spec(),
            "journal": self._journal_path(),
            "journal_ttl_ms": self.journal_ttl_ms,
            "share_calls": self.share_calls,
            "blocked_loop_ms": BLOCKED_LOOP_MS,
        }

    def _limit_spec(self) -> dict[str, Any] | None:
        if self.max_concurrency is None and self.rate is None:
            return None
        return {
            "concurrency": self.max_concurrency,
            "rate": self.rate,
            "scope": self.scope or "executor",
            "adaptive": self.adaptive,
        }

    def _carry_over_spec(self) -> dict[str, Any] | None:
        if not self.carry_over:
            return None
        return {
            "max_lag_ms": self.max_lag_ms,
            "max_rows": self.max_carried,
            "slots": self.slots,
        }

    def _journal_path(self) -> str | None:
        """An empty text for the folder in the checkpoint."""
        if not self.has_journal:
            return None
        return "" if self.journal is True else os.fspath(self.journal)  # type: ignore[arg-type]


def _milliseconds(option: str, value: Duration | None, default: int = 0) -> int:
    return default if value is None else milliseconds(value, option)


def check_engine(engine: str) -> None:
    """Raises ``InvalidOption`` unless ``engine`` is one there is."""
    check_choice("engine", engine, Engine)


def refuse_for_python(options: AsyncOptions) -> None:
    """Raises ``InvalidOption`` for what only an operator in the executor can keep."""
    reason = "it holds for a whole executor, and Python workers know nothing of each other"
    for option in ("max_concurrency", "rate_limit"):
        if getattr(options, option) is not None:
            raise error("OPTION_NEEDS_JVM_ENGINE", option=option, reason=reason)
    if options.by is not None:
        reason = "a Python worker is given its rows a batch at a time and keeps no order by key"
        raise error("OPTION_NEEDS_JVM_ENGINE", option="by", reason=reason)
    if options.carry_over:
        reason = "a Python worker ends its calls with its task"
        raise error("OPTION_NEEDS_JVM_ENGINE", option="carry_over", reason=reason)
    reason = "each row is called by itself, and its answer goes to Spark alone"
    for option, is_asked in (
        ("journal", options.has_journal),
        ("share_calls", options.share_calls),
    ):
        if is_asked:
            raise error("OPTION_NEEDS_JVM_ENGINE", option=option, reason=reason)
