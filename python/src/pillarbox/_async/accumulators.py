"""Spark's accumulators, in functions that are called from several threads."""

from __future__ import annotations

import threading
from typing import Any

from pyspark.accumulators import Accumulator

_lock = threading.Lock()


def make_thread_safe() -> None:
    """From now on nothing is lost that threads of this process add at the same time. Idempotent.

    An accumulator that was added to has the attribute ``is_touched``.
    """
    Accumulator.add = _add  # type: ignore[method-assign]


def _add(self: Any, term: Any) -> None:
    with _lock:
        self._value = self.accum_param.addInPlace(self._value, term)
        self.is_touched = True
