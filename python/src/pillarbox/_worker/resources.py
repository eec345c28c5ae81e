"""Resources of functions (client sessions, pools): opened once a worker, closed at its end."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from .._failures import message_of
from .._functions import name_of
from ..errors import PillarboxError, error, shown

_KEPT = 16


class ResourceCache:
    """At most 16 open resources by key; the one unused for longest makes room.

    All methods belong to the thread of the event loop.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[Hashable, _Holder] = OrderedDict()

    async def get(self, key: Hashable, factory: Callable[[], Any]) -> Any:
        """The open resource of ``key``. Raises ``WorkerFailed`` if ``factory`` fails to open it."""
        holder = self._open.get(key)
        if holder is None:
            holder = _Holder(factory)
            await holder.open()
            self._open[key] = holder
        self._open.move_to_end(key)
        while len(self._open) > _KEPT:
            _, oldest = self._open.popitem(last=False)
            await oldest.close(1.0)
        return holder.value

    async def close_all(self, limit_s: float) -> None:
        """Closes everything, all at the same time; gives up after ``limit_s``."""
        holders = list(self._open.values())
        self._open.clear()
        await asyncio.gather(*(holder.close(limit_s) for holder in holders))


class _Holder:
    """Keeps one context manager open in a task of its own.

    Some libraries demand that a context is left by the task that entered it.
    """

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory
        self._close = asyncio.Event()
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.value: Any = None

    async def open(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._hold())
        self.value = await self._opened

    async def close(self, limit_s: float) -> None:
        self._close.set()
        if self._task is not None:
            _, running = await asyncio.wait([self._task], timeout=limit_s)
            for task in running:
                task.cancel()

    async def _hold(self) -> None:
        try:
            manager = self._manager()
            if hasattr(manager, "__aenter__"):
                async with manager as value:
                    await self._serve(value)
            else:
                with manager as value:
                    await self._serve(value)
        except BaseException as problem:
            self._report(problem)

    async def _serve(self, value: Any) -> None:
        self._opened.set_result(value)
        await self._close.wait()

    def _manager(self) -> Any:
        manager = self._factory()
        if hasattr(manager, "__aenter__") or hasattr(manager, "__enter__"):
            return manager
        if asyncio.iscoroutine(manager):
            manager.close()
        raise error(
            "RESOURCE_NOT_CONTEXT_MANAGER",
            resource=name_of(self._factory),
            value=shown(manager),
            found=type(manager).__name__,
        )

    def _report(self, problem: BaseException) -> None:
        if self._opened.done():
            # Trouble while closing: the rows are done, so nobody waits for an answer.
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"closing {name_of(self._factory)} failed", "exception": problem}
            )
        elif isinstance(problem, PillarboxError):
            self._opened.set_exception(problem)
        else:
            failed = error(
                "RESOURCE_OPEN_FAILED",
                resource=name_of(self._factory),
                kind=type(problem).__name__,
                reason=message_of(problem),
            )
            failed.__cause__ = problem
            self._opened.set_exception(failed)
