"""Async I/O and keyed process functions, with timers and expiring state, for PySpark.

    import pillarbox as pb
    spark = pb.configure(SparkSession.builder).getOrCreate()
    flights.transform(pb.async_io, weather, returns="temp double, wind double")

This module holds the public names and nothing else. It is imported in every Python worker, so
nothing heavy may be imported by it: Spark's SQL API, Arrow and the engines load on first use, and
so do the submodules ``columns`` (helpers of the column form) and ``testing``.
"""

import importlib
from types import ModuleType

from ._async_io import async_io
from ._calls import call_id, call_ids
from ._configure import configure
from ._failure_of import failure_of
from ._functions import JvmFunction, jvm_function
from ._keyed.api import main_output, process_keyed, side_output
from ._keyed.function import AggregateFunction, BatchProcessFunction, KeyedProcessFunction
from ._keyed.scan import scan
from ._keyed.stored import TIMERS, WAITING_ROWS, read_state
from ._keyed.ttl import StateTtl
from ._version import __version__
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
from .retry import Retry, RetryAfter

__all__ = [
    "TIMERS",
    "WAITING_ROWS",
    "AggregateFunction",
    "BatchProcessFunction",
    "CallFailed",
    "EngineUnavailable",
    "InvalidFunction",
    "InvalidOption",
    "InvalidSchema",
    "JvmFunction",
    "KeyedProcessFunction",
    "NoCurrentCall",
    "NoSuchColumn",
    "PillarboxError",
    "ResultTypeMismatch",
    "Retry",
    "RetryAfter",
    "StateError",
    "StateTtl",
    "WorkerFailed",
    "__version__",
    "async_io",
    "call_id",
    "call_ids",
    "configure",
    "failure_of",
    "jvm_function",
    "main_output",
    "process_keyed",
    "read_state",
    "scan",
    "side_output",
]


def __getattr__(name: str) -> ModuleType:
    if name in ("columns", "testing"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
