"""``process_keyed``: a keyed process function on a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._base.checks import check, check_flag, needs_other
from .._base.functions import JvmFunction
from .._keyed.function import (
    ArrowKeyedProcessFunction,
    AsyncKeyedProcessFunction,
    KeyedProcessFunction,
)
from .._keyed.input_columns import quoted
from .._keyed.methods import check_methods, instead_of, timers_refused
from .._keyed.stored_names import TIMERS
from ..errors import error, shown
from .async_io import check_retry_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from .._async.options import Duration, OnError
    from .._keyed_async.options import CallOptions
    from ..retry import Retry
    from .initial import InitialState
    from .keyed_input import Backend, KeyedInput

Function = (
    KeyedProcessFunction | AsyncKeyedProcessFunction | ArrowKeyedProcessFunction | JvmFunction
)


def process_keyed(
    df: DataFrame,
    fn: Function,
    *,
    by: str | Sequence[str],
    returns: StructType | str,
    timestamp: str | None = None,
    backend: Backend = "rocksdb",
    timers: Backend = "rocksdb",
    order_by: str | Sequence[str] | None = None,
    time_sorted: bool = False,
    inputs: Sequence[str] | None = None,
    side_outputs: Mapping[str, StructType | str] | None = None,
    initial_state: DataFrame | Mapping[str, DataFrame] | None = None,
    capacity: int | None = None,
    timeout: Duration | None = None,
    attempt_timeout: Duration | None = None,
    retry: Retry | None = None,
    on_error: OnError | None = None,
    error_column: str | None = None,
    resource: Callable[[], Any] | None = None,
    carry_over: bool = False,
    name: str | None = None,
) -> DataFrame:
    """The rows that ``fn`` makes of ``df``'s rows, key by key, with state and timers.

    State and output are exactly once. Works in batch and in Structured Streaming (outputMode
    append or update), and with ``df.transform(pb.process_keyed, Fn(), by=..., returns=...)``.

    In a stream a micro-batch runs its rows, then the event-time timers up to the new watermark,
    then the processing-time timers up to the batch's time. In a batch a key runs after the other:
    its rows, then all its timers.

    Parameters
    ----------
    fn: a :class:`KeyedProcessFunction`, an :class:`AsyncKeyedProcessFunction` (calls that are
        awaited), an :class:`ArrowKeyedProcessFunction` (the column form), or :func:`jvm_function`
        with the class name of a Scala or Java ``KeyedProcessFunction``.
    by: the key column, or several. Null is a key like any other.
    returns: the columns of the rows that come out; the input's columns are not among them unless
        the function emits them.
    timestamp: the column with a row's event time, for ``ctx.timestamp``, event-time TTL and
        time_sorted; by default that of the watermark.
    backend, timers: where state and timers are kept between micro-batches: "rocksdb" or "heap".
    order_by: columns by which each micro-batch's rows of a key are sorted; Spark promises no order
        otherwise. In a batch all rows of the key are.
    time_sorted: rows wait until the watermark has reached them, and then run in the order of time
        with the event-time timers between them: the result depends on the data alone, and is the
        same for a batch and for any cutting into micro-batches. Rows of a key and time come in
        the order of ``order_by``, and then in one that depends on their content alone.
    inputs: the columns that the function sees; all by default.
    side_outputs: further outputs by tag, with their columns, for ``ctx.output(tag, row)``. The
        result then has the columns ``tag``, those of ``returns``, and a struct column for each
        tag: take it apart with :func:`main_output` and :func:`side_output`.
    initial_state: the state that the query starts with. A DataFrame of the key columns and a
        column for each state, by name: its value, or accumulator, an array for a list, a map for
        a map. Or, to keep timestamps and timers too, a dict from names of states (and
        ``pb.TIMERS``) to DataFrames as :func:`read_state` gives them. It is read by the first
        micro-batch only: a query that goes on from its checkpoint has its state already, and
        ignores it. In a batch it is the state that each key has before its first row.
    capacity: of an asynchronous function, rows in flight in one task, each of another key (100 by
        default).
    timeout, attempt_timeout, retry, resource: of an asynchronous function, as in :func:`async_io`;
        the resource is ``ctx.resource``.
    on_error: of an asynchronous function, what becomes of a row whose call fails for good, and
        leaves no state: "raise" (the default) fails the task, "null" gives a row of the input's
        columns that are in ``returns``, the others null, "column" gives it with ``error_column``
        ("error" by default) as in :func:`async_io`, which is null in rows of the function.
    carry_over: refused: a micro-batch ends when all its calls are done.
    name: what plans, metrics and messages call the operator; by default the function's class.

    Raises :class:`InvalidOption`, :class:`InvalidSchema`, :class:`InvalidFunction` or
    :class:`EngineUnavailable`, before any job is started.
    """
    from .._keyed_async.options import CallOptions
    from .initial import initial_state as initial_rows
    from .keyed_input import KeyedOptions, check_input

    form = form_of(fn)
    if not isinstance(fn, JvmFunction):
        check_methods(fn)
    options = KeyedOptions(
        name=_name_of(fn) if name is None else name,
        by=by,
        timestamp=timestamp,
        backend=backend,
        timers=timers,
        order_by=order_by,
        time_sorted=time_sorted,
        inputs=inputs,
    )
    is_dict = side_outputs is None or isinstance(side_outputs, Mapping)
    example = '{"late": "id bigint"}'
    check(is_dict, "side_outputs", "a dict of columns by tag", side_outputs, example)
    _check_form(form, time_sorted, side_outputs)
    calls = CallOptions(capacity, timeout, attempt_timeout, retry, on_error, error_column, resource)
    _check_calls(fn, calls, carry_over, initial_state)
    found = check_input(df, options)
    initial = initial_rows(initial_state, df.sparkSession, found.keys)
    return _planned(df, fn, form, returns, dict(side_outputs or {}), found, initial, calls)


def _planned(
    df: DataFrame,
    fn: Function,
    form: str,
    returns: StructType | str,
    side_outputs: dict[str, StructType | str],
    found: KeyedInput,
    initial: InitialState | None,
    given: CallOptions,
) -> DataFrame:
    from .._keyed.command import KeyedCommand
    from .._keyed.output import wire_schema
    from .engine import require_jvm
    from .keyed_input import parse_outputs
    from .specs import KeyedSpec

    columns, sides = parse_outputs(returns, side_outputs, found.case_sensitive, df.sparkSession)
    command = calls = None
    if isinstance(fn, AsyncKeyedProcessFunction):
        calls = given.calls(found.options.name, columns)
        columns, sides = parse_outputs(
            calls.output, side_outputs, found.case_sensitive, df.sparkSession
        )
    if not isinstance(fn, JvmFunction):
        command = KeyedCommand(fn, form, found.inputs, found.keys, columns, sides, calls).dumps()
    door = require_jvm(df.sparkSession)
    spec = KeyedSpec(found, form, fn, wire_schema(columns, sides), list(sides), initial)
    start = None if initial is None else initial.rows
    return door.process_keyed(df, command, spec.to_spec(), start)


def form_of(fn: object) -> str:
    """ "row", "batch" or "jvm". Raises ``InvalidFunction`` (NOT_A_KEYED_FUNCTION)."""
    forms = (
        (KeyedProcessFunction, "row"),
        (AsyncKeyedProcessFunction, "row"),
        (ArrowKeyedProcessFunction, "arrow"),
        (JvmFunction, "jvm"),
    )
    for kind, form in forms:
        if isinstance(fn, kind):
            return form
    raise error(
        "NOT_A_KEYED_FUNCTION",
        expected="an object of a pb.KeyedProcessFunction, a pb.AsyncKeyedProcessFunction, a "
        "pb.ArrowKeyedProcessFunction or a pb.jvm_function",
        value=shown(fn),
        advice=instead_of(fn),
    )


def _name_of(fn: Function) -> str:
    return fn.class_name if isinstance(fn, JvmFunction) else type(fn).__qualname__


def _check_form(form: str, time_sorted: bool, side_outputs: object) -> None:
    for option, value in (("time_sorted", time_sorted), ("side_outputs", side_outputs)):
        if form == "arrow" and value:
            raise needs_other(
                option, value, "for the column form", "Use a pb.KeyedProcessFunction."
            )


def _check_calls(
    fn: Function, calls: CallOptions, carry_over: object, initial_state: object
) -> None:
    check_flag("carry_over", carry_over)
    if carry_over:
        condition = "for a keyed function, whose calls are done when a micro-batch ends"
        raise needs_other("carry_over", carry_over, condition, "Leave carry_over out.")
    if not isinstance(fn, AsyncKeyedProcessFunction):
        calls.refuse("for a function whose process is no coroutine")
        return
    check_retry_on(calls.retry, on_jvm=False)
    if isinstance(initial_state, Mapping) and TIMERS in initial_state:
        raise timers_refused(_name_of(fn))


def main_output(df: DataFrame) -> DataFrame:
    """The rows that the function returned, of a ``process_keyed`` with side outputs.

    As :func:`side_output`. ``df`` is what ``process_keyed`` gave, its columns untouched.
    """
    from .._keyed.output import MAIN, TAG

    sides = _side_outputs(df)
    columns = [name for name in df.columns if name != TAG and name not in sides]
    return df.where(df[TAG] == MAIN).select(*[df[quoted(name)] for name in columns])


def side_output(df: DataFrame, tag: str) -> DataFrame:
    """The rows that went to the side output ``tag``, of a ``process_keyed`` that declared it.

    In a batch every output taken apart computes ``df`` again unless it is cached; in a stream
    take them apart in ``foreachBatch``, or write one query with the column ``tag``.
    Raises :class:`InvalidOption` (NO_OUTPUT_NAMED) for a ``df`` or ``tag`` without such rows.
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
