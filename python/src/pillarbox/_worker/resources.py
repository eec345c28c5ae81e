"""The resources of functions, which stay open from task to task until the worker ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .._async.call_context import CallContext
from .._async.resources import OpenResource
from .lru_cache import FunctionKey, LruCache

_KEPT = 16


class ResourceCache:
    """The open resources, 16 at most (see ``LruCache``). On the event loop's thread only."""

    def __init__(self) -> None:
        self._open: LruCache[OpenResource] = LruCache(_KEPT)

    @property
    def bytes(self) -> int:
        """The pickled size of the functions of all resources."""
        return self._open.bytes

    async def get(
        self, key: FunctionKey, pickled_bytes: int, factory: Callable[[], Any]
    ) -> tuple[Any, CallContext]:
        """Return the open resource of ``key``, and the context variables that it has set.

        Raises ``WorkerFailed`` if ``factory`` fails to open it.
        """
        holder = self._open.get(key)
        if holder is not None and holder.has_ended:
            self._open.pop(key)
            holder = None
        if holder is None:
            holder = OpenResource(factory)
            await holder.open()
            self._open.put(key, key, pickled_bytes, holder)
        assert holder.call_context is not None
        return holder.value, holder.call_context

    async def close_surplus(self) -> None:
        """Close the resources beyond the bounds, within a second."""
        await _close(self._open.take_surplus(), 1.0)

    async def close_all(self, limit_s: float) -> None:
        """Close all resources at the same time; give up after ``limit_s``."""
        await _close(self._open.take_all(), limit_s)


async def _close(holders: list[OpenResource], limit_s: float) -> None:
    await asyncio.gather(*(holder.close(limit_s) for holder in holders))
