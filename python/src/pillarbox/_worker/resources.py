"""Resources of functions, kept open from task to task, and closed at the worker's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .._async.call_context import CallContext
from .._async.resources import OpenResource
from .lru_cache import FunctionKey, LruCache

_KEPT = 16


class ResourceCache:
    """The open resources, 16 at most (see ``LruCache``); those of the last task are among them.

    All methods belong to the thread of the event loop.
    """

    def __init__(self) -> None:
        self._open: LruCache[OpenResource] = LruCache(_KEPT)

    @property
    def bytes(self) -> int:
        """The size of the functions of all resources, as pickled."""
        return self._open.bytes

    async def get(
        self, key: FunctionKey, pickled_bytes: int, factory: Callable[[], Any]
    ) -> tuple[Any, CallContext]:
        """The open resource of ``key``, and the context variables as it has set them.

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
        """Closes what is kept beyond the bounds, within a second."""
        await _close(self._open.take_surplus(), 1.0)

    async def close_all(self, limit_s: float) -> None:
        """Closes everything, all at the same time; gives up after ``limit_s``."""
        await _close(self._open.take_all(), limit_s)


async def _close(holders: list[OpenResource], limit_s: float) -> None:
    await asyncio.gather(*(holder.close(limit_s) for holder in holders))
