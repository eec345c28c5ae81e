"""The function of an ``async_udf`` as Spark's own UDF, which the jar knows by its mark.

Spark pickles the function of a UDF, and knows nothing else of it: ``spark.udf.register`` makes a
new UDF of the function alone. So its pickle begins with a mark, a text with the operator's spec,
which ``MarkedUdf.scala`` reads. What is unpickled is a stand-in: Pillarbox's worker takes the
command out of it, and Spark's own worker, which calls it where the jar is missing, is told so.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

from .._version import __version__
from ..errors import CATALOGUE

MARK = "pillarbox.async_udf:"

# Spark broadcasts a command above a size, by default 1 MiB: the mark would be out of sight.
LARGE = 256 << 10


class Marked:
    """A function for ``UserDefinedFunction``. Pickling it is pickling its stand-in.

    ``dumps`` gives the command for the worker, when Spark makes the UDF.
    """

    __slots__ = ("__name__", "_dumps", "_told")

    def __init__(
        self, name: str, spec: dict[str, Any], deterministic: bool, dumps: Callable[[], bytes]
    ) -> None:
        self.__name__ = name
        # As a text: a jar of another version, which knows other fields, reads the version alone.
        self._told = {
            "version": __version__,
            "deterministic": deterministic,
            "spec": json.dumps(spec),
        }
        self._dumps = dumps

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Fail as the stand-in does."""
        _stand_in(self.__name__, b"")(*values, **named)

    def __reduce__(self) -> tuple[Any, ...]:
        command = self._dumps()
        made = _stand_in(self.__name__, _shared(command) if len(command) > LARGE else command)
        return operator.itemgetter(1), ((MARK + json.dumps(self._told), made),)


def _stand_in(name: str, command: Any) -> Callable[..., Any]:
    """Return the function that holds ``command``, and says what is missing when it is called.

    It is pickled by value, since Spark's own worker may lack this package.
    """
    words = CATALOGUE["ASYNC_UDF_NOT_PLANNED"]
    text = f"[ASYNC_UDF_NOT_PLANNED] {words['message']} {words['remedy']}".format(name=name)

    def stand_in(*values: Any, **named: Any) -> Any:
        raise RuntimeError(text)

    stand_in.__module__ = "__main__"
    stand_in.pillarbox_command = command  # type: ignore[attr-defined]
    return stand_in


def _shared(command: bytes) -> Any:
    """Return the command as a broadcast variable; on Spark Connect, which has none, itself."""
    from pyspark import SparkContext
    from pyspark.sql.utils import is_remote

    context = SparkContext._active_spark_context
    return command if context is None or is_remote() else context.broadcast(command)
