"""What the driver's Python is told of failed calls, by an accumulator of Spark: it logs that.

A notebook shows the log. Spark receives accumulators in a thread of its own: the updates of tasks
when these have ended, and what the driver's JVM says at any time.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.accumulators import Accumulator

from .._metered.told import Collected, Lines

_LOG = logging.getLogger("pillarbox")
_MOST = 1000


class Logged(Collected):
    """Logs what comes, once for an operator and kind. In tasks it is ``Collected``."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return Collected, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Logged:
        """Return the same: a worker in the driver's process, as in tests, sets zeros to copies."""
        return self

    def addInPlace(self, value1: Lines, value2: Lines) -> Lines:
        """Log. A handler that fails must not end Spark's thread, which all accumulators need."""
        with contextlib.suppress(Exception):
            self._log(value2)
        return []

    def _log(self, lines: Lines) -> None:
        for line in lines:
            if isinstance(line, str):
                # The JVM has logged it where this process writes, unless that is changed.
                if _LOG.hasHandlers() or sys.stderr is not sys.__stderr__:
                    _LOG.warning("%s", line)
            elif line[:2] not in self._seen and len(self._seen) < _MOST:
                self._seen.add(line[:2])
                _LOG.warning("%s", line[2])


_accumulators: WeakKeyDictionary[Any, Accumulator[Lines]] = WeakKeyDictionary()


def accumulator_of(context: Any) -> Accumulator[Lines]:
    """Return the accumulator of a SparkContext, which logs what is added to it."""
    if context not in _accumulators:
        _accumulators[context] = context.accumulator([], Logged())
    return _accumulators[context]
