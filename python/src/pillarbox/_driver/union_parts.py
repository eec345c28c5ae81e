"""The inputs of ``tagged_union``, checked against each other, and the columns of the union."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField

from .._arrow.schema import check_type, claim, find_columns, is_case_sensitive
from .._base.checks import check_frame, check_name, column_names, invalid
from .._keyed.input_columns import as_source, check_comparable, check_timestamp, quoted
from .._keyed.output import SIDE_OUTPUT, TAG, check_tag
from .._keyed.tagged import TAGS, TIME
from ..errors import error
from .keyed_input import TIMES, WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Parts:
    """The inputs as parts of the union, checked against the first."""

    def __init__(self, inputs: Mapping[str, DataFrame], by: object, timestamp: object) -> None:
        for tag, df in inputs.items():
            check_tag(tag, "a tag of inputs")
            check_frame(df, f"inputs[{tag!r}]")
        self._inputs = inputs
        first = next(iter(inputs))
        self._sensitive = is_case_sensitive(inputs[first].sparkSession)
        names = {tag: column_names("by", one) for tag, one in _of_each("by", by, inputs).items()}
        times = _of_each("timestamp", timestamp, inputs)
        self._keys = {tag: self._found(tag, "by", names[tag]) for tag in inputs}
        for name in times.values():
            check_name("timestamp", name, "at")
        self._times = {tag: self._found(tag, "timestamp", [times[tag]])[0] for tag in inputs}
        for tag in inputs:
            self._check(first, tag)
        self._names = [key.name for key in self._keys[first]] + [self._times[first].name]
        owners: dict[str, str] = {}
        places = ["tagged_union", *["by"] * len(self._keys[first]), "timestamp"]
        for name, place in zip([TAG, *self._names], places, strict=True):
            claim(owners, name, place, self._sensitive)
        for tag in inputs:
            claim(owners, tag, "inputs", self._sensitive)

    def of(self, tag: str) -> DataFrame:
        """Return the rows of one input, with the struct of its own columns only."""
        from pyspark.sql import functions as F

        df = self._inputs[tag]
        own = [*self._keys[tag], self._times[tag]]
        named = [
            F.col(quoted(field.name)).alias(name)
            for field, name in zip(own, self._names, strict=True)
        ]
        struct = F.struct(*[F.col(quoted(name)) for name in df.columns])
        return df.select(F.lit(tag).alias(TAG), *named, struct.alias(tag))

    def marked(self, fields: list[StructField]) -> list[Any]:
        """Return the columns of the union with their marks, and with the watermark's."""
        from pyspark.sql import functions as F

        marks: dict[str, dict[str, Any]] = {
            TAG: {TAGS: list(self._inputs)},
            self._names[-1]: {TIME: True},
            **{tag: {SIDE_OUTPUT: True} for tag in self._inputs},
        }
        return [
            F.col(quoted(field.name)).alias(
                field.name, metadata={**field.metadata, **marks.get(field.name, {})}
            )
            for field in fields
        ]

    def _found(self, tag: str, option: str, names: Sequence[str]) -> list[StructField]:
        place = f"{option}[{tag!r}]"
        schema = self._inputs[tag].schema
        found = find_columns(schema, names, place, self._sensitive)
        for field in found:
            check_type(field.dataType, field.name, place)
            check_comparable(field, place)
        return found

    def _check(self, first: str, tag: str) -> None:
        """Check one input for itself, and against the first."""
        from .client import client_of

        one, other = self._inputs[first], self._inputs[tag]
        if not client_of(one.sparkSession).owns(other):
            raise error("OTHER_SESSION", option=f"inputs[{tag!r}]")
        check_type(other.schema, tag, "inputs")
        check_timestamp(self._times[tag], TIMES)
        keys, others = self._keys[first], self._keys[tag]
        if len(keys) != len(others):
            counts = {"count": len(keys), "other": len(others)}
            raise error("TAGGED_UNION_KEYS", first=first, second=tag, **counts)
        for left, right in zip(keys, others, strict=True):
            _check_types("by", first, left, tag, right)
        left, right = self._times[first], self._times[tag]
        _check_types("timestamp", first, left, tag, right)
        if one.isStreaming != other.isStreaming:
            stream, batch = (first, tag) if one.isStreaming else (tag, first)
            raise error("TAGGED_UNION_OF_BATCH_AND_STREAM", stream=stream, batch=batch)
        if one.isStreaming and (WATERMARK in left.metadata) != (WATERMARK in right.metadata):
            has, lacks = (first, tag) if WATERMARK in left.metadata else (tag, first)
            source = as_source(self._times[lacks].name)
            raise error("TAGGED_UNION_WATERMARK", has=has, lacks=lacks, source=source)


_COLUMN_OF = {"by": "key", "timestamp": "at"}


def _of_each(option: str, value: object, inputs: Mapping[str, DataFrame]) -> dict[str, Any]:
    """Return the value of the option for each input. Raises ``InvalidOption``."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(inputs, value)
    if set(value) != set(inputs):
        expected = f"a name, or a dict with an entry for each of {', '.join(inputs)}"
        example = {tag: value.get(tag, _COLUMN_OF[option]) for tag in inputs}
        raise invalid(option, expected, value, example)
    return {tag: value[tag] for tag in inputs}


def _check_types(
    option: str, first: str, one: StructField, second: str, other: StructField
) -> None:
    left, right = one.dataType.simpleString(), other.dataType.simpleString()
    if left != right:
        raise error(
            "TAGGED_UNION_TYPES",
            option=option,
            first=f"{first}.{one.name}",
            first_type=left,
            second=f"{second}.{other.name}",
            second_type=right,
            second_input=second,
            column=other.name,
            source=as_source(other.name),
        )
