"""A task of engine="python": the async operator on an event loop beside Spark's thread.

The loop runs in its own thread, so that calls go on while Spark reads or writes. Spark's thread (a
generator) and the loop communicate by a queue of notices and by ``call_soon_threadsafe`` only.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from queue import SimpleQueue
from typing import Any

import pyarrow as pa

from .._arrow.rows import RowReader
from .._base.report import Report, Reported, report_of
from .._base.spark_versions import in_utc
from .._base.values import Values, use
from .._metered.calls import CallSite
from .._metered.limit_keys import LimitKeys
from .._metered.told import ToldByTasks
from ..errors import WorkerFailed
from .command import Command, Shipped
from .event_loop import abandon_tasks, new_event_loop, stopped_loop
from .failed_calls import FailedCalls
from .options import BLOCKED_LOOP_MS, AsyncOptions
from .python_operator import AsyncOperator
from .python_output import OutputBuffer, OutputBuilder
from .resources import OpenResource
from .runner import CallRunner
from .watchdog import Watchdog

_STOP_LIMIT_S = 2.0

Notice = tuple[str, Any]


@dataclass(frozen=True)
class CallScope:
    """Where an operator's rows are numbered: what the ids of their calls are made of."""

    operator: str
    in_stream: bool

    def of_part(self, partition: int) -> str:
        """Return the name of a partition, the same when its task is run again. In the worker."""
        if not self.in_stream:
            return f"{self.operator}-{partition}"
        from pyspark.taskcontext import TaskContext

        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        return f"{query}-{batch}-{self.operator}-{context.partitionId()}-{partition}"


def run_task(
    shipped: Shipped,
    options: AsyncOptions,
    input_columns: list[int],
    keys: LimitKeys,
    names: list[str],
    scope: CallScope,
    values: Values,
    told: ToldByTasks,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the output of a task for the partitions it reads.

    The last column of ``batches`` is the number of the partition, which outputs leave out.
    """
    use(values)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    try:
        command = shipped.command()
    except WorkerFailed as problem:
        raise report_of(problem, f"async_io({options.name})").to_raise() from None
    part = scope.of_part(first.column(first.num_columns - 1)[0].as_py())
    task = PythonTask(command, options, input_columns, keys, names, part)
    yield from task.run(chain((first,), batches))
    told.add(task.told)


class PythonTask:
    """One task with its own loop thread, resource and operator."""

    def __init__(
        self,
        command: Command,
        options: AsyncOptions,
        input_columns: list[int],
        keys: LimitKeys,
        names: list[str],
        scope: str,
        blocked_ms: int = BLOCKED_LOOP_MS,
    ) -> None:
        self._command = command
        self._options = options
        self._input_columns = input_columns
        self._keys = keys
        self._names = names
        self._scope = scope
        self._blocked_ms = blocked_ms
        self._notices: SimpleQueue[Notice] = SimpleQueue()
        self._loop = new_event_loop()
        self._hangs = False
        self._runner: CallRunner | None = None
        self._operator: AsyncOperator
        self._resource: OpenResource | None = None
        self._stopping = False
        self.told: list[tuple[str, str]] = []
        attempts = options.retry.max_attempts if options.retry else 1
        self._failed_calls = FailedCalls(f"async_io({options.name})", attempts, self._tell)
        self._thread = threading.Thread(target=self._run_loop, name="pillarbox-loop", daemon=True)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output of the task. Closing the generator cancels its calls."""
        self._thread.start()
        assert self._thread.ident is not None
        watchdog = Watchdog(
            self._loop,
            self._thread.ident,
            PythonTask._run_loop.__code__,
            self._blocked_ms,
            self._on_blocked,
        )
        try:
            self._on_loop(self._start())
            while True:
                kind, value = self._notices.get()
                if kind == "ready":
                    watchdog.start()
                elif kind == "chunk":
                    yield from value
                elif kind == "want":
                    self._answer(next(batches, None))
                elif kind == "failed":
                    raise self._report(value).to_raise()
                else:
                    return
        finally:
            watchdog.stop()
            self._stop()

    def _tell(self, kind: str, rows: int, text: str) -> None:
        """Tell the executor's log at once, and the driver at the end of the task."""
        print(f"Pillarbox: {text}", file=sys.stderr, flush=True)
        self.told.append((kind, text))

    def _answer(self, batch: pa.RecordBatch | None) -> None:
        if batch is None:
            self._loop.call_soon_threadsafe(self._operator.end_input)
        else:
            self._loop.call_soon_threadsafe(self._operator.feed, batch)

    def _fail(self, problem: BaseException) -> None:
        self._notices.put(("failed", problem))

    def _on_blocked(self, problem: BaseException) -> None:
        self._hangs = True
        self._fail(problem)

    def _report(self, problem: BaseException) -> Report:
        if isinstance(problem, Reported):
            return problem.report
        return report_of(problem, f"async_io({self._options.name})")

    def _notify(self, kind: str, value: Any = None) -> None:
        self._notices.put((kind, value))

    def _on_loop(self, work: Awaitable[None]) -> None:
        """Run ``work`` on the loop's thread; its failure fails the task."""

        async def guarded() -> None:
            try:
                await work
            except BaseException as problem:
                self._fail(problem)

        asyncio.run_coroutine_threadsafe(guarded(), self._loop)

    async def _start(self) -> None:
        resource = call_context = None
        if self._command.resource is not None:
            self._resource = OpenResource(self._command.resource)
            await self._resource.open()
            resource, call_context = self._resource.value, self._resource.call_context
        buffer = self._buffer()

        def finished() -> None:
            buffer.flush()
            self._notify("done")

        self._operator = AsyncOperator(
            self._options,
            RowReader(self._command.input_schema),
            self._input_columns,
            emit=buffer.add,
            want_input=lambda: self._notify("want"),
            finished=finished,
            exited=self._fail,
            scope=self._scope,
            keys=self._keys,
        )
        self._operator.failed_calls = self._failed_calls
        self._runner = CallRunner(
            self._command,
            resource,
            self._operator,
            site=CallSite(self._options.name, self._options.units),
            max_threads=self._options.capacity,
            call_context=call_context,
        )
        self._notify("ready")
        self._operator.start(self._runner)

    def _buffer(self) -> OutputBuffer:
        from pyspark.sql.pandas.types import to_arrow_schema

        results = to_arrow_schema(self._command.returns, **in_utc(to_arrow_schema))
        builder = OutputBuilder(self._command, self._options, self._names, results)
        builder.failed_calls = self._failed_calls
        raises = self._options.on_error == "raise"
        send: Callable[[Any], None] = lambda batches: self._notify("chunk", batches)  # noqa: E731
        return OutputBuffer(self._loop, builder, raises, send, self._fail)

    def _run_loop(self) -> None:
        while not self._stopping:
            try:
                self._loop.run_forever()
                if not self._stopping:
                    self._fail(stopped_loop())
            except BaseException as problem:  # sys.exit in a task that the function itself started
                self._fail(problem)  # the loop goes on, so that it can be shut down
        self._loop.close()

    def _stop(self) -> None:
        self._on_loop(self._shut_down())
        if not self._hangs:
            self._thread.join(2 * _STOP_LIMIT_S + 1)

    async def _shut_down(self) -> None:
        try:
            if self._runner is not None:
                await self._runner.drain(_STOP_LIMIT_S)
            if self._resource is not None:
                await self._resource.close(_STOP_LIMIT_S)
            await abandon_tasks(self._loop)
        finally:
            self._stopping = True
            self._loop.stop()
