"""Spark's accumulators in a worker that keeps functions from task to task.

Spark's own worker makes them anew for each task, with the function. Here they are reset to zero for
each task, and its updates are sent once, at its end.
"""

from __future__ import annotations

import copy
import weakref
from typing import Any

from pyspark import accumulators
from pyspark.serializers import CPickleSerializer

from .._async.accumulators import make_thread_safe
from .._base.failures import kind_of, message_of
from ..errors import error

# The value and parameter as they came, since a parameter may return the same object as every zero.
_zeros: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def begin_task() -> None:
    """Set all accumulators to zero, and drop those that no function has any more."""
    make_thread_safe()
    registry: dict[int, Any] = accumulators._accumulatorRegistry
    held = {aid: weakref.ref(accumulator) for aid, accumulator in registry.items()}
    registry.clear()
    for aid, reference in held.items():
        accumulator = reference()
        if accumulator is not None:
            registry[aid] = accumulator
            _reset(accumulator)


def note_loaded() -> None:
    """Keep the zeros of accumulators that came with a function, before it is called."""
    for accumulator in accumulators._accumulatorRegistry.values():
        if accumulator not in _zeros:
            _zeros[accumulator] = copy.deepcopy((accumulator._value, accumulator.accum_param))


def _reset(accumulator: Any) -> None:
    accumulator.is_touched = False
    zero = _zeros.get(accumulator)
    if zero is None:  # the function itself has loaded it, out of a broadcast for instance
        accumulator._value = accumulator.accum_param.zero(accumulator._value)
    else:
        accumulator._value, accumulator.accum_param = copy.deepcopy(zero)


def updates() -> list[bytes]:
    """Return the updates of this task in the format of Spark's driver.

    Raises ``WorkerFailed`` (ACCUMULATOR_NOT_SENT) for a value that can't be pickled.
    """
    registry: dict[int, Any] = accumulators._accumulatorRegistry
    added = [(aid, one) for aid, one in list(registry.items()) if getattr(one, "is_touched", False)]
    try:
        return [_pickled((aid, one._value)) for aid, one in added]
    except Exception as problem:
        raise error(
            "ACCUMULATOR_NOT_SENT", kind=kind_of(problem), reason=message_of(problem)
        ) from problem


def _pickled(update: tuple[int, Any]) -> bytes:
    data: bytes = CPickleSerializer().dumps(update)  # type: ignore[no-untyped-call]
    return data
