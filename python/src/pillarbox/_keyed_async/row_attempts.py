"""The attempts of rows' calls on the event loop, each with the state of its key."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from pyspark.sql.types import StructType

from .._async.call_context import CallContext
from .._async.command import Command
from .._async.runner import CallRunner, Outcomes
from .._base.failures import Failure, final_failure
from .._metered.calls import CallSite, Name
from ..errors import ResultTypeMismatch
from .context import Attempt
from .options import KeyedCalls
from .row_call import RowCall


class Calls(Protocol):
    """Decides on the attempts of rows' calls, and hears from ``RowAttempts`` how they end.

    For a worker that is the JVM (``JvmCalls``), for a harness ``KeyQueues``.
    """

    async def run(self, calls: Sequence[RowCall]) -> RowCall | None:
        """Wait until all ``calls`` have ended. Return the first whose failure is the task's.

        Then, and if it raises an error that ends the task, all others are cancelled.
        """

    async def drain(self) -> bool:
        """Wait up to 2 s for cancelled calls. Return True if all have ended."""


class RowAttempts:
    """Makes attempts, on the loop only: a key has one at a time, and what that writes is undone
    unless it has answered and its call has not failed.

    ``function`` makes one call, ``attempt`` begins an attempt, ``accept`` checks its answer and
    returns rows, which become the call's ``answer``.
    """

    def __init__(
        self,
        calls: KeyedCalls,
        input_schema: StructType,
        call_context: CallContext | None,
        outcomes: Outcomes,
        *,
        function: Callable[[RowCall], Coroutine[Any, Any, Any]],
        attempt: Callable[[RowCall], Attempt],
        accept: Callable[[Any], Any],
    ) -> None:
        self._attempt, self._accept = attempt, accept
        options = calls.options
        command = Command(
            function=function,
            is_async=True,
            is_batch=False,
            resource=None,
            retry=options.retry,
            input_schema=input_schema,
            returns=calls.returns,
            name=options.name,
            has_limits=options.has_limits,
        )
        site = CallSite(options.name, options.units)
        self.runner = CallRunner(
            command, None, outcomes, site=site, max_threads=1, call_context=call_context
        )

    def begin(self, call: RowCall, name: Name) -> None:
        """Begin the attempt of this number; an earlier one of the call is undone."""
        self.undo(call)
        call.current = self._attempt(call)
        call.problem = None
        self.runner.call(call.id, call.attempt, call, name)

    def answered(self, call: RowCall, answer: Any) -> Failure | None:
        """End the attempt that has returned ``answer``. Return its failure if those are no rows."""
        assert call.current is not None
        try:
            call.answer = self._accept(answer)
        except ResultTypeMismatch as mismatch:
            call.problem = mismatch
            self.undo(call)
            return final_failure(mismatch)
        call.current.is_open = False
        return None

    def cancel(self, call: RowCall) -> None:
        """Cancel and undo the attempt that is under way; one that has answered is left."""
        self.runner.cancel([(call.id, call.attempt)])
        if call.current is not None and call.current.is_open:
            self.undo(call)

    @staticmethod
    def undo(call: RowCall) -> None:
        """Undo what the call's attempt has written: no other one of its key has begun since."""
        if call.current is not None:
            call.current.take_back()
            call.current = None
