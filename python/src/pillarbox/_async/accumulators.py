"""Spark's accumulators, in functions that are called from several threads."""

from __future__ import annotations

import threading
from typing import Any

from pyspark.accumulators import Accumulator

_lock = threading.Lock()


def make_thread_safe() -> None:
    """Make adding thread-safe in this process. Idempotent.

    Adding also sets the accumulator's attribute ``is_touched``.
    """
    Accumulator.add = _add  # type: ignore[method-assign]


def _add(self: Any, term: Any) -> None:
    with _lock:
        self._value = self.accum_param.addInPlace(self._value, term)
        self.is_touched = True
