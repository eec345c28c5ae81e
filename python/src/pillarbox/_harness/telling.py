"""The errors of a harness that are not exceptions of the function, as Spark tells them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .._base.failures import Told
from .._base.report import report_of, told_as
from .._keyed.runtime import KeyedRuntime
from ..errors import PillarboxError


@contextmanager
def telling(runtime: KeyedRuntime) -> Iterator[None]:
    """Let Pillarbox's errors name operator, key, and row or timer, and end the round.

    Exceptions of the function, and errors outside of rows and timers, are left as they are.
    """
    try:
        yield
    except (PillarboxError, Told) as problem:
        if runtime.context._key_index is None:
            raise
        report = report_of(runtime.failed(problem), f"process_keyed({runtime.context._name})")
        if isinstance(problem, Told):
            raise report.to_error() from problem.__cause__
        told_as(problem, report)
        raise
    finally:
        runtime.end()
