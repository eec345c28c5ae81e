"""The keyed functions that are open in this process, across tasks and micro-batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from .._arrow.fields import Place
from .._base.failures import message_of
from .._keyed.command import KeyedCommand
from .._keyed.output import row_acceptor
from .._keyed.runtime import KeyedRuntime
from .._keyed_async.runtime import AsyncKeyedRuntime, RunOnLoop
from ..errors import EXITS, error
from .frames import Init
from .gc_tuning import collect_less_often
from .keyed_rows import Query, RowRunner
from .lru_cache import FunctionKey, LruCache

if TYPE_CHECKING:
    import pyarrow as pa

    from .keyed_arrow import ArrowRunner

_KEPT = 16
# A frame makes some 150,000 objects and drops them all. With Python's own threshold the garbage
# collector takes a third of the time.
_YOUNG_OBJECTS = 250_000


class OpenedFunction:
    """One opened function with its runtime; ``runner`` fits it to a task's schemas."""

    def __init__(self, command: KeyedCommand, spec: dict[str, Any]) -> None:
        self.command = command
        self.runtime = _runtime(command, spec)

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

    def runner(self, init: Init, schemas: list[pa.Schema], query: Query) -> RowRunner | ArrowRunner:
        """Return the runner of a task's frames."""
        if self.command.form == "arrow":
            from .keyed_arrow import ArrowRunner

            return ArrowRunner(self.runtime, self.command, init, schemas)
        return RowRunner(self.runtime, self.command, init, schemas, query)

    def begin_task(self, run_on_loop: RunOnLoop, resource: Any, call_context: Any) -> None:
        """Run the calls of an asynchronous function by ``run_on_loop`` until the task ends."""
        if isinstance(self.runtime, AsyncKeyedRuntime):
            self.runtime.begin_task(run_on_loop, resource, call_context)

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


class FunctionCache:
    """The open functions, 16 at most (see ``LruCache``). Main thread only."""

    def __init__(self) -> None:
        self._open: LruCache[OpenedFunction] = LruCache(_KEPT)

    @property
    def bytes(self) -> int:
        """The pickled size of all functions."""
        return self._open.bytes

    def get(
        self,
        function: FunctionKey,
        spec: dict[str, Any],
        pickled_bytes: int,
        make: Callable[[], OpenedFunction],
    ) -> OpenedFunction:
        """Return the open function for ``spec``. Raises the errors of ``open``."""
        key = function, _spec_key(spec)
        opened = self._open.get(key)
        if opened is None:
            opened = make()
            opened.open()
            self._open.put(key, function, pickled_bytes, opened)
            collect_less_often(_YOUNG_OBJECTS)
        return opened

    def close_surplus(self) -> None:
        """Close the functions beyond the bounds."""
        for opened in self._open.take_surplus():
            opened.close()

    def close_all(self) -> None:
        """Close all functions."""
        for opened in self._open.take_all():
            opened.close()


def _spec_key(spec: dict[str, Any]) -> Hashable:
    """Return the part of a spec that an open function depends on."""
    return spec["name"], spec["event_time"], spec["time_sorted"]


def _runtime(command: KeyedCommand, spec: dict[str, Any]) -> KeyedRuntime:
    tags = {tag: row_acceptor(kind, Place(tag)) for tag, kind in command.side_outputs.items()}
    options: dict[str, Any] = {
        "event_time": spec["event_time"],
        "sorted_input": spec["time_sorted"],
        "tags": tags,
        "state_kinds": ("value",) if command.form == "arrow" else None,
    }
    name, calls = spec["name"], command.calls
    if calls is None:
        return KeyedRuntime(command.function, name, **options)
    return AsyncKeyedRuntime(command.function, name, calls, command.input_schema, **options)
