"""Resources of functions (client sessions, pools): opened once a worker, closed at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .._failures import kind_of, message_of
from .._functions import name_of
from ..errors import PillarboxError, error, shown
from .kept import FunctionKey, Kept
from .surroundings import Surroundings

_KEPT = 16


class ResourceCache:
    """The open resources, 16 at most (see ``Kept``); those of the last task are among them.

    All methods belong to the thread of the event loop.
    """

    def __init__(self) -> None:
        self._open: Kept[OpenResource] = Kept(_KEPT)

    @property
    def bytes(self) -> int:
        """What the functions of all resources have, as pickled."""
        return self._open.bytes

    async def get(
        self, key: FunctionKey, pickled_bytes: int, factory: Callable[[], Any]
    ) -> tuple[Any, Surroundings]:
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
        assert holder.surroundings is not None
        return holder.value, holder.surroundings

    async def close_surplus(self) -> None:
        """Closes what is kept beyond the bounds, within a second."""
        await _close(self._open.take_surplus(), 1.0)

    async def close_all(self, limit_s: float) -> None:
        """Closes everything, all at the same time; gives up after ``limit_s``."""
        await _close(self._open.take_all(), limit_s)


async def _close(holders: list[OpenResource], limit_s: float) -> None:
    await asyncio.gather(*(holder.close(limit_s) for holder in holders))


class OpenResource:
    """Keeps one context manager open in a task of its own.

    Some libraries demand that a context is left by the task that entered it. ``surroundings`` are
    the context variables as they were when ``value`` had been opened.
    """

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory
        self._close = asyncio.Event()
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.value: Any = None
        self.surroundings: Surroundings | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is closed, perhaps by itself: something has cancelled its task."""
        return self._task is not None and self._task.done()

    async def open(self) -> None:
        """Raises ``WorkerFailed`` if that fails."""
        self._task = asyncio.get_running_loop().create_task(self._hold())
        self.value = await self._opened

    async def close(self, limit_s: float) -> None:
        """Gives up after ``limit_s``. Idempotent."""
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
        self.surroundings = Surroundings()
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
                kind=kind_of(problem),
                reason=message_of(problem),
            )
            failed.__cause__ = problem
            self._opened.set_exception(failed)
