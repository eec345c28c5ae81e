"""Conversion of a function's answers to one Arrow batch, with the number of rows of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from .._base.failures import kind_of, message_of
from .._base.values import shown_cause, shown_value
from ..errors import EXITS, PillarboxError, error
from .converters import converter, mismatch, null_mismatch
from .fields import Getters, Place, as_mapping, fields_of, items_of, names_in
from .pieces import ARROWS_MOST, FrameSize, TooMuch, array_of, halves, spans
from .writers import list_writer

NO_MATCH = -1


@dataclass(frozen=True)
class Encoded:
    """``counts[i]`` rows of ``batch`` belong to answer i, in order (NO_MATCH: it was None).

    Answers in ``mismatches`` (by index) have a count of 0 and no row.
    """

    counts: list[int]
    batch: pa.RecordBatch
    mismatches: dict[int, PillarboxError]

    def part(self, first: int, last: int, bounds: Sequence[int]) -> Encoded:
        """Return answers ``first`` to ``last``; ``bounds`` are the rows where answers begin."""
        kept = {i - first: error for i, error in self.mismatches.items() if first <= i < last}
        batch = self.batch.slice(bounds[first], bounds[last] - bounds[first])
        return Encoded(self.counts[first:last], batch, kept)


class ResultEncoder:
    """Checks answers against ``returns`` and lays them out with exactly ``arrow_schema``.

    A bad answer is in ``Encoded.mismatches`` and does not affect others. With ``bare``, each answer
    is the value of the only column, whatever its shape.
    """

    def __init__(
        self, returns: t.StructType, arrow_schema: pa.Schema, explode: bool, *, bare: bool = False
    ) -> None:
        self._schema = arrow_schema
        self._explode = explode
        place = Place(lenient=True)
        self._to_values = _alone if bare else row_shape(returns, place)
        self._names = names_in(returns)
        self._required = next((field for field in returns.fields if not field.nullable), None)
        self._columns = [
            _Column(spark, arrow, place.field(spark.name))
            for spark, arrow in zip(returns.fields, arrow_schema, strict=True)
        ]
        # The first array makes pyarrow import pandas, here and not on an event loop with calls.
        self.encode([])

    def encode(self, answers: Sequence[Any]) -> Encoded:
        """Encode ``answers`` as one batch. Raises ``TooMuch`` if it can't hold them.

        Any error of reading an answer is a mismatch of this answer.
        """
        mismatches: dict[int, PillarboxError] = {}
        rows, counts = self._rows(answers, mismatches)
        try:
            arrays = [column.array(list(values)) for column, values in self._transposed(rows)]
        except (TooMuch, *EXITS):
            raise
        except BaseException:
            rows, counts = self._fitting(answers, rows, counts, mismatches)
            arrays = [column.converted(values) for column, values in self._transposed(rows)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return Encoded(counts, batch, mismatches)

    def pieces(self, answers: Sequence[Any], size: FrameSize) -> Iterator[tuple[int, int, Encoded]]:
        """Encode ``answers`` as batches of bounded size, each with its first and last index.

        An answer that is too large for any batch is a mismatch.
        """
        parts = halves(0, len(answers), lambda start, stop: self.encode(answers[start:stop]))
        for start, stop, encoded in parts:
            if encoded is None:
                yield start, stop, self._too_large(ARROWS_MOST + 1, size)
            elif encoded.batch.nbytes <= size.cut:
                yield start, stop, encoded
            else:
                for first, last, piece in self._spans(encoded, size):
                    yield start + first, start + last, piece

    def _spans(self, encoded: Encoded, size: FrameSize) -> Iterator[tuple[int, int, Encoded]]:
        bounds = list(accumulate((max(count, 0) for count in encoded.counts), initial=0))
        for first, last in spans(encoded.batch, bounds, size):
            piece = encoded.part(first, last, bounds)
            if piece.batch.nbytes > size.most:
                piece = self._too_large(piece.batch.nbytes, size)
            yield first, last, piece

    def _too_large(self, found: int, size: FrameSize) -> Encoded:
        nothing = self._schema.empty_table().to_batches()
        batch = nothing[0] if nothing else pa.RecordBatch.from_pylist([], schema=self._schema)
        return Encoded([0], batch, {0: too_large(found, size)})

    def _transposed(self, rows: list[Any]) -> list[tuple[_Column, Sequence[Any]]]:
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(self._columns)
        return list(zip(self._columns, columns, strict=True))

    def _rows(
        self, answers: Sequence[Any], mismatches: dict[int, PillarboxError]
    ) -> tuple[list[Any], list[int]]:
        rows: list[Any] = []
        counts: list[int] = []
        for index, answer in enumerate(answers):
            try:
                counts.append(self._append(answer, rows))
            except EXITS:
                raise
            except BaseException as problem:
                counts.append(0)
                mismatches[index] = self._mismatch(answer, problem)
        return rows, counts

    def _mismatch(self, answer: Any, problem: BaseException) -> PillarboxError:
        if issubclass(type(answer), BaseException):
            advice = "Raise it; only a function with batch_size returns it, in a row's place."
            return wrong_shape(_expected(self._schema.names), answer, advice, self._names)
        if isinstance(problem, PillarboxError):
            return problem
        advice = f"Reading it failed with {kind_of(problem)}: {message_of(problem)}"
        refused = wrong_shape(_expected(self._schema.names), answer, advice, self._names)
        refused.__cause__ = problem
        return refused

    def _append(self, answer: Any, rows: list[Any]) -> int:
        if answer is None:
            return self._no_match()
        if not self._explode:
            rows.append(self._to_values(answer))
            return 1
        if not isinstance(answer, list):
            expected = "a list of rows, as explode=True"
            raise wrong_shape(expected, answer, "Return [] for no row.", self._names)
        new = list(map(self._to_values, answer))
        rows.extend(new)
        return len(new)

    def _no_match(self) -> int:
        required = self._required
        if required is not None:
            raise null_mismatch(Place(required.name), required.dataType)
        return NO_MATCH

    def _fitting(
        self,
        answers: Sequence[Any],
        rows: list[Any],
        counts: list[int],
        mismatches: dict[int, PillarboxError],
    ) -> tuple[list[Any], list[int]]:
        """Return the converted rows of answers whose cells all fit; the others are mismatches."""
        kept: list[Any] = []
        kept_counts: list[int] = []
        start = 0
        for index, count in enumerate(counts):
            own, start = rows[start : start + max(count, 0)], start + max(count, 0)
            try:
                kept.extend([self._converted(row) for row in own])
                kept_counts.append(count)
            except EXITS:
                raise
            except BaseException as problem:
                kept_counts.append(0)
                mismatches[index] = self._mismatch(answers[index], problem)
        return kept, kept_counts

    def _converted(self, row: Sequence[Any]) -> list[Any]:
        return [column.cell(value) for column, value in zip(self._columns, row, strict=True)]


class _Column:
    """One column of ``returns``."""

    def __init__(self, spark: t.StructField, arrow: pa.Field, place: Place) -> None:
        self.convert = converter(spark.dataType, spark.nullable, place)
        self.array = list_writer(spark.dataType, arrow.type, place, spark.nullable)
        self._data_type = spark.dataType
        self._place = place
        self._type = arrow.type

    def cell(self, value: Any) -> Any:
        """Convert ``value``, and build an array of it alone to find a value that Arrow refuses."""
        converted = self.convert(value)
        try:
            pa.array([converted], type=self._type)
        except EXITS:
            raise
        except pa.ArrowCapacityError as refusal:
            raise too_large(ARROWS_MOST + 1, FrameSize()) from refusal
        except BaseException as refusal:
            cause = shown_cause(refusal, (*self._place.names, *names_in(self._data_type)))
            raise mismatch(self._place, self._data_type, value) from cause
        return converted

    def converted(self, values: Sequence[Any]) -> pa.Array:
        return array_of(list(values), self._type)


def too_large(found: int, size: FrameSize) -> PillarboxError:
    return error("RESULT_TOO_LARGE", size=f"{found:,} bytes", limit=f"{size.most:,} bytes")


def wrong_shape(expected: str, answer: object, advice: str, names: Sequence[str]) -> PillarboxError:
    """Return RESULT_SHAPE_MISMATCH for an answer of another shape than ``expected``.

    ``names`` are those of all columns and fields that it is for.
    """
    return error(
        "RESULT_SHAPE_MISMATCH",
        expected=expected,
        value=shown_value(answer, names),
        found=type(answer).__name__,
        advice=advice,
    )


def _expected(names: list[str]) -> str:
    return f"a dict, tuple, Row, dataclass or pydantic model with the columns {', '.join(names)}"


def _alone(answer: Any) -> Sequence[Any]:
    return (answer,)


def row_shape(returns: t.StructType, place: Place) -> Callable[[Any], Sequence[Any]]:
    """Return a function from one row to its values in the order of ``returns``.

    None is a row of nulls, as in a UDTF of Spark. What a whole answer of None means, the caller
    says.
    """
    many = _many_columns(returns, place)
    return many if len(returns.fields) > 1 else _one_column(returns.fields[0], many)


def _many_columns(returns: t.StructType, place: Place) -> Callable[[Any], Sequence[Any]]:
    names = returns.names
    all_of = itemgetter(*names) if len(names) > 1 else lambda answer: (answer[names[0]],)
    expected = _expected(names)
    getters = Getters(names)
    nulls = (None,) * len(names)

    def values(answer: Any) -> Sequence[Any]:
        if type(answer) is tuple and len(answer) == len(names):
            return answer
        if type(answer) is dict and (place.lenient or len(answer) == len(names)):
            try:
                return all_of(answer)
            except KeyError:
                pass
        if answer is None and place.is_of_answer:
            return nulls
        getter = getters[type(answer)]
        if getter is not None:
            return getter(answer)
        named = fields_of(answer, names, place)
        if named is not None:
            return named
        if as_mapping(answer) is not None:
            advice = "None of its names is a column of returns."
            raise wrong_shape(expected, answer, advice, names_in(returns))
        items = items_of(answer, len(names))
        if items is None:
            raise wrong_shape(expected, answer, _advice(answer, place), names_in(returns))
        return items

    return values


def _advice(answer: object, place: Place) -> str:
    """Return the remedy; only answers of ``async_io`` are in a lenient place."""
    if isinstance(answer, list):
        if place.lenient:
            return "For several rows of one input row, pass explode=True."
        return "A row is no list: take it out of that."
    return "Return None for no match." if place.lenient else "A row has a value for each of them."


def _one_column(
    column: t.StructField, as_row: Callable[[Any], Sequence[Any]]
) -> Callable[[Any], Sequence[Any]]:
    """Return the function for one column, whose answers may be rows or bare values.

    The schema decides. A dict for a map is always the value. A struct is the value, unless the
    answer wraps it as the row ``{name: value}`` and the struct has no field of that name. A tuple
    of length one is always the row.
    """
    name, kind = column.name, column.dataType
    getters = Getters([] if isinstance(kind, t.StructType) and name in kind.names else [name])

    def values(answer: Any) -> Sequence[Any]:
        if type(answer) in _SCALARS:
            return (answer,)
        getter = getters[type(answer)]
        if getter is not None:
            return getter(answer)
        named = as_mapping(answer)
        if named is not None:
            wraps = list(named) == [name] if isinstance(kind, _CAN_BE_NAMED) else True
            inside = isinstance(kind, t.StructType) and name in kind.names
            if isinstance(kind, t.MapType) and isinstance(answer, dict):
                return (answer,)
            return as_row(answer) if wraps and not inside else (answer,)
        if isinstance(answer, tuple) and len(answer) == 1:
            return answer
        return (answer,)

    return values


_SCALARS = frozenset({int, float, str, bool, bytes})
_CAN_BE_NAMED = (t.StructType, t.MapType, t.UserDefinedType)
