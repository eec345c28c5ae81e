"""The call that user code runs in, and the functions that return it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal

from .._base.checks import is_amount
from ..errors import error, shown

# The id of a call, or what makes it when somebody asks.
Name = str | Callable[[], str]
Amounts = float | Decimal | Sequence[float | Decimal]

OF_CALLS, PAUSE = -1, -2


@dataclass(frozen=True)
class Told:
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

    ``units`` are the operator's. ``used`` takes a call, the index of a unit and an amount for each
    of its rows, ``told`` a call and what the service has said of its limits, on any thread.
    """

    operator: str
    units: Sequence[str] = ()
    used: Callable[[RunningCall, int, Sequence[float]], None] | None = None
    told: Callable[[RunningCall, Told], None] | None = None


class RunningCall:
    """One attempt of one element, or of a group of elements in the batch form.

    ``names`` are the ids of its rows' calls. The outcome of a call that is ``cancelled`` is not
    reported. ``usage`` is what was reported so far; nothing
    more is taken once it ``has_ended``.
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
        """Add to what the call has used, by unit. Raises ``NoCurrentCall`` once it has ended."""
        if self.has_ended:
            raise error("CALL_HAS_ENDED", operator=self.site.operator, units=", ".join(reported))
        amounts = {unit: self._by_row(unit, amount) for unit, amount in reported.items()}
        self.usage = self.usage or {}
        for unit, by_row in amounts.items():
            self.usage[unit] = self.usage.get(unit, 0) + sum(by_row)
            if self.site.used is not None:
                self.site.used(self, self.site.units.index(unit), by_row)

    def _by_row(self, unit: str, amount: Amounts) -> Sequence[float]:
        """Return an amount for each row, a part of one for all. Raises ``InvalidOption``."""
        if unit not in self.site.units:
            units = ", ".join(self.site.units) or "none"
            raise error("UNKNOWN_UNIT", unit=unit, units=units, operator=self.site.operator)
        rows = len(self.elements)
        if self.is_group and isinstance(amount, (list, tuple)):
            each, expected = amount, f"a number, or a list of {rows}, one a row"
        else:
            each, expected = (amount,), "a number"
        if len(each) not in (1, rows) or not all(map(is_amount, each)):
            raise error("INVALID_USAGE", unit=unit, expected=expected, value=shown(amount))
        numbers = list(map(float, each))
        whole = (self.usage or {}).get(unit, 0) + sum(numbers)
        if not is_amount(whole):
            raise error("INVALID_USAGE", unit=unit, expected=expected, value=shown(whole))
        return numbers if len(each) == rows else [numbers[0] / rows] * rows

    def id(self) -> str:
        if self.is_group:
            raise error("CALL_ID_OF_BATCH", rows=len(self.elements))
        return self.ids()[0]

    def ids(self) -> list[str]:
        return [name if isinstance(name, str) else name() for name in self.names]


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
        Units are those that ``usage=`` of the operator names. May be called in any coroutine or
        thread of the call, and several times.

        Raises :class:`InvalidOption` for another unit, and for no finite number from 0 on, and
        :class:`NoCurrentCall` when the attempt has ended: what comes then counts nowhere.
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
    the id of the first of them. In :func:`process_keyed_async` the id differs when Spark runs the
    task again.

    Works in the call's coroutine or thread, and in those that it starts. Raises
    :class:`NoCurrentCall` outside a call, and in the batch form.
    """
    return _current("call_id").id


def _current(function: str) -> Call:
    running = CURRENT.get(None)
    if running is None:
        raise error("NO_CALL", function=function)
    return Call(running)
