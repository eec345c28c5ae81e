"""Budgets: when an operator stops calling."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from typing import Any, Literal

from ._base.checks import (
    MOST,
    check,
    check_choice,
    check_count,
    check_name,
    is_amount,
    is_number,
    needs_other,
    path_text,
)
from ._base.unknown_options import answers_unknown
from .errors import error
from .options import checked_units

OnExceeded = Literal["raise", "skip"]


@answers_unknown
@dataclass(frozen=True)
class Budget:
    """What the calls of an operator may spend, over all executors.

    In a batch it is the budget of one action; in a stream that of the query, and its checkpoint
    has what was spent. ``max_calls`` is never exceeded, whatever is killed: what a lost executor
    had been granted counts as spent. ``max_usage`` may be, by what calls under way use beyond the
    mean: keep ``capacity`` small where one call is a good part of it. Answers of a journal and
    shared calls cost nothing.

    Parameters
    ----------
    max_failed: rows that may fail: a number, or a share below 1, taken once there are a hundred
        rows. Rows that a journal answers don't count. In a stream it counts from the query's start.
        It counts also at the end of tasks and micro-batches, where no call is left to begin.
    max_calls: attempts that begin, retries included, by rows: a list of the batch form counts once
        for each of its rows, as in the ``rows`` of :func:`usage`.
    max_usage: the most of each unit that calls report with ``current_call().report_usage``, such as
        ``{"tokens": 5_000_000, "usd": 20}``. A call under way counts with the mean of the others.
    on_exceeded: "raise" fails the job (BUDGET_EXCEEDED); with "skip" no further call begins, and
        rows fail with this kind, under ``on_error``.
    name: operators of one application that name a budget share it, and must agree in its amounts.
    keep: a folder on any file system that Spark can write, which keeps what is spent: over runs and
        kills, and for several jobs at once. All that give the same folder share the budget, also
        streams, and must agree in its amounts within an application.
    """

    _: KW_ONLY
    max_failed: float | None = None
    max_calls: int | None = None
    max_usage: Mapping[str, float | Decimal] | None = field(default=None, hash=False)
    on_exceeded: OnExceeded = "raise"
    name: str | None = None
    keep: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.max_failed is None and self.max_calls is None and not self.max_usage:
            raise error("EMPTY_BUDGET")
        if self.max_failed is not None:
            _check_failed(self.max_failed)
        if self.max_calls is not None:
            check_count("budget.max_calls", self.max_calls, 100_000)
        if self.max_usage is not None:
            _check_usage(self.max_usage)
            object.__setattr__(self, "max_usage", dict(self.max_usage))
        check_choice("budget.on_exceeded", self.on_exceeded, OnExceeded)
        if self.name is not None:
            check_name("budget.name", self.name, "openai")
        if self.keep is not None:
            self._check_keep()

    def _check_keep(self) -> None:
        path_text("budget.keep", self.keep, "s3a://bucket/budgets/triage")
        if self.name is not None:
            advice = "All that give this folder share the budget: leave the name out."
            raise needs_other("budget.name", self.name, "with keep", advice)
        if self.max_calls is None and self.max_usage is None:
            advice = "What is kept is max_calls and max_usage; max_failed counts in each run."
            raise needs_other("budget.keep", self.keep, "without max_calls and max_usage", advice)

    @property
    def _units(self) -> tuple[str, ...]:
        """The units that calls are to report."""
        return tuple(self.max_usage or ())

    def _to_spec(self) -> dict[str, Any]:
        is_share = isinstance(self.max_failed, float)
        return {
            "max_calls": self.max_calls,
            "max_usage": {unit: float(most) for unit, most in (self.max_usage or {}).items()},
            "max_failed_rows": None if is_share else self.max_failed,
            "max_failed_share": self.max_failed if is_share else None,
            "raises": self.on_exceeded == "raise",
            "name": self.name,
            "keep": None if self.keep is None else os.fspath(self.keep),
        }


def _check_failed(value: object) -> None:
    is_count = is_number(value, int) and 0 <= value <= MOST  # type: ignore[operator]
    is_share = is_number(value, float) and 0 <= value < 1  # type: ignore[operator]
    expected = "a whole number of rows, or a share of them below 1"
    check(is_count or is_share, "budget.max_failed", expected, value, 0.02)


def _check_usage(value: object) -> None:
    expected = "positive finite amounts by the names of their units"
    example = {"tokens": 5_000_000, "usd": 20}
    is_dict = isinstance(value, Mapping) and bool(value)
    check(is_dict, "budget.max_usage", expected, value, example)
    assert isinstance(value, Mapping)
    checked_units("budget.max_usage", list(value), str(example), "which max_calls bounds")
    for most in value.values():
        fits = is_number(most, int, float, Decimal) and is_amount(most) and float(most) > 0
        check(fits, "budget.max_usage", expected, value, example)


def as_budget(value: object) -> Budget | None:
    """Convert the option ``budget=``. Raises ``InvalidOption``."""
    fits = value is None or isinstance(value, Budget)
    check(fits, "budget", "a pb.Budget", value, "pb.Budget(max_calls=100_000)")
    return value  # type: ignore[return-value]
