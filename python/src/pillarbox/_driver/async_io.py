"""``async_io``: one asynchronous call a row, many in flight, on a DataFrame."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._async.command import Command
from .._async.function import AsyncFunction
from .._async.given import check_kind, given_options
from .._async.keywords import AsyncKeywords
from .._async.options import AsyncOptions, refuse_for_python
from .._async.ticketed import Ticketed
from .._base.checks import check_frame
from .._base.functions import JvmFunction
from .._base.keywords import takes
from ..errors import error
from ..options import Timeout
from .engine import jvm_if_there, require_jvm
from .failure_of import reported
from .identity import identify
from .keys import check_call_key, key_columns
from .specs import async_spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType
    from typing_extensions import Unpack

    from .client import DriverClient

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


@takes(AsyncKeywords)
def async_io(
    df: DataFrame,
    function: Function,
    *,
    returns: StructType | str | type[Any],
    **keywords: Unpack[AsyncKeywords],
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
    {keywords}

    Raises :class:`InvalidOption`, :class:`InvalidSchema`, :class:`InvalidFunction` or
    :class:`EngineUnavailable`, before any job is started.
    """
    return _plan(df, function, returns, given_options(function, keywords))


def _plan(
    df: DataFrame,
    function: Function,
    returns: StructType | str | type[Any],
    options: AsyncOptions,
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
    by = key_columns(schema, options.by or (), sensitive)
    for key in options.keys_of_limits:
        key_columns(schema, (key,), sensitive, "limit.key")
    client = _client_of_jvm(df, function, options.engine)
    identity = identify(df, options.name, columns, options.inputs)
    check_kind(function, options)
    asked: Command | JvmFunction
    if isinstance(function, JvmFunction):
        asked = function
    else:
        asked = Command.of(function, options, inputs, columns)
    if client is None:
        assert isinstance(asked, Command)
        refuse_for_python(options)
        from .python_engine import async_io_in_python

        return async_io_in_python(df, asked, options, output, identity)
    if not df.isStreaming:
        options = replace(options, carry_over=None)
    command = asked.dumps() if isinstance(asked, Command) else _of_estimators(options)
    spec = async_spec(options, asked, inputs, by, columns, identity)
    with reported():
        return client.async_io(df, command, spec)


def _of_estimators(options: AsyncOptions) -> bytes | None:
    """Return what a function of the JVM needs if others, in Python, say what its calls will use."""
    return b"" if options.estimators else None


def _check_waits(options: AsyncOptions) -> None:
    if options.ticketed and options.ticketed.on_pending == "wait" and options.carry_over is None:
        raise error("TICKETED_HOLDS_STREAM")


def _client_of_jvm(df: DataFrame, function: Function, engine: str) -> DriverClient | None:
    """Return the clients of the JVM; None where the Python engine runs the function."""
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
