"""The options of ``async_io``, checked once, before any work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .._base.checks import check, invalid, needs_other
from .._base.keywords import converted, option_text, options_shown
from ..budgets import Budget
from ..errors import error
from ..limits import CALLS, Limit
from ..options import BatchSize, CarryOver, ErrorColumn, Journal, ShareScope, Timeout
from ..retry import Retry
from .keywords import AsyncKeywords, Engine

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from .ticketed import Ticketed

BLOCKED_LOOP_MS = 5000


@dataclass(frozen=True)
class AsyncOptions:
    """The options of calls, as option objects: of each keyword what its ``convert`` has made.

    Raises ``InvalidOption`` for the first one that contradicts another.
    """

    name: str
    ordered: bool
    capacity: int
    timeout: Timeout
    retry: Retry | None
    on_error: Literal["raise", "null"] | ErrorColumn
    limit: tuple[Limit, ...]
    usage: tuple[str, ...]
    inputs: tuple[str, ...] | None
    explode: bool
    batch_size: BatchSize | None
    carry_over: CarryOver | None
    journal: Journal | None
    call_key: tuple[str, ...] | None
    share_calls: ShareScope | None
    budget: Budget | None
    call_column: str | None
    by: tuple[str, ...] | None
    resource: Callable[[], Any] | None
    engine: Engine
    ticketed: Ticketed | None

    @classmethod
    def of(
        cls,
        function: str,
        given: Mapping[str, object],
        ticketed: Ticketed | None = None,
        check_limit: Callable[[Limit], None] = lambda limit: None,
    ) -> AsyncOptions:
        """Return the options of these keywords; ``function`` is the operator's name without one.

        Ids of calls that outlive a run contain the name, so those need one that does not depend on
        code. ``check_limit`` refuses limits that the function can't have. Raises ``InvalidOption``.
        """
        options = converted(AsyncKeywords, given)
        for limit in options["limit"]:
            check_limit(limit)
        if options["name"] is None:
            if options["journal"] is not None:
                raise error("JOURNAL_WITHOUT_NAME", function=function)
            if options["call_key"] is not None:
                raise error("CALL_KEY_WITHOUT_NAME", function=function)
            options["name"] = function
        return cls(**options, ticketed=ticketed)

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            option = "capacity" if self.ticketed is None else "max_pending"
            size, most = self.batch_size.rows, f"at most {option} ({self.rows_in_flight})"
            check(size <= self.rows_in_flight, "batch_size", most, size, self.rows_in_flight)
        self._check_carry_over()
        self._check_share_calls()
        self._check_limits()
        self._check_by()
        self._check_budget()
        if self.ticketed is not None:
            self._check_ticketed(self.ticketed)

    def _check_carry_over(self) -> None:
        most = None if self.carry_over is None else self.carry_over.max_rows
        if most is None:
            return
        option = "carry_over.max_rows"
        if not self.ordered:
            advice = "Leave max_rows out: results leave as they come."
            raise needs_other(option, most, "with ordered=False", advice)
        least, places = "max_pending" if self.ticketed else "capacity", self.rows_in_flight
        check(most >= places, option, f"at least {least} ({places})", most, 10 * places)

    def _check_share_calls(self) -> None:
        if self.share_calls != "query":
            return
        for option, value in (("carry_over", self.carry_over), ("by", self.by)):
            if value:
                condition = 'with share_calls="query", which shuffles rows by what calls ask'
                raise needs_other(option, value, condition, 'Use share_calls="task".')

    def _check_limits(self) -> None:
        if self.calls_per_key and not self.by:
            advice = "Name the columns of the key in by, or choose another scope."
            raise needs_other("limit.scope", "key", "without by", advice)
        if self.batch_size is not None and self.keys_of_limits:
            advice = "Leave batch_size out, or give the limit no key."
            condition = "with batch_size, whose calls have rows of several values"
            raise needs_other("limit.key", self.keys_of_limits[0], condition, advice)

    def _check_by(self) -> None:
        if self.by and self.carry_over is not None:
            advice = "Leave one of them out."
            raise needs_other("by", self.by, "with carry_over, which has no shuffle", advice)
        if self.by and not self.ordered and self.calls_per_key is None:
            advice = 'Use ordered=True, or a pb.Limit(concurrency=1, scope="key").'
            condition = "with ordered=False and without a limit by key"
            raise needs_other("by", self.by, condition, advice)

    def _check_budget(self) -> None:
        if self.budget is None or self.on_error != "raise":
            return
        condition = 'with on_error="raise"'
        if self.budget.max_failed is not None:
            advice = 'There the first row that fails ends the job: use on_error="column" or "null".'
            raise needs_other("budget.max_failed", self.budget.max_failed, condition, advice)
        if self.budget.on_exceeded == "skip":
            advice = 'Use on_error="column" or "null", or on_exceeded="raise".'
            raise needs_other("budget.on_exceeded", "skip", condition, advice)

    def _check_ticketed(self, halves: Ticketed) -> None:
        if self.journal is None:
            raise error("TICKETED_WITHOUT_JOURNAL")
        if halves.on_pending == "leave" and self.error_column is None:
            advice = 'Use on_error="column": the kind of such a row is PENDING.'
            raise needs_other("on_pending", "leave", f"with on_error={self.on_error!r}", advice)
        if self.retry is not None and self.retry.if_result is not None:
            advice = (
                "Leave it out, and let collect return an exception where a row's answer is bad."
            )
            condition = (
                "for a pb.Ticketed, whose answers don't change when they are collected again"
            )
            raise needs_other("retry.if_result", self.retry.if_result, condition, advice)
        if self.keys_of_limits:
            advice = 'Give the limit no key, or a scope="key", which counts the rows that are out.'
            condition = "for a pb.Ticketed, whose tickets have rows of several values"
            raise needs_other("limit.key", self.keys_of_limits[0], condition, advice)
        total, poll = self.timeout._total_ms, halves._poll_ms
        if total and total <= poll:
            expected = f"longer than poll ({poll} ms) for a pb.Ticketed"
            raise invalid("timeout", expected, self.timeout.total, '"25 hours"')
        carried = self.carry_over
        if carried and halves.on_pending == "wait" and carried._max_lag_ms <= poll:
            expected = f"longer than poll ({poll} ms) for a pb.Ticketed: a micro-batch waits then"
            raise invalid("carry_over.max_lag", expected, carried.max_lag, '"25 hours"')

    @property
    def rows_in_flight(self) -> int:
        """The rows of a task that may be in flight, those that wait for a ticket's answer too."""
        return self.capacity if self.ticketed is None else self.ticketed.max_pending

    @property
    def max_waiting(self) -> int:
        """The rows of a task that may be in flight, or done and wait for their turn in the order.

        0 without an order, and where rows wait for tickets, which have a bound of their own.
        """
        if not self.ordered or (self.ticketed is not None and self.carry_over is None):
            return 0
        given = None if self.carry_over is None else self.carry_over.max_rows
        return min(10 * self.rows_in_flight, 2**31 - 1) if given is None else given

    @property
    def journal_path(self) -> str | None:
        """The path of the journal's folder, "" for one in the checkpoint; None without one."""
        return None if self.journal is None else os.fspath(self.journal.path or "")

    @property
    def calls_per_key(self) -> int | None:
        """The calls in flight of each key of ``by``; None for any number."""
        of_key = (limit.concurrency for limit in self.limit if limit.scope == "key")
        return min(filter(None, of_key), default=None)

    @property
    def has_limits(self) -> bool:
        """True if calls wait for a limit that ``RetryAfter(all=True)`` pauses."""
        return bool(self.limits_of_calls)

    @property
    def keys_of_limits(self) -> tuple[str, ...]:
        """The columns whose values have limits of their own."""
        return tuple(limit.key for limit in self.limit if limit.key is not None)

    @property
    def limits_of_calls(self) -> tuple[Limit, ...]:
        """The limits of another scope than "key"."""
        limits = [limit for limit in self.limit if limit.scope != "key"]
        if self.ticketed is not None and not any(map(self._bounds_task, limits)):
            # What is in flight is far more, and holds no permit while it waits.
            limits.append(Limit(concurrency=self.capacity, scope="task"))
        return tuple(limits)

    @property
    def estimators(self) -> tuple[Callable[..., Any], ...]:
        """The functions in ``estimate``, of each spec of a limit that has one."""
        limits = (limit for limit in self.limits_of_calls if callable(limit.estimate))
        return tuple(limit.estimate for limit in limits for _ in limit._to_specs())  # type: ignore[misc]

    def _bounds_task(self, limit: Limit) -> bool:
        most = limit.concurrency
        return limit.scope == "task" and most is not None and most <= self.capacity

    @property
    def units(self) -> tuple[str, ...]:
        """The units in which calls may report what they use."""
        of_limits = (limit.unit for limit in self.limit if limit.unit != CALLS)
        of_budget = () if self.budget is None else self.budget._units
        return tuple(dict.fromkeys((*self.usage, *of_limits, *of_budget)))

    @property
    def error_column(self) -> str | None:
        """The name of the error column; None where there is none."""
        return self.on_error.name if isinstance(self.on_error, ErrorColumn) else None

    def added_columns(self, inputs: Sequence[str]) -> list[tuple[StructField, str]]:
        """Return the columns that come beside those of ``returns``, each with its option's name.

        ``inputs`` are the names of the input's columns.
        """
        from .._arrow.schema import call_field, error_field

        added = []
        if self.error_column is not None:
            added.append((error_field(self.error_column, inputs), "on_error"))
        if self.call_column is not None:
            is_batch = self.batch_size is not None
            call = call_field(self.call_column, self.name, self.units, is_batch)
            added.append((call, "call_column"))
        return added

    def to_spec(self) -> dict[str, Any]:
        """Return JSON-able values, of each field of ``AsyncIOSpec.scala`` but a function's.

        Durations are in ms, 0 for none.
        """
        journal, batch, carried = self.journal, self.batch_size, self.carry_over
        return {
            "name": self.name,
            "figures": {
                "ordered": self.ordered,
                "capacity": self.rows_in_flight,
                "max_waiting": self.max_waiting,
                "total_timeout_ms": self.timeout._total_ms,
                "attempt_timeout_ms": self.timeout._attempt_ms,
                "batching": batch and {"size": batch.rows, "wait_ms": self._batch_wait_ms(batch)},
                "calls_per_key": self.calls_per_key or 0,
            },
            "worker": {
                "threads": self.capacity,
                "arguments": [],
                "blocked_loop_ms": BLOCKED_LOOP_MS,
            },
            "retry": self.retry and self.retry._to_spec(),
            "on_error": "column" if self.error_column else self.on_error,
            "error_column": self.error_column,
            "limits": [spec for limit in self.limits_of_calls for spec in limit._to_specs()],
            "explode": self.explode,
            "carry_over": carried
            and {
                "max_lag_ms": carried._max_lag_ms,
                "max_rows": carried.max_rows,
                "slots": carried.slots,
            },
            "journal": journal
            and {
                "path": self.journal_path,
                "ttl_ms": journal._ttl_ms,
                "version": journal.version,
            },
            "share_calls": self.share_calls,
            "budget": self.budget and self.budget._to_spec(),
            "ticketed": self.ticketed and self.ticketed._to_spec(),
            "call_column": self.call_column,
            "units": list(self.units),
            "inputs": list(self.inputs or ()),  # []: all columns
            "by": list(self.by or ()),
            "call_key": list(self.call_key or ()),  # []: the inputs
            "estimator": None,
            "class_name": None,
            "options": {},
            "call_scope": None,
            "expression": False,
            "shown": self._shown(),
        }

    def _shown(self) -> list[str]:
        """What ``explain()`` shows behind name, order, capacity and ``on_error``."""
        own = options_shown(AsyncKeywords, self, ("name", "ordered", "capacity", "on_error"))
        return [f"ticketed={option_text(self.ticketed)}", *own] if self.ticketed else own

    def _batch_wait_ms(self, batch: BatchSize) -> int:
        """The time that the first row of a list waits for others, which is little beside a poll."""
        return max(batch._wait_ms, self.ticketed._poll_ms if self.ticketed else 0)


