"""What lets the attempts of calls begin, where there are limits or a budget."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .._metered.calls import OF_CALLS
from .._metered.task_limit import TaskLimit

if TYPE_CHECKING:
    from .._base.failures import Failure
    from .._metered.calls import Told
    from ..limits import Limit
    from .row_call import RowCall


class Asker(Protocol):
    """The one who asks, on the loop's thread. Calls are known by their ids."""

    def begins(self, call_id: int) -> None:
        """Called when an attempt that was asked for may begin."""

    def refused(self, call_id: int, failure: Failure, ends_task: bool) -> None:
        """Called when it can't; ``ends_task`` if its task is to fail for that."""

    def exited(self, problem: BaseException) -> None:
        """Called with an error that ends the task."""


class Permits(Protocol):
    """Lets attempts begin; used on the loop's thread only.

    Each ``ask`` is answered to the ``Asker``, at once or later, and followed by one ``ended`` or
    ``gave_up``.
    """

    def begin_run(self, asker: Asker) -> None:
        """Answer to ``asker`` from now on."""

    def ask(self, call: RowCall) -> None:
        """Ask for an attempt of a call."""

    def ended(self, call: RowCall, failure: Failure | None) -> None:
        """Tell that an attempt has ended, without a failure with an answer."""

    def gave_up(self, call: RowCall) -> None:
        """Tell that nobody wants an attempt any more that waits, or has begun."""

    def row_ended(self, call: RowCall) -> None:
        """Tell that a row has its answer, or has failed."""

    def told(self, call_id: int, told: Told) -> None:
        """Tell what the service has said of limits in an attempt that has begun."""

    def pause(self, delay_s: float) -> None:
        """Let none begin for so long."""

    def flush(self) -> None:
        """Send what was told so far."""


class TaskPermits:
    """The permits of limits that are kept here, all with scope "task", by the loop's clock."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limit = TaskLimit(limits)
        self._line: deque[int] = deque()
        self._gone: set[int] = set()
        self._turn: asyncio.TimerHandle | None = None
        self._serving = False
        self._loop: asyncio.AbstractEventLoop
        self._asker: Asker

    def begin_run(self, asker: Asker) -> None:
        self._loop, self._asker = asyncio.get_running_loop(), asker

    def ask(self, call: RowCall) -> None:
        self._line.append(call.id)
        self._serve()

    def _serve(self) -> None:
        if self._serving:
            return  # called by a call that ended while the while loop below began it
        self._serving = True
        while self._line and self._turn is None:
            if self._line[0] in self._gone:
                self._gone.discard(self._line.popleft())
                continue
            wait_s = self._limit.wait_s(self._loop.time())
            if wait_s is None:
                break
            if wait_s > 0:
                self._turn = self._loop.call_later(wait_s, self._on_turn)
            else:
                self._limit.begin(self._loop.time())
                self._asker.begins(self._line.popleft())
        self._serving = False

    def _on_turn(self) -> None:
        self._turn = None
        self._serve_later()

    def _serve_later(self) -> None:
        try:
            self._serve()
        except BaseException as problem:
            self._asker.exited(problem)

    def ended(self, call: RowCall, failure: Failure | None) -> None:
        self._limit.end()
        if self._line:
            # Not at once: the failure may be a pause, or the end of all.
            self._loop.call_soon(self._serve_later)

    def gave_up(self, call: RowCall) -> None:
        if call.has_begun:
            self.ended(call, None)
        else:
            self._gone.add(call.id)

    def row_ended(self, call: RowCall) -> None:
        """Do nothing, as there is no budget."""

    def told(self, call_id: int, told: Told) -> None:
        """Go by what is left of calls; a pause is told by ``pause``, too."""
        if told.unit == OF_CALLS:
            self._limit.told(told.remaining, told.reset_s, self._loop.time())

    def pause(self, delay_s: float) -> None:
        self._limit.pause(self._loop.time() + delay_s)

    def flush(self) -> None:
        """Do nothing, as nothing is sent."""
