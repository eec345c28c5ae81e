"""The call of a row of an asynchronous keyed function, and the exception for its failure."""

from __future__ import annotations

from typing import Any

from .._async.attempts import AttemptedCall
from .._async.failed_attempts import TIMEOUT
from .._base.failures import Failure, Told, kind_of
from .._base.report import Report
from ..errors import CATALOGUE, error
from ..retry import RetryAfter
from .context import Attempt


class RowCall(AttemptedCall):
    """The call of a row, the one at ``index`` of those that came with it.

    ``problem`` is the function's last exception. ``asks`` while an attempt waits for its permit or
    has it, and then ``has_begun`` if it has. ``used`` is what it has reported, by unit; ``amounts``
    is what functions have estimated for limits. With ``ends_task`` the call's failure is that of
    its task.
    """

    __slots__ = ("amounts", "asks", "current", "ends_task", "has_begun", "index", "is_late",
                 "key_index", "problem", "timestamp", "used", "watermark")  # fmt: skip

    def __init__(
        self,
        index: int,
        key_index: int,
        timestamp: int | None,
        watermark: int,
        row: Any,
        is_late: bool = False,
    ) -> None:
        super().__init__("", 0, row)
        self.index = index
        self.key_index = key_index
        self.timestamp = timestamp
        self.watermark = watermark
        self.is_late = is_late
        self.current: Attempt | None = None
        self.problem: BaseException | None = None
        self.asks = self.has_begun = self.ends_task = False
        self.used: dict[str, float] | None = None
        self.amounts: list[float] | None = None

    def given(self) -> object:
        return None  # its scope is of this run of the task alone

    def raised(self) -> BaseException:
        """Return the exception for the call's failure."""
        failure, problem = self.failure, self.problem
        assert failure is not None
        if failure.kind == TIMEOUT and problem is None:
            return _TimedOut(failure.message)
        if failure.kind in CATALOGUE and problem is None:
            return _ours(failure)
        if isinstance(problem, RetryAfter) and failure.kind != kind_of(problem):
            told: BaseException = error("RETRY_AFTER_WITHOUT_RETRY", seconds=problem.delay_s)
        elif problem is None or failure.kind != kind_of(problem):
            told = Told(f"{failure.kind}: {failure.message}")
        else:
            return problem
        told.__cause__ = problem
        return told


def _ours(failure: Failure) -> BaseException:
    """Return the error of Pillarbox that a call was refused with."""
    kind = failure.kind
    text = failure.message.removeprefix(f"[{kind}] ")
    trace = failure.traceback
    return Report(CATALOGUE[kind]["type"], kind, text, "", kind, text, trace).to_error()


class _TimedOut(Told, TimeoutError):
    """A call that was not answered in time."""


_TimedOut.__name__ = TIMEOUT  # the kind that messages and error columns show