def refuse_for_python(options: AsyncOptions) -> None:
    """Raise ``InvalidOption`` for an option that needs an operator in the executor."""
    for limit in options.limits_of_calls:
        if limit.scope != "task":
            raise error("LIMIT_NEEDS_JVM_ENGINE", scope=limit.scope)
    for option, reason in options_of_jvm(options):
        raise error("OPTION_NEEDS_JVM_ENGINE", option=option, reason=reason)


def options_of_jvm(options: AsyncOptions) -> Iterator[tuple[str, str]]:
    """Yield the given options that only an operator in the executor can keep, with the reason."""
    adaptive = any(limit.adaptive for limit in options.limit)
    breaker = any(limit.breaker for limit in options.limit)
    of_use = next((limit.unit for limit in options.limit if limit.unit != CALLS), None)
    no_order = "a Python worker is given its rows a batch at a time and keeps no order by key"
    by_itself = "each row is called by itself, and its answer goes to Spark alone"
    ticket = "a ticket is kept in a journal before anything else happens"
    for option, value, reason in (
        ("pb.Ticketed", options.ticketed, ticket),
        ("limit.adaptive", adaptive, "its calls don't learn how the service bears others"),
        ("limit.breaker", breaker, "its calls don't learn how the service bears others"),
        ("limit.unit", of_use, "a Python worker does not wait for what its calls have reported"),
        ("by", options.by, no_order),
        ("carry_over", options.carry_over, "a Python worker ends its calls with its task"),
        ("journal", options.journal, by_itself),
        ("share_calls", options.share_calls, by_itself),
        ("budget", options.budget, "its tasks don't know what others have spent"),
        ("call_key", options.call_key, "its calls are named by the places of their rows"),
    ):
        if value:
            yield option, reason
