"""The call that user code runs in, and the functions that return it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from ..errors import error


@dataclass(frozen=True)
class CallSite:
    """The operator's name and the prefix of call ids, which all calls of a task share."""

    operator: str
    prefix: str


class RunningCall:
    """One attempt of one element, or of a group of elements in the batch form.

    ``names`` are the calls' ids if they are made of keys and not of the rows' places. The outcome
    of a call that is ``cancelled`` is not reported.
    """

    __slots__ = ("attempts", "cancelled", "elements", "is_group", "names", "pending", "site")

    def __init__(
        self,
        site: CallSite,
        elements: tuple[int, ...],
        attempts: tuple[int, ...],
        names: tuple[str, ...] | None = None,
        is_group: bool = False,
    ) -> None:
        self.site = site
        self.names = names
        self.is_group = is_group
        self.elements = elements
        self.attempts = attempts
        self.pending = len(elements)
        self.cancelled = False

    def ids(self) -> list[str]:
        if self.names is not None:
            return list(self.names)
        return [f"{self.site.prefix}-{one}" for one in self.elements]


CURRENT: ContextVar[RunningCall] = ContextVar("pillarbox_call")


class Call:
    """A call, as :func:`current_call` returns it. It may be kept and read anywhere."""

    def __init__(self, running: RunningCall) -> None:
        self._running = running

    @property
    def id(self) -> str:
        """The id that :func:`call_id` returns. Raises :class:`NoCurrentCall` in the batch form."""
        if self._running.is_group:
            raise error("CALL_ID_OF_BATCH", rows=len(self._running.elements))
        return self._running.ids()[0]

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


def current_call() -> Call:
    """Return the call of the current coroutine or thread, or of the one that started it.

    Raises :class:`NoCurrentCall` outside a call.
    """
    return _current("current_call")


def call_id() -> str:
    """Return the id of the current call, which is the same in every attempt: an idempotency key.

    With ``call_key`` or ``journal`` the id is made of the operator's ``name``, the journal's
    version, and the names, types and values of the key's columns, and is the same in every run.
    Otherwise it is made of the operator, the micro-batch if there is one, the partition and the
    row's place in it, and its first part has no meaning for users. Two calls of :func:`async_io`
    never share such ids; a task or a micro-batch that Spark runs again uses the same ids for the
    same places, so it must have the same rows in the same order. Rows that share a call
    (``share_calls``) have the id of the first of them. In :func:`process_keyed_async` the id
    differs when Spark runs the task again.

    Works in the call's coroutine or thread, and in those that it starts. Raises
    :class:`NoCurrentCall` outside a call, and in the batch form.
    """
    return _current("call_id").id


def _current(function: str) -> Call:
    running = CURRENT.get(None)
    if running is None:
        raise error("NO_CALL", function=function)
    return Call(running)
