"""Runs the calls of a ``Ticketed``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .._base.checks import is_unicode
from .._base.failures import Failure
from .._base.functions import is_async
from .._base.values import shown_value
from .._metered.calls import RunningCall, Submission
from ..errors import EXITS, error
from ..retry import NotRetryable
from .command import Command
from .failed_attempts import describe
from .runner import CallRunner, Outcomes
from .ticketed import Ticketed


@dataclass(frozen=True)
class Wait:
    """The outcome of a call whose answer comes later.

    ``place`` is the row's among the ``of`` rows of its ticket. The ticket is empty where that of
    the call is known already.
    """

    ticket: str = ""
    place: int = 0
    of: int = 0


_NOT_YET = Wait()


class TicketOutcomes(Outcomes, Protocol):
    """The receiver of outcomes of calls in two halves."""

    def pending(self, element_id: int, attempt: int, wait: Wait) -> None: ...


@dataclass(frozen=True)
class _Asked:
    """What is to be collected: the answers at ``places`` of a ticket for ``of`` rows."""

    ticket: str
    places: Sequence[int]
    of: int

    def __len__(self) -> int:
        return len(self.places)


class TicketRunner(CallRunner):
    """The calls of a task whose command has a ``Ticketed``."""

    _outcomes: TicketOutcomes
    _group_type = Submission

    def _invoker(
        self, command: Command, resource: Any, max_threads: int
    ) -> Callable[[Any], Awaitable[Any]]:
        halves = command.function
        assert isinstance(halves, Ticketed)
        self._is_batch = command.is_batch
        self._submit, self._collect = (
            self._bound(half, is_async(half), command, resource, max_threads)
            for half in (halves.submit, halves.collect)
        )
        return self._call_half

    def collect(
        self,
        ids: Sequence[int],
        attempts: Sequence[int],
        names: Sequence[str],
        asked: tuple[str, Sequence[int], int],
    ) -> None:
        """Start one call for the answers of a ticket: its text, the elements' places, of so many
        rows."""
        of_ticket = _Asked(*asked)
        is_list = self._has_list(of_ticket)
        call = RunningCall(self.site, tuple(ids), tuple(attempts), names, is_list)
        for key in zip(ids, attempts, strict=True):
            self._live[key] = call
        self._start(call, self._run(call, of_ticket))

    def _has_list(self, asked: _Asked) -> bool:
        """Return True if the call is for a list of rows, also of a run with ``batch_size``."""
        return self._is_batch or asked.of > 1 or len(asked) > 1

    async def _call_half(self, argument: Any) -> Any:
        if isinstance(argument, _Asked):
            return self._at_places(argument, await self._collect(argument.ticket))
        ticket = _checked(await self._submit(argument))
        of = len(argument) if self._is_batch else 1
        waits = [Wait(ticket, place, of) for place in range(of)]
        return waits if self._is_batch else waits[0]

    def _at_places(self, asked: _Asked, answers: Any) -> Any:
        if answers is None or isinstance(answers, BaseException):
            each = [_NOT_YET if answers is None else answers] * len(asked)
        elif asked.of == 1 and not self._is_batch:
            each = [answers] * len(asked)
        else:
            of_all = self._checked(answers, asked.of)
            each = [of_all[place] for place in asked.places]
        return each if self._has_list(asked) else each[0]

    def _answers(self, call: RunningCall, answers: Sequence[Any]) -> None:
        try:
            keys = zip(call.elements, call.attempts, strict=True)
            for key, answer in zip(keys, answers, strict=True):
                if self._live.get(key) is call:
                    self._answer(call, key, answer)
        except BaseException as problem:
            self._outcomes.exited(problem)

    def _answer(self, call: RunningCall, key: tuple[int, int], answer: Any) -> None:
        if issubclass(type(answer), BaseException):
            if isinstance(answer, EXITS):
                raise answer
            # It is the row's, and a submission may follow: it pauses no limit, and counts.
            self._fail(call, key, replace(describe(answer, self._retry), ends_ticket=True))
            return
        del self._live[key]
        if isinstance(answer, Wait):
            self._outcomes.pending(*key, answer)
        else:
            self._outcomes.completed(*key, answer)

    def _failure(self, problem: BaseException) -> Failure:
        return replace(super()._failure(problem), ends_ticket=isinstance(problem, NotRetryable))


def _checked(ticket: Any) -> str:
    if isinstance(ticket, str) and ticket and is_unicode(ticket):
        return "".join((ticket,))  # a plain str
    raise error("NO_TICKET", value=shown_value(ticket), found=type(ticket).__name__)
