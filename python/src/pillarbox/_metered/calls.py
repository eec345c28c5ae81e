"""The call that user code runs in, and the functions that return it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .._base.checks import is_amount
from .._base.failures import message_of
from ..errors import error, shown

# The id of a call, or what makes it when somebody asks.
Name = str | Callable[[], str]
Amounts = float | Decimal | Sequence[float | Decimal]

OF_CALLS, PAUSE = -1, -2


@dataclass(frozen=True)
class Feedback:
    """What the service says of a limit: so much is left, and all of it is there in ``reset_s``.

    ``unit`` is the index of the operator's unit, ``OF_CALLS`` for calls, ``PAUSE`` for all of its
    limits, which wait for ``reset_s``.
    """

    unit: int
    remaining: float
    reset_s: float


@dataclass(frozen=True)
class CallSite:
    """The operator's name, and what reports of use need, which all calls of a task share.

    ``units`` are those that the operator names. ``used`` takes a call, a unit, which may be another
    one, and an amount for each of its rows, ``told`` a call and what the service has said of its
    limits, ``noted`` a kind and what was wrong with a report, which is to be said once; all on any
    thread.
    """

    operator: str
    units: Sequence[str] = ()
    used: Callable[[RunningCall, str, Sequence[float]], None] | None = None
    told: Callable[[RunningCall, Feedback], None] | None = None
    noted: Callable[[str, str], None] | None = None


class RunningCall:
    """One attempt of one element, or of a group of elements in the batch form.

    ``names`` are the ids of its rows' calls. The outcome of a call that is ``cancelled`` is not
    reported. ``usage`` is what was reported before it ``has_ended``.
    """

    __slots__ = ("attempts", "cancelled", "elements", "has_ended", "is_group", "names", "pending",
                 "site", "usage")  # fmt: skip

    def __init__(
        self,
        site: CallSite,
        elements: tuple[int, ...],
        attempts: tuple[int, ...],
        names: Sequence[Name],
        is_group: bool = False,
    ) -> None:
        self.site = site
        self.names = names
        self.is_group = is_group
        self.elements = elements
        self.attempts = attempts
        self.pending = len(elements)
        self.usage: dict[str, float] | None = None
        self.cancelled = False
        self.has_ended = False

    def use(self, reported: Mapping[str, Amounts]) -> None:
        """Add to what the call has used, by unit. Bookkeeping fails no call: this never raises."""
        if self.has_ended:
            self._note("CALL_HAS_ENDED", ", ".join(reported), units=", ".join(reported))
        for unit, amount in reported.items():
            if unit not in self.site.units:
                self._note(
                    "UNKNOWN_UNIT", unit, unit=unit, units=", ".join(self.site.units) or "none"
                )
            by_row = self._by_row(unit, amount)
            if not self.has_ended:
                self.usage = self.usage or {}
                self.usage[unit] = added(self.usage.get(unit, 0.0), *by_row)
            if self.site.used is not None:
                self.site.used(self, unit, by_row)

    def _by_row(self, unit: str, amount: Amounts) -> Sequence[float]:
        """Return an amount for each row, a part of one for all. What is no amount counts as 0."""
        rows = len(self.elements)
        is_list = isinstance(amount, (list, tuple))
        each: Sequence[object] = amount if is_list else (amount,)  # type: ignore[assignment]
        numbers = list(map(_number, each))
        has_place = not is_list or (self.is_group and len(each) in (1, rows))
        if not has_place or not all(map(is_amount, each)):
            expected = f"a number, or a list of {rows}, one a row" if self.is_group else "a number"
            counted = shown(added(*numbers))
            self._note(
                *("INVALID_USAGE", unit),
                **{"unit": unit, "expected": expected, "value": shown(amount), "counted": counted},
            )
        if is_list and len(numbers) == rows:
            return numbers
        return [added(*numbers) / rows] * rows

    def _note(self, condition: str, about: str, **parameters: str) -> None:
        problem = error(condition, operator=self.site.operator, **parameters)
        self.note(f"{condition} {about}", message_of(problem))

    def note(self, kind: str, text: str) -> None:
        """Tell what can't be counted, once for each kind."""
        if self.site.noted is not None:
            self.site.noted(kind, text)

    def id(self) -> str:
        if self.is_group:
            raise error("CALL_ID_OF_BATCH", rows=len(self.elements))
        return self.ids()[0]

    def ids(self) -> list[str]:
        return [name if isinstance(name, str) else name() for name in self.names]


