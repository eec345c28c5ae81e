"""A function for Spark's own workers, which tells what they lack.

This module can be imported where PyArrow can't.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .._base.functions import pickled
from .._base.report import report_of
from ..errors import error

Function = Callable[[Iterator[Any]], Iterator[Any]]


class Guarded:
    """Calls ``function``. If it can't be unpickled for want of a module, the error says where.

    Spark's worker unpickles it before it imports PyArrow for itself.
    """

    def __init__(self, function: Function, operator: str) -> None:
        self._function = function
        self._operator = operator

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        return self._function(batches)

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, (pickled(self._function, self._operator), self._operator)


def _loaded(content: bytes, operator: str) -> Function:
    try:
        function: Function = pickle.loads(content)
    except ImportError as problem:
        told = error("WORKER_IMPORT_FAILED", reason=problem, python=sys.executable)
        raise report_of(told, operator).to_raise() from None
    return function
