"""``pb.Limit``: how fast calls may go, what is counted, and whose calls count together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, Literal

from ._base.checks import (
    MOST,
    check,
    check_choice,
    check_count,
    check_flag,
    check_name,
    check_text,
    is_number,
    needs_other,
)
from ._base.durations import milliseconds
from ._base.functions import check_called, is_async, name_of
from ._base.unknown_options import answers_unknown
from .errors import error

Scope = Literal["key", "task", "executor", "query", "application"]

CALLS = "calls"
_HOUR_MS = 3_600_000
_RATES_MS = {
    "per_second": 1000,
    "per_minute": 60_000,
    "per_hour": _HOUR_MS,
    "per_day": 24 * _HOUR_MS,
}

_NOTHING_ELSE = {"concurrency": None, "adaptive": False, "breaker": None}


@answers_unknown
@dataclass(frozen=True)
class Breaker:
    """Stops the calls to a service that is overloaded; ``breaker=5`` is ``pb.Breaker(5)``.

    Parameters
    ----------
    failures: after so many in a row that say that the service is overloaded, as for ``adaptive``,
        no call begins. An answer begins the count anew; other failures don't count.
    pause: the time after which one call tries. Its answer lets the others go on, and overload stops
        them for as long again.
    """

    failures: int = 5
    _: KW_ONLY
    pause: str | timedelta = "30s"

    def __post_init__(self) -> None:
        check_count("limit.breaker", self.failures, 5)
        _ = self._pause_ms

    @property
    def _pause_ms(self) -> int:
        return milliseconds(self.pause, "limit.breaker.pause")


@answers_unknown
@dataclass(frozen=True)
class Limit:
    """A bound on the calls that a service gets, or on what they use, and the calls that are counted
    together.

    Parameters
    ----------
    concurrency: calls in flight at a time.
    per_second, per_minute, per_hour, per_day: calls started, or the amount of ``unit`` that they
        use, spread evenly over the time; ``per_second=0.5`` is a call in two seconds. Where several
        are given, all of them hold.
    scope: the calls that are counted together: "query" (all executors, in one streaming query or
        one action of a batch; the default), "application" (all operators with this ``name``; the
        default with a name), "executor" (all tasks of the operator in one executor), "task", or
        "key" (rows with one key of ``by``; only ``concurrency``).
    adaptive: ``concurrency`` is a ceiling; the limit falls below it while the service is
        overloaded, and rises again. A :class:`RetryAfter`, a timeout, and the HTTP statuses 429
        and 503 say that it is.
    unit: what is counted, "calls" by default. Of another unit, such as "tokens", a call is charged
        with its ``estimate`` before it begins; what it then reports by
        ``pb.current_call().report_usage(tokens=...)`` takes its place.
    estimate: the amount of a row's call: a number, a SQL expression of the input's columns, or a
        plain function, which gets the row, or the values, as the operator's function does, in the
        batch form too. It is called in an executor before each row's call and returns a number at
        once. By default the mean of what calls have reported; until one has, one call goes at a
        time.
    name: operators, streams and jobs of one Spark application that name a limit share it. They must
        agree in all fields but ``estimate`` and the name of the column in ``key``.
    breaker: after so many failures in a row that say that the service is overloaded, calls pause,
        and then one tries; a :class:`Breaker` says how long. Each executor goes by its own calls.
    key: a column of the input: each of its values, such as a tenant, has the limit by itself; null
        is a value, too. Rows that wait for it leave room for those of others. In
        :func:`async_io` only, and with calls of one row.
    """

    _: KW_ONLY
    concurrency: int | None = None
    per_second: float | None = None
    per_minute: float | None = None
    per_hour: float | None = None
    per_day: float | None = None
    scope: Scope | None = None
    adaptive: bool = False
    unit: str = CALLS
    estimate: float | str | Callable[..., float] | None = None
    name: str | None = None
    breaker: int | Breaker | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if self.breaker is not None and not isinstance(self.breaker, Breaker):
            expected = "a number of failures or a pb.Breaker"
            check(is_number(self.breaker, int), "limit.breaker", expected, self.breaker, 5)
            object.__setattr__(self, "breaker", Breaker(self.breaker))
        if self.name is not None:
            check_name("limit.name", self.name, "openai")
        if self.scope is None:
            object.__setattr__(self, "scope", "query" if self.name is None else "application")
        check_choice("limit.scope", self.scope, Scope)
        if self.key is not None:
            check_name("limit.key", self.key, "tenant", "the name of a column")
        check_flag("limit.adaptive", self.adaptive)
        check_name("limit.unit", self.unit, "tokens")
        check(self.unit != "rows", "limit.unit", 'a unit other than "rows"', self.unit, "tokens")
        given = self._rates()
        for option, amount in given.items():
            self._check_rate(f"limit.{option}", amount)
        if self.concurrency is not None:
            check_count("limit.concurrency", self.concurrency, 50)
        elif not given and self.breaker is None:
            raise error("EMPTY_LIMIT")
        elif self.adaptive and self.unit == CALLS:
            advice = "Give concurrency too, which it starts from and does not exceed."
            raise needs_other("limit.adaptive", True, "without concurrency", advice)
        self._check_unit()
        self._check_scope(given)

    def _check_rate(self, option: str, amount: object) -> None:
        if self.unit == CALLS:
            fits = _is_amount(amount) and 0 < amount <= MOST  # type: ignore[operator]
            check(fits, option, f"a number above 0 and at most {MOST}", amount, 500)
        else:
            check(_is_amount(amount) and amount != 0, option, "a number above 0", amount, 200_000)

    def _check_unit(self) -> None:
        estimate = self.estimate
        if self.unit == CALLS:
            if estimate is not None:
                advice = "A call counts 1: name a unit, such as tokens, or leave estimate out."
                raise needs_other("limit.estimate", estimate, "without unit", advice)
            return
        for option, value in (
            ("concurrency", self.concurrency),
            ("adaptive", self.adaptive or None),
            ("breaker", self.breaker),
        ):
            if value is not None:
                advice = "Give it in another pb.Limit, which counts calls."
                raise needs_other(f"limit.{option}", value, f"with unit={self.unit!r}", advice)
        expected = "a number, a SQL expression of the input's columns, or a function of the row"
        example = '"length(prompt) / 4"'
        if isinstance(estimate, str):
            check_text("limit.estimate", estimate, example)
            check(bool(estimate.strip()), "limit.estimate", expected, estimate, example)
        elif callable(estimate):
            check_called(estimate, "ESTIMATE_NOT_A_FUNCTION", "a number")
            if is_async(estimate):
                raise error("ESTIMATE_NOT_A_FUNCTION", value=f"the coroutine {name_of(estimate)}")
        elif estimate is not None:
            check(_is_amount(estimate), "limit.estimate", expected, estimate, example)
            most = min(self._rates().values())
            fits = f"at most what the limit allows ({most})"
            check(estimate <= most, "limit.estimate", fits, estimate, most)

    def _check_scope(self, given: dict[str, float]) -> None:
        if self.scope == "key" and self.key is not None:
            advice = "That is a limit by the columns of by: leave key out, or choose another scope."
            raise needs_other("limit.key", self.key, 'with scope="key"', advice)
        others = {"adaptive": self.adaptive or None, "breaker": self.breaker, **given}
        option = next((name for name, value in others.items() if value is not None), None)
        if self.scope == "key" and option is not None:
            advice = "Give concurrency alone, and another pb.Limit for the rest."
            condition = 'with scope="key"'
            raise needs_other(f"limit.{option}", getattr(self, option), condition, advice)
        if self.name is not None and self.scope != "application":
            advice = "Leave scope out: operators share a limit with a name in all executors."
            raise needs_other("limit.name", self.name, f'with scope="{self.scope}"', advice)
        if self.name is None and self.scope == "application":
            advice = "Give it a name, by which operators share it."
            raise needs_other("limit.scope", self.scope, "without name", advice)

    def _rates(self) -> dict[str, float]:
        given = {name: getattr(self, name) for name in _RATES_MS}
        return {name: amount for name, amount in given.items() if amount is not None}

    @property
    def _interval_s(self) -> float:
        """The seconds from one call to the next; 0 for no rate.

        Calls are spread evenly, so the slowest of several rates keeps them all.
        """
        rates = self._rates().items()
        return max((_RATES_MS[name] / amount / 1000 for name, amount in rates), default=0.0)

    @property
    def _window_s(self) -> float:
        """The longest time of its rates, in seconds, in which all comes back; 0 for none."""
        rates = self._rates().items()
        return max((_RATES_MS[name] / min(amount, 1) / 1000 for name, amount in rates), default=0.0)

    def _to_specs(self) -> list[dict[str, Any]]:
        """Return JSON-able values, one limit for each rate; the first has the concurrency."""
        given = self.estimate
        is_text, is_function = isinstance(given, str), callable(given)
        common = {
            "scope": self.scope,
            "unit": self.unit,
            "estimate": None if is_text or is_function else given,
            "estimate_sql": given if is_text else None,
            "estimate_function": name_of(given) if is_function else None,
            "name": self.name,
            "key": self.key,
        }
        rates = [
            {"permits": amount, "interval_ms": _RATES_MS[name]}
            for name, amount in self._rates().items()
        ]
        breaker = self.breaker
        first = {
            "concurrency": self.concurrency,
            "adaptive": self.adaptive,
            "breaker": {"failures": breaker.failures, "pause_ms": breaker._pause_ms}
            if isinstance(breaker, Breaker)
            else None,
        }
        return [
            {"rate": rate, **(_NOTHING_ELSE if number else first), **common}
            for number, rate in enumerate(rates or [None])
        ]


def as_limits(value: object) -> tuple[Limit, ...]:
    """Convert the option ``limit=``. Raises ``InvalidOption``."""
    if value is None:
        return ()
    limits = (value,) if isinstance(value, Limit) else value
    is_list = isinstance(limits, Sequence) and bool(limits)
    fits = is_list and all(isinstance(one, Limit) for one in limits)  # type: ignore[attr-defined]
    check(fits, "limit", "a pb.Limit or a list of them", value, "pb.Limit(concurrency=50)")
    _check_distinct(limits)  # type: ignore[arg-type]
    return tuple(limits)  # type: ignore[arg-type]


def _check_distinct(limits: Sequence[Limit]) -> None:
    """Refuse one limit in two places: a call would need two permits of it."""
    others = {"concurrency": None, "adaptive": False, "breaker": None}
    own = {"estimate": None, "estimate_sql": None, "estimate_function": None}
    seen: list[dict[str, Any]] = []
    for limit in limits:
        for spec in limit._to_specs():
            # Values alone tell apart what is shared by name, whatever their column.
            key = {"key": bool(spec["key"])} if spec["name"] else {}
            figures = {**others, **spec, **own, **key}
            if figures in seen:
                advice = "A call counts once in a limit: leave one of them out."
                raise needs_other("limit", limit, "with the same limit twice in the list", advice)
            seen.append(figures)


def _is_amount(value: object) -> bool:
    return is_number(value, int, float) and 0 <= value < math.inf  # type: ignore[operator]
