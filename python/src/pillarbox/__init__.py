"""Async I/O and keyed process functions, with timers and expiring state, for PySpark.

    import pillarbox as pb
    spark = pb.configure(SparkSession.builder).getOrCreate()
    flights.transform(pb.async_io, weather, returns="temp double, wind double")

This module holds the public names and nothing else. Every Python worker imports it, so Spark's SQL
API, Arrow, the engines and the submodules ``columns`` (helpers of the column form) and ``testing``
load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ._base.spark_versions import require_supported

require_supported()  # first, since another PySpark may fail in the imports below

from ._async.function import AsyncFunction, AsyncOpenContext
from ._async.ticketed import Ticketed
from ._base.functions import JvmFunction
from ._driver.async_io import async_io
from ._driver.async_udf import AsyncUdf, async_udf
from ._driver.configure import configure
from ._driver.estimate import Estimate, estimate
from ._driver.failed import failed, succeeded
from ._driver.failure_of import failure_of
from ._driver.process_keyed import (
    main_output,
    process_keyed,
    process_keyed_arrow,
    process_keyed_async,
    side_output,
)
from ._driver.progress import progress
from ._driver.read_offsets import read_offsets
from ._driver.read_state import read_state
from ._driver.scan import scan
from ._driver.stored_journal import purge_journal, read_journal
from ._driver.tagged_union import tagged_union
from ._driver.usage import usage
from ._keyed.aggregate import AggregateFunction
from ._keyed.arrow import ArrowContext, ArrowState
from ._keyed.function import (
    ArrowKeyedProcessFunction,
    AsyncKeyedProcessFunction,
    KeyedProcessFunction,
)
from ._keyed.opening import OpenContext
from ._keyed.options import TIMERS, WAITING_ROWS
from ._keyed.surface import (
    AggregatingState,
    AsyncContext,
    Context,
    ListState,
    MapState,
    ReducingState,
    Timer,
    Timers,
    ValueState,
)
from ._keyed.ttl import StateTtl
from ._metered.calls import Call, call_id, current_call
from ._metered.limit_headers import limit_from
from ._version import __version__
from .budgets import Budget
from .errors import (
    CallFailed,
    EngineUnavailable,
    InvalidFunction,
    InvalidOption,
    InvalidSchema,
    NoCurrentCall,
    NoSuchColumn,
    PillarboxError,
    ResultTypeMismatch,
    StateError,
    WorkerFailed,
)
from .options import Backend, BatchSize, Breaker, CarryOver, ErrorColumn, Journal, Limit, Timeout
from .retry import NotRetryable, Retry, RetryAfter, transient

__all__ = [
    "TIMERS",
    "WAITING_ROWS",
    "AggregateFunction",
    "AggregatingState",
    "ArrowContext",
    "ArrowKeyedProcessFunction",
    "ArrowState",
    "AsyncContext",
    "AsyncFunction",
    "AsyncKeyedProcessFunction",
    "AsyncOpenContext",
    "AsyncUdf",
    "Backend",
    "BatchSize",
    "Breaker",
    "Budget",
    "Call",
    "CallFailed",
    "CarryOver",
    "Context",
    "EngineUnavailable",
    "ErrorColumn",
    "Estimate",
    "InvalidFunction",
    "InvalidOption",
    "InvalidSchema",
    "Journal",
    "JvmFunction",
    "KeyedProcessFunction",
    "Limit",
    "ListState",
    "MapState",
    "NoCurrentCall",
    "NoSuchColumn",
    "NotRetryable",
    "OpenContext",
    "PillarboxError",
    "ReducingState",
    "ResultTypeMismatch",
    "Retry",
    "RetryAfter",
    "StateError",
    "StateTtl",
    "Ticketed",
    "Timeout",
    "Timer",
    "Timers",
    "ValueState",
    "WorkerFailed",
    "__version__",
    "async_io",
    "async_udf",
    "call_id",
    "configure",
    "current_call",
    "estimate",
    "failed",
    "failure_of",
    "limit_from",
    "main_output",
    "process_keyed",
    "process_keyed_arrow",
    "process_keyed_async",
    "progress",
    "purge_journal",
    "read_journal",
    "read_offsets",
    "read_state",
    "scan",
    "side_output",
    "succeeded",
    "tagged_union",
    "transient",
    "usage",
]

_MODULES = ("columns", "testing")

if TYPE_CHECKING:
    from . import columns as columns
    from . import testing as testing
else:  # a __getattr__ that type checkers see would hide every misspelt name

    def __getattr__(name):
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name.startswith("__"):  # who asks for such a name has not misspelt one
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ._base.names import nearest

        meant = nearest(name, __dir__())
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; the nearest is {meant!r}"
        )


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]
