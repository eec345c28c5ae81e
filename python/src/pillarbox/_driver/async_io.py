"""``async_io``: one asynchronous call a row, many in flight, on a DataFrame."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from .._async.command import Command
from .._async.function import AsyncFunction
from .._async.given import check_kind, given_options
from .._async.options import AsyncOptions, Engine, refuse_for_python
from .._async.ticketed import Ticketed
from .._base.checks import check_choice, check_frame
from .._base.functions import JvmFunction
from .._base.unknown_options import answers_unknown
from ..budgets import Budget
from ..errors import error
from ..options import (
    BatchSize,
    CarryOver,
    Duration,
    ErrorColumn,
    Journal,
    Limit,
    ShareScope,
    Timeout,
)
from ..retry import Retry
from .engine import jvm_if_there, require_jvm
from .failure_of import reported
from .identity import identify
from .keys import check_call_key, key_columns
from .specs import async_spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from .door import Door

Function = Callable[..., Any] | AsyncFunction | JvmFunction | Ticketed

_LOG = logging.getLogger("pillarbox")


def warn_without_timeout(operator: str, name: str, timeout: Timeout) -> None:
    """Log that a stream's calls have no timeout."""
    if timeout == Timeout():
        _LOG.warning(
            '%s("%s") on a stream has no timeout: a call that hangs holds the stream up for ever. '
            'Pass timeout="30s", or what suits the service.',
            *(operator, name),
        )


@answers_unknown
def async_io(
    df: DataFrame,
    function: Function,
    *,
    returns: StructType | str | type[Any],
    inputs: str | Sequence[str] | None = None,
    explode: bool = False,
    batch_size: int | BatchSize | None = None,
    ordered: bool = True,
    by: str | Sequence[str] | None = None,
    capacity: int = 100,
    limit: Limit | Sequence[Limit] | None = None,
    budget: Budget | None = None,
    usage: str | Sequence[str] = (),
    timeout: Duration | Timeout | None = None,
    retry: int | Retry | None = None,
    on_error: Literal["raise", "null", "column"] | ErrorColumn = "raise",
    call_column: str | None = None,
    resource: Callable[[], Any] | None = None,
    call_key: str | Sequence[str] | None = None,
    share_calls: bool | ShareScope = False,
    journal: bool | str | os.PathLike[str] | Journal | None = None,
    carry_over: bool | CarryOver = False,
    name: str | None = None,
    engine: Engine = "auto",
) -> DataFrame:
    """Add the columns of ``returns`` to ``df``, which ``function`` computes for each row.

    Every row is answered exactly once in the output; a call may be made more than once (retries,
    tasks that Spark runs again), under the same :func:`call_id`. Works in batch and in Structured
    Streaming, and with ``df.transform(pb.async_io, function, ...)``.

    ``function`` is one of

    - ``async def f(row)``: a coroutine a row, on one event loop a worker: it must not block;
    - ``def f(row)``: runs in threads of the worker, ``capacity`` of them;
    - an object of a class that extends :class:`AsyncFunction`, with clients of its own;
    - with ``batch_size`` each of these gets a list of rows, and returns a list with one result a
      row, in the order of the rows;
    - a :class:`Ticketed`: two functions, for calls that take hours (engine "jvm" only);
    - a :class:`JvmFunction`: a Scala or Java ``AsyncFunction`` by class name (engine "jvm" only).

    With ``resource`` a function takes the open resource as second parameter. A result is a dict,
    tuple, ``Row`` or dataclass with the columns of ``returns``, the bare value where there is just
    one column, or None for no match (nulls); with ``explode`` a list of such, one output row each.
    Results are checked strictly against ``returns``. Names of a dict that are not columns are
    left out, but one that nearly is the name of a missing column is an error; columns that are
    missing in it are null.

    Parameters
    ----------
    returns: the new columns, as a DDL string, a StructType, or a class whose annotations they
        follow: a dataclass, NamedTuple, TypedDict or pydantic model. A NOT NULL column refuses
        null, also that of no match; in the output it is nullable unless on_error is "raise".
    inputs: the columns that the function sees; all by default. Others pass by untouched.
    explode: with True the function returns a list, and each element is a row of the output.
    batch_size: the function gets a list of up to so many rows; a :class:`BatchSize` also says how
        long the first row waits for others.
    ordered: with True output rows keep the order of the input rows, within a partition or, with
        ``by``, within a key.
    by: the columns of a key. Rows are shuffled by it, as in :func:`process_keyed`; a row waits for
        rows of its own key only, and a :class:`Limit` may hold for each key. Engine "jvm" only.
    capacity: the number of rows in flight in one task. With ``ordered`` it holds up to ten times as
        many, those that are done and wait for their turn included. With a :class:`Ticketed` it is
        the number of calls at a time alone.
    limit: the number of calls that the service may see, as a :class:`Limit` or several. One with
        scope="key" and others hold together. Engine "python" keeps scope="task" only.
    budget: when to stop calling, a :class:`Budget`. Engine "jvm" only.
    usage: the units in which calls report what they use, such as "tokens", with
        ``current_call().report_usage``. Each has a metric.
    timeout: the longest time of a row, over all its attempts and the waiting between them; a
        :class:`Timeout` also bounds one attempt.
    retry: the number of attempts, the first included, or a :class:`Retry`; one by default.
    on_error: "raise" fails the task; "null" leaves the new columns null; "column", or an
        :class:`ErrorColumn` with another name, does so too and adds the column ``error``:
        struct<kind, message, attempts, elapsed_ms, call_id>, null for good rows. :func:`failed`
        gives the rows that have one, to be fed in again.
    call_column: the name of a column that tells of every row's call, "call" for instance:
        struct<call_id string, attempts int, elapsed_ms bigint, from_journal boolean, usage
        map<string,double>>. The sum of attempts and usage over rows is what the rows' calls were:
        where rows share a call, or one gives several rows, the first has them, and the others 0
        attempts and no usage.
    resource: a function without parameters that returns an (async) context manager, such as
        ``aiohttp.ClientSession``. It is opened in the worker, before the first call.
        engine="jvm" keeps it open for later tasks of the worker, engine="python" for one task.
    call_key: the columns that name a call, by default ``inputs``: rows that are equal in them ask
        the same. It makes :func:`call_id` the same in every run, and needs ``name``. Engine "jvm"
        only.
    share_calls: with True, or "task", rows that ask the same, and are in flight in one task, share
        one call. With "query" rows are shuffled first, so that all that ask the same come into one
        task: with a journal each call of a batch is then made once. Engine "jvm" only.
    journal: the path of a folder that keeps the answers of calls that succeeded: they are not made
        again after a task, an executor or the job has failed, nor by another run. In a stream True
        is a folder in its checkpoint. A :class:`Journal` also says how long answers count, and
        their version. It needs ``name``. Engine "jvm" only.
    carry_over: in a stream a micro-batch ends when its rows are taken in: calls go on between
        micro-batches, and a result leaves with the micro-batch after the one in which it came. The
        checkpoint has the calls in flight. A :class:`CarryOver` says more. It has no effect on a
        batch DataFrame. Engine "jvm" only.
    name: the operator's name in plans, metrics and messages; by default the function's name. With
        ``call_key`` or ``journal`` it must be given, since it is part of the ids of calls.
    engine: "jvm" (needs the jar, see :func:`configure`; on Spark Connect the server's plugin),
        "python" (needs nothing), or "auto": "jvm" where it is there.

    Raises :class:`InvalidOption`, :class:`InvalidSchema`, :class:`InvalidFunction` or
    :class:`EngineUnavailable`, before any job is started.
    """
    check_choice("engine", engine, Engine)
    options = given_options(locals())
    return _plan(df, function, resource, returns, options, engine)


