"""The call that user code runs in: its identity, readable from inside."""

from __future__ import annotations

from contextvars import ContextVar

from ..errors import error


class Call:
    """One attempt of one element, or of a group of elements answered together.

    ``names`` are the calls' ids where they are named by what they ask, and not by their place.
    ``cancelled`` means that its outcome is no longer wanted and must not be reported.
    """

    __slots__ = ("attempts", "cancelled", "ids", "names", "pending", "prefix")

    def __init__(
        self,
        prefix: str,
        ids: tuple[int, ...],
        attempts: tuple[int, ...],
        names: tuple[str, ...] | None = None,
    ) -> None:
        self.prefix = prefix
        self.names = names
        self.ids = ids
        self.attempts = attempts
        self.pending = len(ids)
        self.cancelled = False

    def call_ids(self) -> list[str]:
        """What the service may know each element by."""
        if self.names is not None:
            return list(self.names)
        return [f"{self.prefix}-{one}" for one in self.ids]


class Group(Call):
    """A call of the batch form."""

    __slots__ = ()


CURRENT: ContextVar[Call] = ContextVar("pillarbox_call")


def call_id() -> str:
    """An id of the current call that is the same in every attempt: an idempotency key.

    It names the operator, the micro-batch if there is one, the partition and the row's place in
    it. Two calls of :func:`async_io` never share ids; a task or a micro-batch that Spark runs again
    uses the same ids for the same places, so the same rows must be there in the same order. With a
    ``journal`` or ``call_key`` it is a hash of what is asked instead: the operator's name, the
    journal's version and the columns of the key, the same in every run. Works
    in the coroutine or thread that the call runs in and in what it starts. Raises
    :class:`NoCurrentCall` outside a call, and in the batch form.
    """
    call = CURRENT.get(None)
    if call is None:
        raise error("NO_CALL", function="call_id")
    if isinstance(call, Group):
        raise error("CALL_ID_OF_BATCH", rows=len(call.ids))
    return call.call_ids()[0]


def call_ids() -> list[str]:
    """The ids of all rows of the current call, in their order; for the batch form.

    Raises :class:`NoCurrentCall` outside a call.
    """
    call = CURRENT.get(None)
    if call is None:
        raise error("NO_CALL", function="call_ids")
    return call.call_ids()
