"""Conversion of finished elements to Arrow batches of input columns, answers and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from .._arrow.pieces import FrameSize
from .._arrow.results import NO_MATCH, Encoded, ResultEncoder
from .._arrow.schema import CALL_TYPE, ERROR_TYPE
from .._base.failures import Failure, final_failure
from .._base.report import Reported, report_of_call
from .._base.spark_versions import in_utc
from .._base.values import row_text
from .command import Command
from .failed_calls import FailedCalls
from .options import AsyncOptions
from .python_operator import Element


class OutputBuilder:
    """Lays out elements in their order, with unchanged input columns.

    ``names`` are all output columns.
    """

    failed_calls: FailedCalls | None = None

    def __init__(
        self,
        command: Command,
        options: AsyncOptions,
        names: list[str],
        result_schema: pa.Schema,
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_type

        self._options = options
        self._names = names
        self._error_type = to_arrow_type(ERROR_TYPE, **in_utc(to_arrow_type))
        self._call_type = to_arrow_type(CALL_TYPE, **in_utc(to_arrow_type))
        self._encoder = ResultEncoder(command.returns, result_schema, options.explode)
        self._size = FrameSize()

    def build(self, elements: list[Element]) -> Iterator[pa.RecordBatch]:
        """Yield a batch for each run of elements of one source batch.

        Raises ``Reported`` under on_error="raise" if an element failed.
        """
        if not self._options.ordered:
            # Order is free, and fewer runs make larger batches.
            elements = sorted(elements, key=lambda element: element.id)
        for _, run in groupby(elements, key=lambda element: id(element.source)):
            yield from self._batches(list(run))

    def _batches(self, elements: list[Element]) -> Iterator[pa.RecordBatch]:
        answers = [element.answer for element in elements]
        for first, last, encoded in self._encoder.pieces(answers, self._size):
            yield from self._laid_out(elements[first:last], encoded)

    def _laid_out(self, elements: list[Element], encoded: Encoded) -> Iterator[pa.RecordBatch]:
        self._note_misfits(elements, encoded)
        sources: list[int] = []
        rows: list[int | None] = []
        errors: list[dict[str, Any] | None] = []
        calls: list[dict[str, Any]] = []
        start = 0
        for element, count in zip(elements, encoded.counts, strict=True):
            end = start + max(count, 0)
            failure = element.failure
            own = [None] if failure or count == NO_MATCH else list(range(start, end))
            rows.extend(own)
            sources.extend([element.index] * len(own))
            shown = self._struct(element, failure) if failure else None
            errors.extend([shown] * len(own))
            if self._options.call_column is not None:
                calls.extend(element.call_values(n == 0) for n in range(len(own)))
            start = end
        told = []
        if self._options.error_column is not None:
            told.append(pa.array(errors, type=self._error_type))
        if self._options.call_column is not None:
            told.append(pa.array(calls, type=self._call_type))
        source = elements[0].source
        for start, end in self._spans(source, sources):
            more = [column[start:end] for column in told]
            yield self._assembled(source, sources[start:end], encoded.batch, rows[start:end], more)

    def _spans(self, source: pa.RecordBatch, sources: list[int]) -> Iterator[tuple[int, int]]:
        """Yield the parts of the output whose input columns fit a batch, or that are one row.

        A row with many answers comes as often as it has, however large it is.
        """
        start = 0
        if self._options.explode and source.nbytes * len(sources) > self._size.cut:
            size = {index: source.slice(index, 1).nbytes for index in set(sources)}
            total = 0
            for at, index in enumerate(sources):
                total += size[index]
                if total > self._size.cut and at > start:
                    yield start, at
                    start, total = at, size[index]
        yield start, len(sources)

    def _note_misfits(self, elements: list[Element], encoded: Encoded) -> None:
        for index, mismatch in encoded.mismatches.items():
            failed, misfit = elements[index], final_failure(mismatch)
            if failed.failure is not None:
                continue  # it has no answer that could fit
            failed.failure = misfit
            if self.failed_calls is not None and self._options.on_error != "raise":
                self.failed_calls.row(failed.row, failed.attempts, misfit)

    def _assembled(
        self,
        source: pa.RecordBatch,
        sources: list[int],
        answers: pa.RecordBatch,
        rows: list[int | None],
        told: list[pa.Array],
    ) -> pa.RecordBatch:
        """Return input columns, answers, and those that tell of errors and calls."""
        source_rows = pa.array(sources, type=pa.int64())
        answer_rows = pa.array(rows, type=pa.int64())
        carried = len(self._names) - answers.num_columns - len(told)
        columns = [column.take(source_rows) for column in source.columns[:carried]]
        columns += [column.take(answer_rows) for column in answers.columns]
        return pa.RecordBatch.from_arrays(columns + told, names=self._names)

    def _struct(self, element: Element, failure: Failure) -> dict[str, Any]:
        if self._options.on_error == "raise":
            raise self.raised(element, failure)
        return element.error_values(failure)

    def raised(self, element: Element, failure: Failure) -> Reported:
        """Return the error that fails the task under on_error="raise"."""
        operator, row = f"async_io({self._options.name})", row_text(element.row)
        made, elapsed_ms = element.attempts, element.elapsed_ms
        return Reported(report_of_call(failure, operator, row, made, elapsed_ms))


class OutputBuffer:
    """Collects finished elements into chunks of 1,024, or of 100 ms, whichever ends first.

    On the loop's thread only; ``send`` is called with the batches of a chunk, ``fail`` with errors.
    """

    def __init__(
        self,
        loop: Any,
        builder: OutputBuilder,
        raises: bool,
        send: Callable[[list[pa.RecordBatch]], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._builder = builder
        self._raises = raises
        self._send = send
        self._fail = fail
        self._elements: list[Element] = []
        self._timer: Any = None

    def add(self, element: Element) -> None:
        """Add a finished element, in the order of emission."""
        if self._raises and element.failure is not None:
            self._fail(self._builder.raised(element, element.failure))
            return
        self._elements.append(element)
        if len(self._elements) >= _CHUNK_ROWS:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(_CHUNK_WAIT_S, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elements, self._elements = self._elements, []
        if not elements:
            return
        try:
            self._send(list(self._builder.build(elements)))
        except BaseException as problem:
            self._fail(problem)


_CHUNK_ROWS = 1024
_CHUNK_WAIT_S = 0.1