def _plan(
    df: DataFrame,
    function: Function,
    resource: Callable[[], Any] | None,
    returns: StructType | str | type[Any],
    options: AsyncOptions,
    engine: str,
) -> DataFrame:
    from .._arrow.schema import (
        as_nullable,
        is_case_sensitive,
        output_schema,
        parse_returns,
        select_inputs,
    )

    check_frame(df)
    if df.isStreaming:
        _check_waits(options)
        warn_without_timeout("async_io", options.name, options.timeout)
    schema = df.schema
    sensitive = is_case_sensitive(df.sparkSession)
    columns = parse_returns(returns, df.sparkSession)
    inputs = select_inputs(schema, options.inputs, sensitive)
    added = columns if options.on_error == "raise" else as_nullable(columns)
    output = output_schema(schema, added, options.added_columns(schema.names), sensitive)
    check_call_key(options, schema, inputs, df.isStreaming, sensitive)
    by = key_columns(schema, options.by, sensitive)
    for key in options.keys_of_limits:
        key_columns(schema, (key,), sensitive, "limit.key")
    door = _door_to_jvm(df, function, engine)
    identity = identify(df, options.name, columns, options.inputs)
    check_kind(function, options, resource)
    asked: Command | JvmFunction
    if isinstance(function, JvmFunction):
        asked = function
    else:
        asked = Command.of(function, options, resource, inputs, columns)
    if door is None:
        assert isinstance(asked, Command)
        refuse_for_python(options)
        from .python_engine import async_io_in_python

        return async_io_in_python(df, asked, options, output, identity)
    if not df.isStreaming:
        options = replace(options, carry_over=None)
    command = asked.dumps() if isinstance(asked, Command) else _of_estimators(options)
    spec = async_spec(options, asked, inputs, by, columns, identity)
    with reported():
        return door.async_io(df, command, spec)


def _of_estimators(options: AsyncOptions) -> bytes | None:
    """Return what a function of the JVM needs if others, in Python, say what its calls will use."""
    return b"" if options.estimators else None


def _check_waits(options: AsyncOptions) -> None:
    if options.ticketed and options.ticketed.on_pending == "wait" and options.carry_over is None:
        raise error("TICKETED_HOLDS_STREAM")


def _door_to_jvm(df: DataFrame, function: Function, engine: str) -> Door | None:
    """Return the door to the JVM; None where the Python engine runs the function."""
    if engine == "auto" and not isinstance(function, JvmFunction):
        return jvm_if_there(df.sparkSession)
    if engine != "python":
        return require_jvm(df.sparkSession)
    if isinstance(function, JvmFunction):
        raise error(
            "ENGINE_UNAVAILABLE",
            reason=f"{function.class_name} is a JVM function, and engine=python was asked for",
            advice='Use engine="jvm".',
        )
    return None
