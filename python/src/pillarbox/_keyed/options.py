"""The keywords of keyed functions, of which harnesses take some, and the options made of them.

Parameters
----------
inputs: the columns that the function sees; all by default.
timestamp: the column with a row's event time, for ``ctx.timestamp``, event-time TTL and
    time_sorted; by default that of a stream's watermark, or of a :func:`tagged_union`.
order_by: columns by which each micro-batch's rows of a key are sorted; Spark promises no order
    otherwise. In a batch all rows of the key are.
time_sorted: rows wait until the watermark has reached them, and then run in the order of time
    with the event-time timers between them: the result depends on the data alone, and is the
    same for a batch and for any cutting into micro-batches. Rows of a key and time come in
    the order of ``order_by``, and then in one that depends on their content alone.
side_outputs: further outputs by tag, with their columns, for ``ctx.output(tag, row)``. The
    result then has the columns ``tag``, those of ``returns``, and a struct column for each
    tag: take it apart with :func:`main_output` and :func:`side_output`. The tags "main",
    "late" and "error" are reserved.
on_late: the treatment of rows at or behind the watermark of the micro-batch before. "drop"
    drops and counts them, unless the function has nothing to do with event time (no
    ``timestamp=``, ``on_timer`` or event-time TTL) and gets them like any other row. "process"
    gives them to the function, with ``ctx.is_late``, and is not for time_sorted. "output" puts
    them out with all columns of the input as the side output "late". A batch has no late rows.
initial_state: the state that the query starts with. A DataFrame of the key columns and a
    column for each state, by name: its value, or accumulator, an array for a list, a map for
    a map. Or, to keep timestamps and timers too, a dict from names of states (and
    ``pb.TIMERS``, ``pb.WAITING_ROWS``) to DataFrames as :func:`read_state` returns them. Only
    the first micro-batch reads it: a query that continues from its checkpoint has its state
    already, and ignores it. In a batch it is the state of each key before its first row. In a
    ``foreachBatch``, where state ends with the micro-batch, say what it begins with; ``{}`` is
    nothing.
backend: the storage of state and timers between micro-batches: "rocksdb", "heap" or a
    :class:`Backend`.
partitions: the number of partitions of a stream's state and the shuffle before it; by default
    ``spark.sql.shuffle.partitions``, or what the checkpoint has if nobody has set that. A query
    that is started again with another number goes on with it. No meaning in a batch.
name: the operator's name in plans, metrics and messages; by default the function's class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from .._base.checks import (
    check,
    check_choice,
    check_flag,
    check_name,
    column_names,
    needs_other,
    some_columns,
)
from .._base.keywords import Keyword, converted
from ..options import Backend, StateBackend, as_backend, check_parts

OnLate = Literal["drop", "process", "output"]

# What ``initial_state`` may have beside a function's states, by the names in checkpoints.
RESERVED = "pillarbox "
TIMERS = RESERVED + "timers"
WAITING_ROWS = RESERVED + "time-sorted rows"

_NAME = partial(check_name, example="rotations")


def _check_sides(option: str, given: object) -> None:
    is_dict = isinstance(given, Mapping)
    check(is_dict, option, "a dict of columns by tag", given, '{"bad": "id bigint"}')


class OrderKeywords(TypedDict, total=False):
    """Those of all keyed functions."""

    timestamp: Annotated[str | None, Keyword(check=_NAME)]
    order_by: Annotated[
        str | Sequence[str] | None, Keyword(None, partial(some_columns, "order_by"))
    ]


class TimeKeywords(OrderKeywords, total=False):
    """Those of functions of rows, and of ``scan``."""

    time_sorted: Annotated[bool, Keyword(False, check=check_flag)]
    on_late: Annotated[OnLate, Keyword("drop", check=partial(check_choice, choices=OnLate))]


class RowKeywords(TimeKeywords, total=False):
    """Those of functions of rows, on Spark and in a harness."""

    side_outputs: Annotated[
        Mapping[str, StructType | str | type[Any]] | None, Keyword(check=_check_sides)
    ]


class StateKeywords(OrderKeywords, total=False):
    """Those of all operators on Spark."""

    initial_state: Annotated[DataFrame | Mapping[str, DataFrame] | None, Keyword()]
    backend: Annotated[StateBackend | Backend, Keyword("rocksdb", as_backend)]
    partitions: Annotated[int | None, Keyword(check=check_parts)]
    name: Annotated[str | None, Keyword(check=_NAME)]


class ColumnKeywords(StateKeywords, total=False):
    """Those of ``process_keyed_arrow``."""

    inputs: Annotated[str | Sequence[str] | None, Keyword(None, partial(some_columns, "inputs"))]


class ScanKeywords(TimeKeywords, StateKeywords, total=False):
    """Those of ``scan``."""


class KeyedKeywords(RowKeywords, ColumnKeywords, total=False):
    """Those of ``process_keyed``, which are all."""


@dataclass(frozen=True)
class KeyedOptions:
    """The options of a keyed function: of each keyword what its ``convert`` has made.

    Raises ``InvalidOption`` for the first one that contradicts another.
    """

    by: tuple[str, ...]
    inputs: tuple[str, ...] | None
    timestamp: str | None
    order_by: tuple[str, ...] | None
    time_sorted: bool
    side_outputs: Mapping[str, StructType | str | type[Any]] | None
    on_late: OnLate
    initial_state: object
    backend: Backend
    partitions: int | None
    name: str

    @classmethod
    def of(cls, function: str, by: object, given: Mapping[str, object]) -> KeyedOptions:
        """Return the options of these keywords; ``function`` is the operator's name without one.

        Raises ``InvalidOption``.
        """
        options = converted(KeyedKeywords, given)
        if options["name"] is None:
            options["name"] = function
        return cls(column_names("by", by), **options)

    def __post_init__(self) -> None:
        if self.on_late == "process" and self.time_sorted:
            condition = "with time_sorted, where a late row comes after its place"
            raise needs_other(
                "on_late", self.on_late, condition, 'Use on_late="output", or "drop".'
            )
