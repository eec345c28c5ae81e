"""``process_keyed`` in its three forms: a keyed process function on a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._async.keywords import KeyedCallKeywords
from .._base.functions import JvmFunction
from .._base.keywords import takes
from .._base.unknown_options import answers_unknown
from .._keyed.function import (
    ArrowKeyedProcessFunction,
    AsyncKeyedProcessFunction,
    KeyedProcessFunction,
)
from .._keyed.input_columns import quoted
from .._keyed.methods import check_kind, check_methods, timers_refused
from .._keyed.stored_names import TIMERS
from ..errors import error, shown
from .async_io import warn_without_timeout
from .failure_of import reported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType
    from typing_extensions import Unpack

    from .._keyed.output import OnLate
    from ..options import Backend, StateBackend
    from .keyed_input import KeyedOptions


@answers_unknown
def process_keyed(
    df: DataFrame,
    function: KeyedProcessFunction | JvmFunction,
    *,
    by: str | Sequence[str],
    returns: StructType | str | type[Any],
    inputs: str | Sequence[str] | None = None,
    timestamp: str | None = None,
    order_by: str | Sequence[str] | None = None,
    time_sorted: bool = False,
    side_outputs: Mapping[str, StructType | str | type[Any]] | None = None,
    on_late: OnLate = "drop",
    initial_state: DataFrame | Mapping[str, DataFrame] | None = None,
    backend: StateBackend | Backend = "rocksdb",
    partitions: int | None = None,
    name: str | None = None,
) -> DataFrame:
    """Apply ``function`` to the rows of ``df``, key by key, with state and timers.

    State and output are exactly once. Works in batch and in Structured Streaming (outputMode
    append or update), and with ``df.transform(pb.process_keyed, Fn(), by=..., returns=...)``.

    In a stream a micro-batch runs its rows, then the event-time timers up to the new watermark,
    then the processing-time timers up to the batch's time. In a batch a key runs after the other:
    its rows, then all its timers.

    Parameters
    ----------
    function: an object of a :class:`KeyedProcessFunction`, or a :class:`JvmFunction` with the class
        name of a Scala or Java ``KeyedProcessFunction``. For calls that are awaited there is
        :func:`process_keyed_async`, for columns :func:`process_keyed_arrow`.
    by: the key column, or several. Null is a key like any other.
    returns: the columns of the rows that come out, as in :func:`async_io`; the input's columns are
        not among them unless the function emits them.
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

    Raises :class:`InvalidOption`, :class:`InvalidSchema`, :class:`InvalidFunction` or
    :class:`EngineUnavailable`, before any job is started.
    """
    from .keyed_input import KeyedOptions

    check_kind(function, KeyedProcessFunction, JvmFunction)
    options = KeyedOptions(
        _name_of(function, name),
        *(by, inputs, timestamp, order_by, time_sorted, on_late, backend, partitions),
    )
    form = "jvm" if isinstance(function, JvmFunction) else "row"
    return _plan(df, _Asked(function, form, returns, side_outputs), options, initial_state)


@takes(KeyedCallKeywords)
def process_keyed_async(
    df: DataFrame,
    function: AsyncKeyedProcessFunction,
    *,
    by: str | Sequence[str],
    returns: StructType | str | type[Any],
    inputs: str | Sequence[str] | None = None,
    timestamp: str | None = None,
    order_by: str | Sequence[str] | None = None,
    time_sorted: bool = False,
    side_outputs: Mapping[str, StructType | str | type[Any]] | None = None,
    on_late: OnLate = "drop",
    initial_state: DataFrame | Mapping[str, DataFrame] | None = None,
    backend: StateBackend | Backend = "rocksdb",
    partitions: int | None = None,
    name: str | None = None,
    **keywords: Unpack[KeyedCallKeywords],
) -> DataFrame:
    """Apply ``function`` to the rows of ``df``, key by key, with calls that are awaited.

    Rows of one key run one after the other, rows of other keys meanwhile. A micro-batch ends when
    all its calls are done. State and output are exactly once, calls are not: one that was made
    before a task failed is made again.

    Parameters
    ----------
    function: an object of an :class:`AsyncKeyedProcessFunction`.
    by, returns, inputs, timestamp, order_by, time_sorted, side_outputs, on_late, initial_state,
        backend, partitions, name: as in :func:`process_keyed`, but there are no timers.
    capacity: the number of rows in flight in one task, each of another key.
    limit: the number of calls that the service may see, or how much they may use, as a
        :class:`Limit` or several; an attempt of ``process`` counts as a call. No scope="key": a key
        has one call at a time.
    on_error: the treatment of a row whose call fails for good, and leaves no state: "raise" fails
        the task, "null" emits a row of those columns of ``returns`` that the key or the function's
        input has under the same name and type, the others null, "column" (or an
        :class:`ErrorColumn`) emits it with the column ``error`` as in :func:`async_io`, which is
        null in rows of the function.
    call_key: the columns that name a call: rows that are equal in them have the same
        :func:`call_id`, in every run. It needs ``name``.
    call_column: the name of a column that tells of the call of every row of the main output, as in
        :func:`async_io`; its attempts are those of ``process``. The call of an input row that gives
        no row is in :func:`usage` only.
    resource: a function without parameters that returns an (asynchronous) context manager. It is
        opened in the worker, and its value is ``ctx.resource``.
    {keywords}

    Raises as :func:`process_keyed`.
    """
    from .keyed_input import KeyedOptions

    check_kind(function, AsyncKeyedProcessFunction)
    options = KeyedOptions(
        _name_of(function, name),
        *(by, inputs, timestamp, order_by, time_sorted, on_late, backend, partitions),
    )
    if keywords.get("call_key") is not None and name is None:
        raise error("CALL_KEY_WITHOUT_NAME", function=_name_of(function))
    if isinstance(initial_state, Mapping) and TIMERS in initial_state:
        raise timers_refused(_name_of(function))
    return _plan(
        df, _Asked(function, "row", returns, side_outputs, keywords), options, initial_state
    )


@answers_unknown
def process_keyed_arrow(
    df: DataFrame,
    function: ArrowKeyedProcessFunction,
    *,
    by: str | Sequence[str],
    returns: StructType | str | type[Any],
    inputs: str | Sequence[str] | None = None,
    timestamp: str | None = None,
    order_by: str | Sequence[str] | None = None,
    initial_state: DataFrame | Mapping[str, DataFrame] | None = None,
    backend: StateBackend | Backend = "rocksdb",
    partitions: int | None = None,
    name: str | None = None,
) -> DataFrame:
    """Apply ``function`` to the rows of ``df`` as Arrow columns, with state of their keys.

    Parameters
    ----------
    function: an object of an :class:`ArrowKeyedProcessFunction`.
    by, returns, inputs, timestamp, order_by, initial_state, backend, partitions, name: as in
        :func:`process_keyed`.

    Raises as :func:`process_keyed`.
    """
    from .keyed_input import KeyedOptions

    check_kind(function, ArrowKeyedProcessFunction)
    options = KeyedOptions(
        _name_of(function, name),
        *(by, inputs, timestamp, order_by),
        backend=backend,
        partitions=partitions,
    )
    return _plan(df, _Asked(function, "arrow", returns), options, initial_state)


@dataclass(frozen=True)
class _Asked:
    """A function of one form, with its outputs and the options of its calls."""

    function: Any
    form: str
    returns: StructType | str | type[Any]
    side_outputs: Mapping[str, StructType | str | type[Any]] | None = None
    calls: Mapping[str, object] | None = None


def _plan(df: DataFrame, asked: _Asked, options: KeyedOptions, initial_state: object) -> DataFrame:
    from .._arrow.schema import is_case_sensitive
    from .._keyed.command import KeyedCommand
    from .._keyed.output import check_sides, wire_schema
    from .._keyed_async.options import keyed_calls
    from .engine import require_jvm
    from .identity import identify_calls
    from .initial import initial_state as initial_rows
    from .keyed_input import check_input, parse_outputs
    from .keys import key_columns
    from .specs import calls_spec, keyed_spec

    function, form, sides = asked.function, asked.form, asked.side_outputs
    check_sides(sides)
    if form != "jvm":
        check_methods(function)
    found = check_input(df, options)
    initial = initial_rows(initial_state, df.sparkSession, found)
    columns, tags = parse_outputs(asked.returns, sides, found, df.sparkSession)
    command = calls = None
    if asked.calls is not None:
        calls = keyed_calls(options.name, asked.calls, columns)
        key = calls.options.call_key
        if key is not None:
            key_columns(df.schema, key, is_case_sensitive(df.sparkSession), "call_key")
        if found.streaming:
            warn_without_timeout("process_keyed_async", options.name, calls.options.timeout)
        columns, tags = parse_outputs(calls.output, sides, found, df.sparkSession)
    if form != "jvm":
        command = KeyedCommand(
            function, form, found.inputs, found.keys, columns, tags, calls
        ).dumps()
    client = require_jvm(df.sparkSession)
    told = None if calls is None else calls_spec(calls, identify_calls(df, calls))
    output = wire_schema(columns, tags)
    spec = keyed_spec(found, form, function, output, list(tags), initial, calls=told)
    with reported():
        return client.process_keyed(df, command, spec, None if initial is None else initial.rows)


def _name_of(function: object, given: str | None = None) -> str:
    if given is not None:
        return given
    if isinstance(function, JvmFunction):
        return function.class_name
    return type(function).__qualname__


@answers_unknown
def main_output(df: DataFrame) -> DataFrame:
    """Return the rows of the main output of a ``process_keyed`` with side outputs.

    ``df`` is the result of ``process_keyed`` with all its columns. See :func:`side_output`.
    """
    from .._keyed.output import MAIN, TAG

    sides = _side_outputs(df)
    columns = [name for name in df.columns if name != TAG and name not in sides]
    return df.where(df[TAG] == MAIN).select(*[df[quoted(name)] for name in columns])


@answers_unknown
def side_output(df: DataFrame, tag: str) -> DataFrame:
    """Return the rows of the side output ``tag`` of a ``process_keyed`` that declared it.

    In a batch each output computes ``df`` again unless it is cached. In a stream, split the outputs
    in ``foreachBatch``, or write one query with the column ``tag``. Raises :class:`InvalidOption`
    (NO_OUTPUT_NAMED) for another ``df`` or ``tag``.
    """
    from .._keyed.output import TAG

    sides = _side_outputs(df)
    if tag not in sides:
        raise error("NO_OUTPUT_NAMED", tag=shown(tag), declared=", ".join(sides) or "none")
    name = quoted(tag)
    return df.where(df[TAG] == tag).select(df[name]).select(f"{name}.*")


def _side_outputs(df: DataFrame) -> list[str]:
    from .._keyed.output import MAIN, SIDE_OUTPUT

    sides = [field.name for field in df.schema.fields if field.metadata.get(SIDE_OUTPUT)]
    if not sides:
        raise error("NO_OUTPUT_NAMED", tag=repr(MAIN), declared="none")
    return sides