def added(*amounts: float) -> float:
    """Return the sum, or the largest float."""
    return min(sum(amounts), sys.float_info.max)


def _number(value: object) -> float:
    """Return an amount as a float, also that of a text; 0 for what is none."""
    number: Any = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return 0.0
    return float(number) if is_amount(number) else 0.0


class Submission(RunningCall):
    """A call that submits many rows for one ticket, under one id."""

    __slots__ = ()

    def id(self) -> str:
        # In the order of the rows, since that is the order of the answers of the ticket.
        return hashlib.sha256("\n".join(self.ids()).encode()).hexdigest()[:32]


CURRENT: ContextVar[RunningCall] = ContextVar("pillarbox_call")


class Call:
    """A call, as :func:`current_call` returns it. It may be kept and read anywhere."""

    def __init__(self, running: RunningCall) -> None:
        self._running = running

    @property
    def id(self) -> str:
        """The id that :func:`call_id` returns. Raises :class:`NoCurrentCall` in the batch form,
        but for ``submit`` of a :class:`Ticketed`, where it is made of those of all rows."""
        return self._running.id()

    @property
    def ids(self) -> list[str]:
        """The ids of the call's rows, in order; outside the batch form there is one."""
        return self._running.ids()

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1; in the batch form the highest of its rows."""
        return max(self._running.attempts)

    @property
    def operator(self) -> str:
        """The operator's name."""
        return self._running.site.operator

    @property
    def usage(self) -> dict[str, float]:
        """What this attempt has reported so far, by unit, over all rows of a batch call."""
        return dict(self._running.usage or {})

    def report_usage(self, **amounts: Amounts) -> None:
        """Add to what this attempt has used, by unit: ``report_usage(tokens=900, usd=0.01)``.

        Report it before the attempt ends, also if it fails then. In the batch form a number is
        what all rows have used together, in equal parts, and a list has an amount for each row.
        May be called in any coroutine or thread of the call, and several times.

        It never raises. A unit that ``usage=`` of the operator doesn't name, nor its budget or
        limits, counts all the same, but has no metric. What is no finite number from 0 on counts as
        0, and a text as the number that it holds. What comes when the attempt has ended counts in
        :func:`usage` alone. Each of these is said once, in a warning of the driver.
        """
        self._running.use(amounts)


def current_call() -> Call:
    """Return the call of the current coroutine or thread, or of the one that started it.

    Raises :class:`NoCurrentCall` outside a call.
    """
    return _current("current_call")


def call_id() -> str:
    """Return the id of the current call, which is the same in every attempt: an idempotency key.

    With ``call_key`` or ``journal`` the id is made of the operator's ``name``, the journal's
    version, and the names, types and values of the key's columns, and is the same in every run.
    Otherwise it is made of the operator, the micro-batch if there is one, the partition, the row's
    place in it and the values that the function is given: a task or a micro-batch that Spark runs
    again uses the same ids for the same rows in the same places, and a row that moved is a new
    call. Either way it has 32 hexadecimal digits. Rows that share a call (``share_calls``) have
    the id of the first of them.

    Works in the call's coroutine or thread, and in those that it starts. Raises
    :class:`NoCurrentCall` outside a call, and in the batch form.
    """
    return _current("call_id").id


def _current(function: str) -> Call:
    running = CURRENT.get(None)
    if running is None:
        raise error("NO_CALL", function=function)
    return Call(running)
