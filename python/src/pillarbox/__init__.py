"""Async I/O and keyed process functions, with timers and expiring state, for PySpark.

    import pillarbox as pb
    spark = pb.configure(SparkSession.builder).getOrCreate()
    flights.transform(pb.async_io, weather, returns="temp double, wind double")

This module holds the public names and nothing else. It is imported in every Python worker, so
nothing heavy may be imported by it: Spark's SQL API, Arrow and the engines load on first use.
"""

from ._async_io import async_io
from ._calls import call_id, call_ids
from ._configure import configure
from ._functions import JvmFunction, jvm_function
from ._version import __version__
from .errors import (
    CallFailed,
    EngineUnavailable,
    InvalidFunction,
    InvalidOption,
    InvalidSchema,
    NoCurrentCall,
    PillarboxError,
    ResultTypeMismatch,
    StateError,
    WorkerFailed,
)
from .retry import Retry, RetryAfter

__all__ = [
    "CallFailed",
    "EngineUnavailable",
    "InvalidFunction",
    "InvalidOption",
    "InvalidSchema",
    "JvmFunction",
    "NoCurrentCall",
    "PillarboxError",
    "ResultTypeMismatch",
    "Retry",
    "RetryAfter",
    "StateError",
    "WorkerFailed",
    "__version__",
    "async_io",
    "call_id",
    "call_ids",
    "configure",
    "jvm_function",
]
