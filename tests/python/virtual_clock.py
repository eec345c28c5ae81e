"""Runs coroutines on the loop of ``pb.testing.AsyncHarness``: hours of waiting, no time."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from pillarbox._harness.virtual_loop import VirtualLoop

T = TypeVar("T")


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Runs ``work`` to its end under a virtual clock that starts at 0."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
