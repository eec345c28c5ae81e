"""One task of an ``async_io`` on a loop with a virtual clock.

The operator and the runner of engine="python" make the calls. What is here only hands them rows.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from .._arrow.rows import RowReader
from .._async.command import Command
from .._async.options import AsyncOptions
from .._async.python_operator import AsyncOperator, Element
from .._async.python_output import OutputBuilder
from .._async.runner import CallRunner
from .._base.failures import Failure, exit_error, kind_of, message_of
from .._base.report import Reported, told_as
from .._base.spark_versions import in_utc
from .._keyed.output import RowsEncoder
from .._metered.calls import CURRENT, CallSite
from .._metered.limit_keys import LimitKeys
from ..errors import EXITS, PillarboxError, WorkerFailed
from .loop import HarnessLoop
from .virtual_loop import VirtualLoop

_STOP_LIMIT_S = 2.0


@dataclass(frozen=True)
class AsyncPlan:
    """A checked ``async_io``: ``schema`` are the columns of its rows, ``inputs`` the positions of
    those that the function sees, ``keys`` those of limits, ``output`` the columns that come out."""

    command: Command
    options: AsyncOptions
    schema: t.StructType
    inputs: list[int]
    keys: LimitKeys
    output: t.StructType


def run_task(plan: AsyncPlan, rows: Sequence[Any]) -> list[t.Row]:
    """Call the function for ``rows``, checked tuples of ``plan.schema``, and return the output.

    The resource is open meanwhile. Raises the exception of the call that fails the task, or an
    error of Pillarbox where no exception of the user's did.
    """
    batch = RowsEncoder(plan.schema, {}, _arrow(plan.schema)).encode([*rows], ())
    clock = VirtualLoop()
    loop = HarnessLoop(clock)
    task: _Task | None = None
    try:
        resource, call_context = _opened(loop, plan.command.resource)
        task = _Task(plan, batch)
        return loop.run(task.run(clock, resource, call_context))
    finally:
        if task is not None:
            loop.run(task.drain())
        loop.close()


def _arrow(schema: t.StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, **in_utc(to_arrow_schema))


def _opened(loop: HarnessLoop, resource: Callable[[], Any] | None) -> tuple[Any, Any]:
    try:
        return loop.open(resource)
    except WorkerFailed as failed:
        if failed.condition == "RESOURCE_OPEN_FAILED" and failed.__cause__ is not None:
            raise failed.__cause__ from None
        raise


class _Task:
    """The calls for one batch of rows, on the loop only."""

    def __init__(self, plan: AsyncPlan, batch: pa.RecordBatch) -> None:
        self._plan = plan
        self._input: Iterator[pa.RecordBatch] = iter([batch])
        self._raised: dict[int, BaseException] = {}
        self._done: list[Element] = []
        self._problem: BaseException | None = None
        self._clock: VirtualLoop
        self._over: asyncio.Future[None]
        self._operator: AsyncOperator
        self._runner: CallRunner | None = None
        self._builder = OutputBuilder(
            plan.command,
            plan.options,
            plan.output.names,
            _arrow(plan.command.returns),
        )

    async def run(self, clock: VirtualLoop, resource: Any, call_context: Any) -> list[t.Row]:
        """Make the calls, and return the output's rows."""
        plan, command = self._plan, self._plan.command
        self._clock, self._over = clock, clock.create_future()
        self._operator = AsyncOperator(
            plan.options,
            RowReader(command.input_schema),
            plan.inputs,
            emit=self._emit,
            want_input=self._want,
            finished=self._end,
            exited=self._fail,
            scope=plan.options.name,
            keys=plan.keys,
        )
        self._runner = CallRunner(
            dataclasses.replace(command, function=self._noting(command)),
            resource,
            self._operator,
            site=CallSite(plan.options.name, plan.options.units),
            max_threads=plan.options.capacity,
            call_context=call_context,
        )
        clock.runs_threads = self._runner.runs_threads
        self._operator.start(self._runner)
        await self._over
        if self._problem is not None:
            raise self._problem
        return self._rows()

    async def drain(self) -> None:
        """Cancel what still runs, and wait for its end."""
        if self._runner is not None:
            await self._runner.drain(_STOP_LIMIT_S)

    def _want(self) -> None:
        self._clock.call_soon(self._feed)

    def _feed(self) -> None:
        batch = next(self._input, None)
        if batch is None:
            self._operator.end_input()
        else:
            self._operator.feed(batch)

    def _emit(self, element: Element) -> None:
        if element.failure is not None and self._plan.options.on_error == "raise":
            self._fail(self._raised_by(element, element.failure))
        else:
            self._done.append(element)

    def _raised_by(self, element: Element, failure: Failure) -> BaseException:
        """Return the user's exception, if that is why the element failed."""
        raised = self._raised.get(element.id)
        told = None if raised is None else (kind_of(raised), message_of(raised))
        is_users = raised is not None and told == (failure.kind, failure.message)
        if raised is not None and is_users and not isinstance(raised, PillarboxError):
            return raised
        report = self._builder.raised(element, failure).report
        if is_users and isinstance(raised, PillarboxError):
            return told_as(raised, report)
        problem = report.to_error()
        if isinstance(raised, Exception):  # not that of a call that was cancelled
            problem.__cause__ = raised
        return problem

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _fail(self, problem: BaseException) -> None:
        if self._problem is None:
            if isinstance(problem, EXITS):
                problem = exit_error(problem)
            self._problem = problem
        self._end()

    def _rows(self) -> list[t.Row]:
        # The builder sorts the rows of one call of it, but unordered rows come as calls end.
        ordered = self._plan.options.ordered
        parts = [self._done] if ordered else [[element] for element in self._done]
        reader = RowReader(self._plan.output)
        try:
            batches = [batch for part in parts for batch in self._builder.build(part)]
        except Reported as failed:
            raise failed.report.to_error() from None
        return [row for batch in batches for row in reader.read(batch)]

    def _noting(self, command: Command) -> Callable[..., Any]:
        """Return the function, which remembers the last exception of each element."""
        function = command.function

        def returned(answer: Any) -> Any:
            if command.is_batch and type(answer) is list:
                for element, one in zip(CURRENT.get().elements, answer, strict=False):
                    if issubclass(type(one), BaseException):
                        self._raised[element] = one
            return answer

        async def awaited(answer: Awaitable[Any]) -> Any:
            try:
                return returned(await answer)
            except BaseException as problem:
                self._note(problem)
                raise

        def called(*arguments: Any) -> Any:
            try:
                answer = function(*arguments)
            except BaseException as problem:
                self._note(problem)
                raise
            return awaited(answer) if inspect.isawaitable(answer) else returned(answer)

        return called

    def _note(self, problem: BaseException) -> None:
        self._raised.update(dict.fromkeys(CURRENT.get().elements, problem))
