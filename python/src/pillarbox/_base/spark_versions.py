"""The releases of PySpark that are supported, and what differs between them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from ..errors import error

#: The minor releases, oldest first. Each has a jar of its own; patch releases share it.
SUPPORTED = ("4.0", "4.1", "4.2", "4.3")


def line_of(version: str) -> str:
    """The minor release of a version: "4.2" of "4.2.1"."""
    return ".".join(version.split(".")[:2])


def installed() -> str:
    """The minor release of the PySpark that is installed."""
    from pyspark.version import __version__

    return line_of(__version__)


def require_supported() -> None:
    """Raises ``EngineUnavailable`` (PYSPARK_MISSING, PYSPARK_UNSUPPORTED) unless the installed
    PySpark is one."""
    after = f"4.{int(SUPPORTED[-1].split('.')[1]) + 1}"
    told = {"oldest": SUPPORTED[0], "newest": SUPPORTED[-1], "after": after}
    try:
        from pyspark.version import __version__
    except ModuleNotFoundError:
        raise error("PYSPARK_MISSING", **told) from None
    if line_of(__version__) not in SUPPORTED:
        raise error("PYSPARK_UNSUPPORTED", found=__version__, **told)


@cache
def in_utc(convert: Callable[..., Any]) -> dict[str, Any]:
    """The argument that tells PySpark's conversion of types to Arrow that timestamps are in UTC;
    Spark 4.2 renamed it."""
    if "timezone" in inspect.signature(convert).parameters:
        return {"timezone": "UTC"}
    return {"timestamp_utc": True}


def set_task_context(**fields: Any) -> None:
    """Makes a context with these fields the task's. Its constructor takes them since Spark 4.2."""
    from pyspark.taskcontext import TaskContext

    TaskContext._setTaskContext(None)  # type: ignore[arg-type]
    context = TaskContext._getOrCreate()
    for name, value in fields.items():
        setattr(context, f"_{name}", value)


class _NoType:
    """Stands for a type that this PySpark doesn't have: no column is one."""


def sql_type(name: str) -> Any:
    """The class of that name in ``pyspark.sql.types``. Where this PySpark lacks it, as Spark 4.0
    lacks ``TimeType`` and ``GeographyType``, one that nothing is an instance of."""
    from pyspark.sql import types

    return getattr(types, name, _NoType)
