"""The run of one asynchronous keyed function over rows of some keys."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from itertools import repeat
from typing import Any

from pyspark.sql.types import StructField, StructType

from .._arrow.fields import Place
from .._arrow.row_class import row_class
from .._async.call_context import CallContext
from .._async.options import AsyncOptions
from .._async.runner import Outcomes
from .._keyed.context import ROW
from .._keyed.methods import timers_refused
from .._keyed.output import row_acceptor
from .._keyed.runtime import Accept, KeyedRuntime, rows_of
from ..errors import PillarboxError
from .context import AsyncKeyedContext, Attempt
from .options import KeyedCalls
from .row_attempts import Calls, RowAttempts
from .row_call import RowCall

RunOnLoop = Callable[[Coroutine[Any, Any, Any]], Any]
MakeCalls = Callable[[AsyncOptions, Callable[[Outcomes], RowAttempts]], Calls]


class AsyncKeyedRuntime(KeyedRuntime):
    """A ``KeyedRuntime`` whose rows are calls on an event loop, those of different keys at once.

    ``run_rows`` and ``run_events`` return when all calls are done. ``rows`` has the results in the
    order of the input. They are checked as each call ends, and are tuples of ``calls.output``.
    The row of a failed call has what ``returns`` shares with the function's input and the key.
    """

    context: AsyncKeyedContext

    def __init__(
        self,
        function: Any,
        name: str,
        calls: KeyedCalls,
        input_schema: StructType,
        key_schema: StructType,
        **options: Any,
    ) -> None:
        super().__init__(function, name, **options)
        self._calls = calls
        self._input_schema = input_schema
        self._row_of = row_acceptor(calls.returns, Place())
        self._has_error = calls.options.error_column is not None
        self._has_call = calls.options.call_column is not None
        # A tuple of one would be ambiguous for one column. Other rows are fastest as tuples.
        names = tuple(calls.returns.names)
        self._plain = tuple if len(names) > 1 else lambda row: row_class(names)(*row)
        known = [*input_schema.fields, *key_schema.fields]
        self._shared = [_place(field, known) for field in calls.returns.fields]
        self._has_one_key = len(key_schema.fields) == 1
        self._made: Calls | None = None
        self._failed: RowCall | None = None

    def _context(self, name: str, tags: dict[str, Accept]) -> AsyncKeyedContext:
        return AsyncKeyedContext(name, tags)

    def _refusal(self) -> Callable[[], Exception]:
        return self._no_timers

    def _no_timers(self) -> PillarboxError:
        return timers_refused(self.context._name)

    def begin_task(
        self,
        run_on_loop: RunOnLoop,
        resource: Any,
        call_context: CallContext | None,
        make_calls: MakeCalls,
    ) -> None:
        """Run the next calls by ``run_on_loop``, with the open ``resource``.

        ``make_calls`` makes what decides on their attempts, on the loop.
        """
        self._run_on_loop = run_on_loop
        self._call_context = call_context
        self._make_calls, self._made = make_calls, None
        self.context.resource = resource

    def end_task(self) -> bool:
        """Wait up to 2 s for calls that were given up. Return True if all have ended."""
        made, self._made = self._made, None
        return made is None or bool(self._run_on_loop(made.drain()))

    def begin(self, keys: Any) -> None:
        super().begin(keys)
        self.end()
        self._failed = None

    def run_rows(
        self, key_indexes: Sequence[int], times: Sequence[int | None], rows: Sequence[Any]
    ) -> None:
        watermark, late = self.context._watermark, self._late or repeat(False)
        events = enumerate(zip(key_indexes, times, rows, strict=True))
        self._run(
            [RowCall(at, k, time, watermark, row, next(late)) for at, (k, time, row) in events]
        )

    def run_events(
        self,
        kinds: Sequence[int],
        key_indexes: Sequence[int],
        times: Sequence[int],
        rows: Sequence[Any],
        horizon: int,
    ) -> None:
        """Run rows. Raises ``InvalidFunction`` (TIMERS_OF_ASYNC_FUNCTION) for a timer."""
        if any(kind != ROW for kind in kinds):
            raise self._no_timers()
        events = enumerate(zip(key_indexes, times, rows, strict=True))
        self._run(
            [RowCall(at, key_index, time, time - 1, row) for at, (key_index, time, row) in events]
        )

    def current_event(self) -> dict[str, Any]:
        if self.context._key_index is None:  # there are many current rows, or none
            return {"event": f"process of {len(self._events)} rows"}
        told: dict[str, Any] = super().current_event()
        failed = self._failed
        if failed is not None:
            told |= {"attempts": failed.attempts, "elapsed_ms": failed.elapsed_ms}
        return told

    def _fire(self, key_index: int, kind: int, time: int) -> None:
        raise self._no_timers()

    def _run(self, calls: list[RowCall]) -> None:
        if not calls:
            return
        _ = self.context._keys[
            calls[0].key_index
        ]  # a key that can't be read fails here, not on the loop
        first = len(self.ends)
        self.event_keys.extend(call.key_index for call in calls)
        self._events.extend(call.row for call in calls)
        failed = self._run_on_loop(self._process(calls))
        if failed is not None:
            self._blame(failed, first)
            raise failed.raised()
        for call in calls:
            if call.current is not None:
                self.context.side_rows.extend(call.current.side_rows)
            rows = call.answer if call.failure is None else (self._row_without(call),)
            self.rows.extend(self._with_call(call, rows) if self._has_call else rows)
            self.ends.append(len(self.rows))

    async def _process(self, calls: list[RowCall]) -> RowCall | None:
        self.context.begin_calls()
        if self._made is None:
            self._made = self._make_calls(self._calls.options, self._attempts)
        return await self._made.run(calls)

    def _attempts(self, outcomes: Outcomes) -> RowAttempts:
        return RowAttempts(
            self._calls,
            self._input_schema,
            self._call_context,
            outcomes,
            function=self._call,
            attempt=self._attempt,
            accept=self._accepted,
        )

    def _attempt(self, call: RowCall) -> Attempt:
        states = self.registry.states.values()
        return Attempt(
            *(self.context, call.key_index, call.timestamp, call.watermark, call.is_late, states)
        )

    async def _call(self, call: RowCall) -> Any:
        attempt = call.current
        assert attempt is not None
        attempt.enter()
        try:
            answer = self.function.process(call.row, self.context)
            if hasattr(answer, "__aiter__"):
                return [row async for row in answer]
            answer = await answer
            return list(answer) if hasattr(answer, "__next__") else answer
        except BaseException as problem:
            if call.current is attempt:
                call.problem = problem
            raise

    def _accepted(self, answer: Any) -> list[Any]:
        rows = list(map(self._row_of, rows_of(answer)))
        if self._has_error:
            return [(*row, None) for row in rows]
        return rows if self._has_call else list(map(self._plain, rows))

    def _with_call(self, call: RowCall, rows: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows with the column that tells of the call, which the first of them has."""
        told = [call.call_values(n == 0) for n in range(len(rows))]
        values = [{**one, "usage": dict(one["usage"])} for one in told]
        return [(*row, value) for row, value in zip(rows, values, strict=True)]

    def _row_without(self, call: RowCall) -> tuple[Any, ...]:
        """Return the output row for a row whose call has failed."""
        assert call.failure is not None
        key = self.context._keys[call.key_index]
        known = (*call.row, key) if self._has_one_key else (*call.row, *key)
        row = tuple(None if at is None else known[at] for at in self._shared)
        if not self._has_error:
            return row if self._has_call else self._plain(row)
        return (*row, call.error_values(call.failure))

    def _blame(self, call: RowCall, first: int) -> None:
        self._failed = call
        self.context.timestamp = call.timestamp
        self.ends.extend([len(self.rows)] * (len(self.event_keys) - first))
        self.go_back_to(first + call.index)


def _place(field: StructField, known: Sequence[StructField]) -> int | None:
    """Return the position of the same column among those that are known, if it is there."""
    for at, one in enumerate(known):
        if one.name == field.name and one.dataType == field.dataType:
            return at
    return None
