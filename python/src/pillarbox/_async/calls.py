"""The call that user code runs in: its identity, readable from inside."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from ..errors import error


@dataclass(frozen=True)
class CallSite:
    """What the calls of a task have in common: the operator's name, and how their ids begin."""

    operator: str
    prefix: str


class RunningCall:
    """One attempt of one element, or of a group of elements answered together.

    ``names`` are the calls' ids where they are named by what they ask, and not by their place.
    ``cancelled`` means that its outcome is no longer wanted and must not be reported.
    """

    __slots__ = ("attempts", "cancelled", "elements", "names", "pending", "site")

    def __init__(
        self,
        site: CallSite,
        elements: tuple[int, ...],
        attempts: tuple[int, ...],
        names: tuple[str, ...] | None = None,
    ) -> None:
        self.site = site
        self.names = names
        self.elements = elements
        self.attempts = attempts
        self.pending = len(elements)
        self.cancelled = False

    def ids(self) -> list[str]:
        """What the service may know each element by."""
        if self.names is not None:
            return list(self.names)
        return [f"{self.site.prefix}-{one}" for one in self.elements]


class RunningGroup(RunningCall):
    """A call of the batch form."""

    __slots__ = ()


CURRENT: ContextVar[RunningCall] = ContextVar("pillarbox_call")


class Call:
    """The call that :func:`current_call` was asked in. It may be kept and read anywhere."""

    def __init__(self, running: RunningCall) -> None:
        self._running = running

    @property
    def id(self) -> str:
        """What :func:`call_id` gives. Raises :class:`NoCurrentCall` in the batch form."""
        if isinstance(self._running, RunningGroup):
            raise error("CALL_ID_OF_BATCH", rows=len(self._running.elements))
        return self._running.ids()[0]

    @property
    def ids(self) -> list[str]:
        """The ids of all rows of the call, in their order; one outside the batch form."""
        return self._running.ids()

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1; in the batch form the highest of its rows."""
        return max(self._running.attempts)

    @property
    def operator(self) -> str:
        """The operator's name."""
        return self._running.site.operator


def current_call() -> Call:
    """The call that the caller runs in, in its coroutine or thread or in what these started.

    Raises :class:`NoCurrentCall` outside a call.
    """
    return _current("current_call")


def call_id() -> str:
    """An id of the current call that is the same in every attempt: an idempotency key.

    With ``call_key`` or ``journal`` it is made of what is asked: the operator's ``name``,
    the journal's version, and the names, types and values of the key's columns. It is the same in
    every run. Otherwise it names the operator, the micro-batch if there is one, the
    partition and the row's place in it, and what it begins with has no meaning for users. Two calls
    of :func:`async_io` never share such ids; a task or a micro-batch that Spark runs again uses the
    same ids for the same places, so the same rows must be there in the same order. Rows that share
    a call (``share_calls``) have the id of the first of them. In :func:`process_keyed_async` it is
    the same in every attempt, and another one when Spark runs the task again.

    Works in the coroutine or thread that the call runs in and in what it starts. Raises
    :class:`NoCurrentCall` outside a call, and in the batch form.
    """
    return _current("call_id").id


def _current(function: str) -> Call:
    running = CURRENT.get(None)
    if running is None:
        raise error("NO_CALL", function=function)
    return Call(running)
