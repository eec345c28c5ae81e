"""``process_keyed`` in its three forms: a keyed process function on a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from .._keyed.options import TIMERS, ColumnKeywords, KeyedKeywords, KeyedOptions
from .._keyed_async.options import KeyedAsyncKeywords, keyed_calls
from ..errors import error, shown
from .async_io import warn_without_timeout
from .failure_of import reported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType
    from typing_extensions import Unpack


@takes(KeyedKeywords)
def process_keyed(
    df: DataFrame,
    function: KeyedProcessFunction | JvmFunction,
    *,
    by: str | Sequence[str],
    returns: StructType | str | type[Any],
    **keywords: Unpack[KeyedKeywords],
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
    {keywords}

    Raises :class:`InvalidOption`, :class:`InvalidSchema`, :class:`InvalidFunction` or
    :class:`EngineUnavailable`, before any job is started.
    """
    check_kind(function, KeyedProcessFunction, JvmFunction)
    form = "jvm" if isinstance(function, JvmFunction) else "row"
    return _plan(df, _Asked(function, form, returns), by, keywords)


@takes(KeyedAsyncKeywords)
def process_keyed_async(
    df: DataFrame,
    function: AsyncKeyedProcessFunction,
    *,
    by: str | Sequence[str],
    returns: StructType | str | type[Any],
    **keywords: Unpack[KeyedAsyncKeywords],
) -> DataFrame:
    """Apply ``function`` to the rows of ``df``, key by key, with calls that are awaited.

    Rows of one key run one after the other, rows of other keys meanwhile. A micro-batch ends when
    all its calls are done. State and output are exactly once, calls are not: one that was made
    before a task failed is made again. There are no timers.

    Parameters
    ----------
    function: an object of an :class:`AsyncKeyedProcessFunction`.
    by, returns: as in :func:`process_keyed`.
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
    check_kind(function, AsyncKeyedProcessFunction)
    if keywords.get("call_key") is not None and keywords.get("name") is None:
        raise error("CALL_KEY_WITHOUT_NAME", function=_name_of(function))
    initial = keywords.get("initial_state")
    if isinstance(initial, Mapping) and TIMERS in initial:
        raise timers_refused(_name_of(function))
    return _plan(df, _Asked(function, "row", returns, makes_calls=True), by, keywords)


@takes(ColumnKeywords)
def process_keyed_arrow(
    df: DataFrame,
    function: ArrowKeyedProcessFunction,
    *,
    by: str | Sequence[str],
    returns: StructType | str | type[Any],
    **keywords: Unpack[ColumnKeywords],
) -> DataFrame:
    """Apply ``function`` to the rows of ``df`` as Arrow columns, with state of their keys.

    Parameters
    ----------
    function: an object of an :class:`ArrowKeyedProcessFunction`.
    by, returns: as in :func:`process_keyed`.
    {keywords}

    Raises as :func:`process_keyed`.
    """
    check_kind(function, ArrowKeyedProcessFunction)
    return _plan(df, _Asked(function, "arrow", returns), by, keywords)


@dataclass(frozen=True)
class _Asked:
    """A function of one form, with the columns of its rows."""

    function: Any
    form: str
    returns: StructType | str | type[Any]
    makes_calls: bool = False


def _plan(df: DataFrame, asked: _Asked, by: object, given: Mapping[str, object]) -> DataFrame:
    from .._arrow.schema import is_case_sensitive
    from .._keyed.command import KeyedCommand
    from .._keyed.output import wire_schema
    from .engine import require_jvm
    from .identity import identify_calls
    from .initial import initial_state as initial_rows
    from .keyed_input import check_input, parse_outputs
    from .keys import key_columns
    from .specs import calls_spec, keyed_spec

    function, form = asked.function, asked.form
    options = KeyedOptions.of(_name_of(function), by, given)
    if form != "jvm":
        check_methods(function)
    found = check_input(df, options)
    initial = initial_rows(df.sparkSession, found)
    columns, tags = parse_outputs(asked.returns, found, df.sparkSession)
    command = calls = None
    if asked.makes_calls:
        calls = keyed_calls(options.name, given, columns)
        key = calls.options.call_key
        if key is not None:
            key_columns(df.schema, key, is_case_sensitive(df.sparkSession), "call_key")
        if found.streaming:
            warn_without_timeout("process_keyed_async", options.name, calls.options.timeout)
        columns, tags = parse_outputs(calls.output, found, df.sparkSession)
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


def _name_of(function: object) -> str:
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
