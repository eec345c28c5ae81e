"""The call of a row of an asynchronous keyed function, and the exception for its failure."""

from __future__ import annotations

from typing import Any

from .._async.attempts import AttemptedCall
from .._async.failed_attempts import TIMEOUT
from .._base.failures import Failure, Told, kind_of
from .._base.report import Report
from .._metered.limit_keys import Values
from ..errors import CATALOGUE, error
from ..retry import RetryAfter
from .context import Attempt


class RowCall(AttemptedCall):
    """The call of a row, the one at ``index`` of those that came with it.

    ``current`` is its attempt under way, or the one whose answer it has. ``problem`` is the
    function's last exception.
    """

    __slots__ = ("current", "index", "is_late", "key_index", "outside", "problem", "timestamp",
                 "values", "watermark")  # fmt: skip

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
        self.values: Values = ()  # no limit has a key
        self.outside = False

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
