"""A harness for functions of ``async_io``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._arrow.fields import Place
from .._arrow.schema import (
    as_nullable,
    find_columns,
    output_schema,
    parse_returns,
    positions,
    select_inputs,
)
from .._async.command import Command
from .._async.function import AsyncFunction
from .._async.given import check_kind, given_options
from .._async.keywords import AsyncKeywords
from .._async.options import AsyncOptions, options_of_jvm, refuse_for_python
from .._async.ticketed import Ticketed
from .._base.functions import JvmFunction
from .._base.keywords import takes
from .._harness.async_task import AsyncPlan, run_task
from .._harness.columns import columns_of
from .._keyed.input_columns import check_binary, check_comparable
from .._keyed.output import row_acceptor
from .._metered.limit_keys import LimitKeys
from ..errors import error

if TYPE_CHECKING:
    from pyspark.sql.types import Row, StructType
    from typing_extensions import Unpack


@takes(AsyncKeywords)
class AsyncHarness:
    """A function of :func:`async_io` in a test, with a clock that needs no time::

        harness = AsyncHarness(price, schema="id bigint", returns="price double", retry=3)
        assert harness.run([{"id": 7}]) == [Row(id=7, price=3.0)]

    ``asyncio.sleep``, timeouts, back-offs and rates go by a virtual clock, ``loop.time()``, which
    begins at 0 in each run and jumps to the next time at which something is due. While a call runs
    in a thread, or a connection is open, it goes as fast as the real one. The function is not
    pickled, so it may write to objects of the test. For one thread only.

    Parameters
    ----------
    function: as in :func:`async_io`, but no :class:`JvmFunction` and no
        :class:`Ticketed`.
    schema: the columns of the rows, as DDL, a StructType or a class (see :func:`async_io`).
    returns, inputs, explode, batch_size, ordered, capacity, usage, timeout, retry, on_error,
        call_column, resource, name: as in :func:`async_io`.
    limit: as in :func:`async_io`, with ``key``; all scopes are that of one run. No scope="key", no
        ``adaptive``, no ``breaker``. One of another ``unit`` than calls holds nothing back.
    call_key: is checked; ids of calls are those of their rows' places.
    carry_over: has no effect, as on a batch DataFrame.
    budget, by, share_calls, journal: refused; only Spark has what they need.
    engine: with "python" the options are refused that this engine refuses.

    Raises :class:`InvalidOption`, :class:`InvalidSchema` or :class:`InvalidFunction`.
    """

    def __init__(
        self,
        function: Callable[..., Any] | AsyncFunction,
        *,
        schema: str | StructType | type[Any],
        returns: str | StructType | type[Any],
        **keywords: Unpack[AsyncKeywords],
    ) -> None:
        for kind in (JvmFunction, Ticketed):
            if isinstance(function, kind):
                raise error("HARNESS_NEEDS_SPARK", option=f"a pb.{kind.__name__}")
        options = given_options(function, keywords)
        check_kind(function, options)
        _refuse(options)
        rows = columns_of(schema)
        self._accept = row_acceptor(rows, Place(error="INPUT_TYPE_MISMATCH"))
        options = replace(options, carry_over=None)
        self._plan = _planned(function, options, rows, parse_returns(returns, None))

    def run(self, rows: Iterable[Any]) -> list[Row]:
        """Return the rows that come out for ``rows``, given as dicts, tuples, Rows or objects.

        The resource is opened before the first call, and closed after the last. With
        ``ordered=False`` rows come in the order in which their calls end. A further run has the
        same ids of calls, as a task that Spark runs again.

        Raises the function's own exception if a call fails for good under on_error="raise", or the
        resource's; and where no exception of theirs is the reason, the error that Spark would have:
        :class:`CallFailed` for a timeout, :class:`ResultTypeMismatch`, :class:`WorkerFailed`.
        """
        return run_task(self._plan, [self._accept(row) for row in rows])


def _refuse(options: AsyncOptions) -> None:
    if options.engine == "python":
        refuse_for_python(options)
    for option, _ in options_of_jvm(options):
        if option not in ("carry_over", "call_key", "limit.unit"):
            raise error("HARNESS_NEEDS_SPARK", option=option)


def _planned(
    function: Callable[..., Any] | AsyncFunction,
    options: AsyncOptions,
    schema: StructType,
    returns: StructType,
) -> AsyncPlan:
    keys = LimitKeys.of(schema, options.keys_of_limits, case_sensitive=False)
    for key in keys.columns.fields:
        check_comparable(key, "limit.key")
        check_binary(key)
    for key in find_columns(schema, options.call_key or (), "call_key", case_sensitive=False):
        check_comparable(key, "call_key")
    inputs = select_inputs(schema, options.inputs, case_sensitive=False)
    added = returns if options.on_error == "raise" else as_nullable(returns)
    return AsyncPlan(
        Command.of(function, options, inputs, returns),
        options,
        schema,
        positions(schema, options.inputs, inputs),
        keys,
        output_schema(schema, added, options.added_columns(schema.names), case_sensitive=False),
    )
