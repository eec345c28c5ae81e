"""Harnesses for unit tests of functions, the call of an asynchronous function, and a fake service,
in plain Python, without Spark::

    harness = KeyedHarness(Fn(), by="k", schema="k string, t bigint, ts timestamp",
                           returns="k string", timestamp="ts")
    assert harness.process({"k": "a", "t": 1, "ts": start}) == [Row(k="a")]

The function runs on the runtime of the workers, so that state, TTL and timers behave alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from .._base.checks import check_count, check_name
from .._base.keywords import takes
from .._base.unknown_options import answers_unknown
from .._harness.harness import Harness as _Harness
from .._keyed.function import (
    ArrowKeyedProcessFunction,
    AsyncKeyedProcessFunction,
    KeyedProcessFunction,
)
from .._keyed.methods import check_kind
from .._keyed.options import RowKeywords
from .._keyed.surface import Timer
from .._keyed_async.options import AsyncRowKeywords
from .._metered.calls import CURRENT, Call, CallSite, RunningCall
from ..options import as_units
from .async_harness import AsyncHarness
from .service import FakeService

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["AsyncHarness", "AsyncKeyedHarness", "FakeService", "KeyedHarness", "Timer", "call"]

_OTHERS: dict[type, str] = {
    KeyedProcessFunction: "Use pb.testing.KeyedHarness.",
    AsyncKeyedProcessFunction: "Use pb.testing.AsyncKeyedHarness.",
    ArrowKeyedProcessFunction: "Test the column form on Spark, or its process with Arrow arrays.",
}


@takes(RowKeywords)
class KeyedHarness(_Harness):
    """One function over all its keys, with clocks that are moved by hand.

    ``process(row)`` runs a micro-batch of one row, ``run_micro_batch`` one of many: first its rows,
    then the timers that are due. Exceptions of the function are raised unchanged, and what
    Pillarbox refuses is the error that Spark would have, with operator, key, and row or timer. As
    on Spark, order is promised within a key only. For one thread only.

    Parameters
    ----------
    function: an object of a :class:`KeyedProcessFunction`; it is opened at once.
    by: the name or names of the key columns.
    schema, returns: the columns of the input and of the output, as DDL, a StructType or a
        class (see :func:`async_io`).
    timestamp: the column with a row's event time: a timestamp, or (for short tests) a bigint of
        epoch ms. Rows at or before the watermark are late and counted in ``late_rows``. It stands
        for ``timestamp=`` and for the watermark's column on Spark.
    processing_time: the start of that clock, in epoch ms or as a datetime.
    {keywords}

    Raises :class:`InvalidFunction`, :class:`InvalidOption`, :class:`InvalidSchema`, or
    :class:`StateError` for a declaration in ``open``; rows that do not fit raise
    :class:`ResultTypeMismatch`.
    """

    def __init__(
        self,
        function: KeyedProcessFunction,
        *,
        by: str | Sequence[str],
        schema: str | StructType | type[Any],
        returns: str | StructType | type[Any],
        processing_time: int | datetime = 0,
        **keywords: Unpack[RowKeywords],
    ) -> None:
        check_kind(function, KeyedProcessFunction, others=_OTHERS)
        super().__init__(function, by, schema, returns, processing_time, keywords)


@takes(AsyncRowKeywords)
class AsyncKeyedHarness(_Harness):
    """A :class:`KeyedHarness` for an asynchronous function.

    Its calls run on an event loop of the harness, only during methods such as ``process``. That has
    the clock of :class:`AsyncHarness`, which needs no time and begins at 0 with the harness.

    Parameters
    ----------
    function: an object of an :class:`AsyncKeyedProcessFunction`; it is opened at once.
    by, schema, returns, processing_time, order_by, time_sorted, side_outputs, on_late: as in
        :class:`KeyedHarness`.
    timestamp: as in :class:`KeyedHarness`.
    capacity, usage, timeout, retry, on_error, call_column, resource: as in
        :func:`process_keyed_async`.
    limit: as in :func:`process_keyed_async`; all scopes are that of one harness. No ``adaptive``
        and no ``breaker``; one of another ``unit`` than calls holds nothing back.
    budget, call_key: refused; only Spark has what they need.

    Raises as :class:`KeyedHarness`, and :class:`CallFailed` for a call that timed out.
    """

    def __init__(
        self,
        function: AsyncKeyedProcessFunction,
        *,
        by: str | Sequence[str],
        schema: str | StructType | type[Any],
        returns: str | StructType | type[Any],
        processing_time: int | datetime = 0,
        **keywords: Unpack[AsyncRowKeywords],
    ) -> None:
        check_kind(function, AsyncKeyedProcessFunction, others=_OTHERS)
        super().__init__(function, by, schema, returns, processing_time, keywords, makes_calls=True)


@answers_unknown
@contextmanager
def call(
    id: str | Sequence[str] = "test",
    *,
    attempt: int = 1,
    operator: str = "test",
    usage: str | Sequence[str] = (),
) -> Iterator[Call]:
    """Answer :func:`call_id` and :func:`current_call` in a unit test of a function::

        with pb.testing.call("order 7"):
            assert asyncio.run(charge(Row(id=7))) == "order 7 is paid"

    Works in the thread, the coroutines and the threads of ``asyncio.to_thread`` that begin inside.
    Raises :class:`InvalidOption`.

    Parameters
    ----------
    id: the call's id; a list of them is a call in the batch form, by its rows.
    attempt: the number of the attempt, from 1.
    operator: the operator's name.
    usage: the operator's units. What the function reports is in the call's ``usage``; a report of
        another unit, or of what is no amount, is a UserWarning.
    """
    ids = tuple(id) if isinstance(id, (list, tuple)) else (id,)
    for one in ids or ("",):
        check_name("id", one, "order 7", "an id, or a list of them")
    check_count("attempt", attempt, 2)
    check_name("operator", operator, "charge")
    running = RunningCall(
        CallSite(operator, as_units(usage), noted=_warn),
        elements=tuple(range(len(ids))),
        attempts=(attempt,) * len(ids),
        names=ids,
        is_group=isinstance(id, (list, tuple)),
    )
    token = CURRENT.set(running)
    try:
        yield Call(running)
    finally:
        CURRENT.reset(token)


def _warn(kind: str, text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=2)
