"""The supported releases of PySpark, and the differences between them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from ..errors import error

# The minor releases, oldest first. Each has a jar of its own, which its patch releases share.
SUPPORTED = ("4.0", "4.1", "4.2", "4.3")


def line_of(version: str) -> str:
    """Return the minor release of a version: "4.2" of "4.2.1"."""
    return ".".join(version.split(".")[:2])


def installed() -> str:
    """Return the minor release of the installed PySpark."""
    from pyspark.version import __version__

    return line_of(__version__)


def require_supported() -> None:
    """Raise ``EngineUnavailable`` (PYSPARK_MISSING, PYSPARK_UNSUPPORTED) for another PySpark."""
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
    """Return the argument of PySpark's type conversions for UTC, which Spark 4.2 has renamed."""
    if "timezone" in inspect.signature(convert).parameters:
        return {"timezone": "UTC"}
    return {"timestamp_utc": True}


def set_task_context(**fields: Any) -> None:
    """Set the task's context. Its constructor takes such fields only since Spark 4.2."""
    from pyspark.taskcontext import TaskContext

    TaskContext._setTaskContext(None)  # type: ignore[arg-type]
    context = TaskContext._getOrCreate()
    for name, value in fields.items():
        setattr(context, f"_{name}", value)


class _NoType:
    """A placeholder for a type that this PySpark lacks; nothing is an instance of it."""


def sql_type(name: str) -> Any:
    """Return the class of that name in ``pyspark.sql.types``, or a class without instances.

    Spark 4.0, for example, lacks ``TimeType`` and ``GeographyType``.
    """
    from pyspark.sql import types

    return getattr(types, name, _NoType)
