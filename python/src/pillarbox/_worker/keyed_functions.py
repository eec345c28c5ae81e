"""The keyed functions that a worker keeps open, across tasks and micro-batches."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from .._arrow.fields import Place
from .._arrow.pieces import FrameSize
from .._base.failures import message_of
from .._keyed.command import KeyedCommand
from .._keyed.declare import COLUMN_KINDS
from .._keyed.output import row_acceptor
from .._keyed.runtime import KeyedRuntime
from .._keyed_async.runtime import AsyncKeyedRuntime, MakeCalls, RunOnLoop
from ..errors import EXITS, error
from .frames import Init
from .gc_tuning import collect_less_often
from .keyed_frames import encode_ready
from .keyed_rows import Query, RowRunner

if TYPE_CHECKING:
    import pyarrow as pa

    from .keyed_arrow import ArrowRunner

# A frame makes some 150,000 objects and drops them all. With Python's own threshold the garbage
# collector takes a third of the time.
_YOUNG_OBJECTS = 250_000


class OpenedFunction:
    """One opened function with its runtime; ``runner`` fits it to a task's schemas."""

    def __init__(self, command: KeyedCommand, spec: dict[str, Any]) -> None:
        self.command = command
        self.runtime = _runtime(command, spec)
        self._fitted: tuple[Any, ...] = ()
        self._runner: RowRunner | ArrowRunner

    def open(self) -> None:
        """Open the function. Raises ``WorkerFailed`` (KEYED_OPEN_FAILED) if that fails."""
        try:
            self.runtime.open()
        except EXITS:
            raise
        except BaseException as problem:
            raise error(
                "KEYED_OPEN_FAILED",
                operator=self.runtime.context._name,
                kind=type(problem).__name__,
                reason=message_of(problem).rstrip("."),
            ) from problem
        collect_less_often(_YOUNG_OBJECTS)

    @functools.cached_property
    def ready(self) -> bytes:
        """READY with the states that the function has declared."""
        states = [state.declaration.to_spec() for state in self.runtime.registry.states.values()]
        return encode_ready(states, self.runtime.has_timers)

    def runner(self, init: Init, schemas: list[pa.Schema], query: Query) -> RowRunner | ArrowRunner:
        """Return the runner for a task, which is kept for others with the same schemas."""
        fitted = schemas, init.result_schema, FrameSize.of(init.spec)
        if fitted != self._fitted:
            self._runner = self._fit(*fitted)
            self._fitted = fitted
        self._runner.begin_task(query)
        return self._runner

    def _fit(
        self, schemas: list[pa.Schema], result: pa.Schema, size: FrameSize
    ) -> RowRunner | ArrowRunner:
        if self.command.form == "arrow":
            from .keyed_arrow import ArrowRunner

            return ArrowRunner(self.runtime, self.command, schemas, result, size)
        return RowRunner(self.runtime, self.command, schemas, result, size)

    def begin_task(
        self, run_on_loop: RunOnLoop, resource: Any, call_context: Any, make_calls: MakeCalls
    ) -> None:
        """Run the calls of an asynchronous function by ``run_on_loop`` until the task ends."""
        if isinstance(self.runtime, AsyncKeyedRuntime):
            self.runtime.begin_task(run_on_loop, resource, call_context, make_calls)

    def end_task(self) -> bool:
        """End the task. Return True if none of its calls still runs."""
        return not isinstance(self.runtime, AsyncKeyedRuntime) or self.runtime.end_task()

    def close(self) -> None:
        """Call the function's ``close``. Its errors go to stderr only, as the rows are done."""
        try:
            self.runtime.function.close()
        except Exception as problem:
            name = self.runtime.context._name
            print(f"Pillarbox: closing {name} failed: {message_of(problem)}", file=sys.stderr)


def _runtime(command: KeyedCommand, spec: dict[str, Any]) -> KeyedRuntime:
    tags = {tag: row_acceptor(kind, Place(tag)) for tag, kind in command.side_outputs.items()}
    options: dict[str, Any] = {
        "event_time": spec["event_time"],
        "sorted_input": spec["time_sorted"],
        "tags": tags,
        "state_kinds": COLUMN_KINDS if command.form == "arrow" else None,
    }
    name, calls = spec["name"], command.calls
    if calls is None:
        return KeyedRuntime(command.function, name, **options)
    schemas = command.input_schema, command.key_schema
    return AsyncKeyedRuntime(command.function, name, calls, *schemas, **options)
