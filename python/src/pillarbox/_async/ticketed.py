"""``Ticketed``, a function in two halves: calls that the service answers hours later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from .._base.checks import check_choice, check_count
from .._base.durations import milliseconds
from .._base.functions import check_called, check_parameters, name_of
from .._base.unknown_options import answers_unknown
from ..options import Duration

OnPending = Literal["wait", "leave"]


@answers_unknown
@dataclass(frozen=True)
class Ticketed:
    """Calls that take hours, such as those of a provider's batch interface at half the price, in
    the place of the function of :func:`async_io`::

        files.transform(pb.async_io, pb.Ticketed(submit, collect), batch_size=5000, ...)

    A ticket is kept in the ``journal``, which is required, before anything else happens: a restart
    goes on waiting. While a row waits it holds no thread and no permit of a limit. Each half is
    ``async def`` or ``def``, and takes the open ``resource`` second, if there is one. Raises
    :class:`InvalidOption` and :class:`InvalidFunction`.

    Parameters
    ----------
    submit: called with a row, or with ``batch_size`` a list of rows; it returns the ticket, a text
        that isn't empty. ``current_call().id`` is an idempotency key, also for a list: the same
        when the same rows, in the same order, are submitted again since nothing is known of their
        ticket.
    collect: called with a ticket. It returns None as long as there is no answer, and then what a
        function of :func:`async_io` returns for what was submitted: with ``batch_size`` a list, in
        the order of the rows. An exception that it returns, in the list or by itself, is the
        failure of a row, and one that is :class:`NotRetryable`, and raised, that of all: then the
        ticket has ended, and a retry or another run submits the row anew, under another key.
        Another exception that it raises is retried, and the ticket stays.
    poll: the time between two calls of ``collect`` for a ticket.
    on_pending: "wait" for answers; with "leave" a row whose ticket has none leaves at once, with
        the kind PENDING in the error column. A later run, with the same ``journal``, collects it.
    max_pending: the rows of one task that wait for answers, or for their turn to leave. They are
        in the executor's memory. ``capacity`` bounds the calls of both halves at a time.
    """

    submit: Callable[..., Any]
    collect: Callable[..., Any]
    _: KW_ONLY
    poll: Duration = "60s"
    on_pending: OnPending = "wait"
    max_pending: int = 100_000

    def __post_init__(self) -> None:
        check_called(self.submit, "TICKETED_NOT_A_FUNCTION", "the ticket")
        check_called(self.collect, "TICKETED_NOT_A_FUNCTION", "an answer, or a list of them")
        _ = self._poll_ms
        check_choice("on_pending", self.on_pending, OnPending)
        check_count("max_pending", self.max_pending, 100_000)

    @property
    def _poll_ms(self) -> int:
        """The milliseconds of ``poll``."""
        return milliseconds(self.poll, "poll")

    def _to_spec(self) -> dict[str, Any]:
        return {"poll_ms": self._poll_ms, "waits": self.on_pending == "wait"}

    def _check_parameters(self, with_resource: bool, is_batch: bool) -> None:
        """Raise ``InvalidFunction`` for a half that can't be called so."""
        second = ("resource",) if with_resource else ()
        row, submit, collect = "rows" if is_batch else "row", self.submit, self.collect
        check_parameters(submit, (row, *second), name_of(submit))
        problem = "TICKETED_WRONG_PARAMETERS"
        check_parameters(collect, ("ticket", *second), name_of(collect), problem)
