"""The event loop of a test harness, and the resource that is open on it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from .._async.event_loop import abandon_tasks, complete, new_event_loop, stopped_loop
from .._async.resources import OpenResource

T = TypeVar("T")
_CLOSE_LIMIT_S = 2.0


class HarnessLoop:
    """An event loop that runs only while there is work. It is closed when it is collected."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = new_event_loop() if loop is None else loop
        self._resource: OpenResource | None = None
        weakref.finalize(self, self._loop.close)

    def run(self, work: Awaitable[T]) -> T:
        """Run ``work`` to its end. Raises ``WorkerFailed`` if it stops the loop."""
        if not _is_in_coroutine():
            return complete(self._loop, work, stopped_loop)
        # A thread runs one loop at a time.
        with ThreadPoolExecutor(1) as thread:
            context = copy_context()
            return thread.submit(context.run, complete, self._loop, work, stopped_loop).result()

    def open(self, resource: Callable[[], Any] | None) -> tuple[Any, Any]:
        """Open a resource, and return it and its call context. Raises ``WorkerFailed``."""
        if resource is None:
            return None, None
        self._resource = self.run(_opened(resource))
        return self._resource.value, self._resource.call_context

    def close(self) -> None:
        if self._resource is not None:
            self.run(self._resource.close(_CLOSE_LIMIT_S))
        self.run(abandon_tasks(self._loop))
        self._loop.close()


def _is_in_coroutine() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _opened(resource: Callable[[], Any]) -> OpenResource:
    opened = OpenResource(resource)
    await opened.open()
    return opened
