"""An event loop whose clock jumps to the next timer: latencies of hours, tests of milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.BaseSelector):
    def __init__(self, real: selectors.BaseSelector, loop: VirtualClockLoop) -> None:
        self._real = real
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everything waits, and no timer will ever wake it")
        self._loop.now += max(timeout, 0)
        return self._real.select(0)

    def register(self, *arguments: Any) -> Any:
        return self._real.register(*arguments)

    def unregister(self, *arguments: Any) -> Any:
        return self._real.unregister(*arguments)

    def modify(self, *arguments: Any) -> Any:
        return self._real.modify(*arguments)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """``time()`` moves only when nothing is left to run; no thread may be waited for."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(selectors.DefaultSelector(), self))

    def time(self) -> float:
        return self.now


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Runs ``work`` to its end under a virtual clock that starts at 0."""
    loop = VirtualClockLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
