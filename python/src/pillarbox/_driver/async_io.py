"""``async_io``: one asynchronous call a row, many in flight, on a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._async.command import Command, check_function, check_resource
from .._async.options import (
    AsyncOptions,
    Duration,
    Engine,
    Journal,
    OnError,
    Scope,
    check_engine,
    refuse_for_python,
)
from .._base.checks import check_frame, needs_other
from .._base.functions import JvmFunction, is_async, name_of
from ..errors import error
from ..retry import Retry, transient
from .call_key import check_call_key
from .engine import jvm_if_there, require_jvm
from .identity import identify
from .keys import key_columns
from .specs import AsyncSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from .door import Door

Function = Callable[..., Any] | JvmFunction


def async_io(
    df: DataFrame,
    function: Function,
    *,
    returns: StructType | str,
    ordered: bool = True,
    capacity: int = 100,
    timeout: Duration | None = None,
    attempt_timeout: Duration | None = None,
    retry: Retry | None = None,
    on_error: OnError = "raise",
    error_column: str | None = None,
    resource: Callable[[], Any] | None = None,
    max_concurrency: int | None = None,
    rate_limit: str | None = None,
    adaptive: bool = False,
    scope: Scope | None = None,
    inputs: Sequence[str] | None = None,
    explode: bool = False,
    batch_size: int | None = None,
    batch_wait: Duration | None = None,
    carry_over: bool = False,
    max_lag: Duration | None = None,
    max_carried: int | None = None,
    slots: int | None = None,
    journal: Journal = None,
    call_key: str | Sequence[str] | None = None,
    journal_ttl: Duration | None = None,
    share_calls: bool = False,
    by: str | Sequence[str] | None = None,
    per_key: int | None = None,
    name: str | None = None,
    engine: Engine = "auto",
) -> DataFrame:
    """``df`` with the columns of ``returns`` added, answered by ``function`` for each row.

    Every row is answered exactly once in the output; a call may be made more than once (retries,
    tasks that Spark runs again), under the same :func:`call_id`. Works in batch and in Structured
    Streaming, and with ``df.transform(pb.async_io, function, ...)``.

    ``function`` is one of

    - ``async def f(row)``: a coroutine a row, on one event loop a worker: it must not block;
    - ``def f(row)``: runs in a pool of threads of the worker;
    - with ``batch_size``: ``async def f(rows)`` or ``def f(rows)``, which returns a list with one
      result a row, in the order of the rows;
    - :func:`jvm_function`: a Scala or Java ``AsyncFunction`` by class name (engine "jvm" only).

    With ``resource`` it takes the open resource as second parameter. A result is a dict, tuple,
    ``Row`` or dataclass with the columns of ``returns``, the bare value where there is just one
    column, or None for no match (nulls); with ``explode`` a list of such, one output row each.
    Results are checked strictly against ``returns``. Names of a dict that are not columns are
    left out, but one that nearly is the name of a missing column is an error; columns that are
    missing in it are null.

    Parameters
    ----------
    returns: the new columns, as a DDL string or StructType. One that is NOT NULL refuses null,
        also that of no match; in the output it still is nullable unless on_error is "raise".
    ordered: whether output rows keep the order of the input rows within a partition.
    capacity: rows in flight in one task, with those that are done but wait for their turn.
    timeout: for one row, over all its attempts and the waiting between them.
    attempt_timeout: for one attempt; what then happens is up to ``retry``.
    retry: a :class:`Retry`; without it one attempt is made.
    on_error: "raise" fails the task; "null" leaves the new columns null; "column" does so too and
        adds ``error_column`` ("error" by default): struct<kind, message, attempts, elapsed_ms>,
        null for good rows.
    resource: a function without parameters that gives an (async) context manager, such as
        ``aiohttp.ClientSession``. It is opened in the worker, before the first call.
        engine="jvm" keeps it open for later tasks of the worker, engine="python" for one task.
    max_concurrency: calls in flight of this operator within ``scope``.
    rate_limit: calls started by this operator within ``scope``, such as "50 per second".
    scope: what these two count together: "task", "executor" (all tasks of the operator in one
        executor, the default), or "query" (all executors, in one streaming query or one action of
        a batch).
    adaptive: whether the limit falls below max_concurrency while the service is overloaded, and
        rises again: overloaded by :class:`RetryAfter`, timeouts, and HTTP statuses 429 and 503.
    inputs: the columns that the function sees; all by default. Others pass by untouched.
    batch_size, batch_wait: the most rows of a batch call, and how long its first row waits for
        company ("10ms" by default).
    carry_over: in a stream, whether a micro-batch ends when its rows are taken in: calls go on
        between micro-batches, and a result leaves with the micro-batch after the one in which it
        came. What is in flight is in the checkpoint. No effect on a batch DataFrame. Engine "jvm"
        only.
    max_lag: with carry_over, once the oldest row is in flight for longer than this ("30s" by
        default), a micro-batch with rows waits for it. A call that may hang needs ``timeout``.
    max_carried: with carry_over and ordered, how many rows of a slot may be in flight or wait
        behind a slow one (10 times the capacity by default).
    slots: with carry_over, into how many parts the rows are divided, without a shuffle; each may
        have ``capacity`` calls in flight. By default as many as tasks run at a time. The
        checkpoint keeps the number.
    journal: the path of a folder that keeps the answers of calls that succeeded: they are not made
        again after a task, an executor or the job has failed, nor by another run. True, in a
        stream: a folder in its checkpoint. Engine "jvm" only.
    call_key: with journal or share_calls, the columns that name a call, by default ``inputs``: rows
        that are equal in them have one answer.
    journal_ttl: how long answers in the journal count; by default for ever.
    share_calls: rows with one key that are in flight in one task share one call. Engine "jvm" only.
    by: columns of a key. Rows are shuffled by it, as in :func:`process_keyed`, and ``ordered``
        means within a key: rows of other keys pass. Engine "jvm" only.
    per_key: with by, how many calls of a key are in flight at a time.
    name: what plans, metrics and messages call this operator; by default the function's name.
    engine: "jvm" (needs the jar, see :func:`configure`; on Spark Connect the server's plugin),
        "python" (needs nothing), or "auto": "jvm" where it is there.

    Raises :class:`InvalidOption`, :class:`InvalidSchema`, :class:`InvalidFunction` or
    :class:`EngineUnavailable`, before any job is started.
    """
    check_engine(engine)
    check_resource(resource)
    check_function(function, resource is not None, batch_size is not None)
    options = AsyncOptions(
        ordered=ordered,
        capacity=capacity,
        timeout=timeout,
        attempt_timeout=attempt_timeout,
        retry=retry,
        on_error=on_error,
        error_column=error_column,
        max_concurrency=max_concurrency,
        rate_limit=rate_limit,
        adaptive=adaptive,
        scope=scope,
        inputs=inputs,
        explode=explode,
        batch_size=batch_size,
        batch_wait=batch_wait,
        carry_over=carry_over,
        max_lag=max_lag,
        max_carried=max_carried,
        slots=slots,
        journal=journal,
        call_key=call_key,
        journal_ttl=journal_ttl,
        share_calls=share_calls,
        by=by,
        per_key=per_key,
        name=name_of(function) if name is None else name,
    )
    return _plan(df, function, resource, returns, options, engine)


def _plan(
    df: DataFrame,
    function: Function,
    resource: Callable[[], Any] | None,
    returns: StructType | str,
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
    schema = df.schema
    sensitive = is_case_sensitive(df.sparkSession)
    columns = parse_returns(returns, df.sparkSession)
    inputs = select_inputs(schema, options.inputs, sensitive)
    added = columns if options.on_error == "raise" else as_nullable(columns)
    output = output_schema(schema, added, options.added_error_column, sensitive)
    check_call_key(options, schema, inputs, df.isStreaming, sensitive)
    by = key_columns(schema, options.by_columns, sensitive)
    door = _door_to_jvm(df, function, engine)
    identity = identify(df, options.name, columns, options.inputs)
    asked: Command | JvmFunction
    if isinstance(function, JvmFunction):
        _refuse_python_options(options, resource)
        check_retry_on(options.retry, on_jvm=True)
        asked = function
    else:
        check_retry_on(options.retry, on_jvm=False)
        asked = Command(
            function=function,
            is_async=is_async(function),
            is_batch=options.batch_size is not None,
            resource=resource,
            retry=options.retry,
            input_schema=inputs,
            returns=columns,
        )
    if door is None:
        assert isinstance(asked, Command)
        refuse_for_python(options)
        from .python_engine import async_io_in_python

        return async_io_in_python(df, asked, options, output, identity)
    command = asked.dumps() if isinstance(asked, Command) else None
    spec = AsyncSpec(options, asked, inputs, by, columns, identity)
    return door.async_io(df, command, spec.to_spec())


def _door_to_jvm(df: DataFrame, function: Function, engine: str) -> Door | None:
    """None where the Python engine runs the function."""
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


def _refuse_python_options(options: AsyncOptions, resource: object) -> None:
    """A JVM function opens what it needs by itself, and judges results by itself."""
    refused = {
        "resource": resource,
        "batch_size": options.batch_size,
        "retry.if_result": options.retry and options.retry.if_result,
    }
    for option, value in refused.items():
        if value is not None:
            raise needs_other(option, value, "for a JVM function", f"Leave {option} out.")


def check_retry_on(retry: Retry | None, on_jvm: bool) -> None:
    """Exceptions of Python mean nothing to the JVM, and the other way round: ``InvalidOption``."""
    if retry is None or retry.on in (transient, Exception) or bool(retry.classes) == on_jvm:
        return
    if on_jvm:
        kind, advice = "JVM", 'Name Java classes, such as on="java.io.IOException".'
    else:
        kind = "Python"
        advice = "Pass exception types, such as on=(TimeoutError, ConnectionError)."
    raise needs_other("retry.on", retry.on, f"for a {kind} function", advice)
