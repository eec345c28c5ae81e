"""A resource of a function (a client session, a pool), opened and closed in the worker."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from .._base.failures import kind_of, message_of
from .._base.functions import is_async, is_generator, name_of, takes
from .._base.values import shown_value
from ..errors import PillarboxError, error, shown
from .call_context import CallContext


class OpenResource:
    """Keeps one context manager open in its own task, since some libraries demand the same task.

    ``call_context`` has the context variables as opening ``value`` has left them.
    """

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory
        self._close = asyncio.Event()
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.value: Any = None
        self.call_context: CallContext | None = None

    @property
    def has_ended(self) -> bool:
        """True if it is closed, also if something has cancelled its task."""
        return self._task is not None and self._task.done()

    async def open(self) -> None:
        """Open it. Raises ``WorkerFailed`` if that fails."""
        self._task = asyncio.get_running_loop().create_task(self._hold())
        self.value = await self._opened

    async def close(self, limit_s: float) -> None:
        """Close it; give up after ``limit_s``. Idempotent."""
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
        self.call_context = CallContext()
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
            value=shown_value(manager),
            found=type(manager).__name__,
        )

    def _report(self, problem: BaseException) -> None:
        if self._opened.done():
            # Closing has failed: the rows are done, so nobody waits for an answer.
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


def check_resource(option: str, resource: object) -> None:
    """Raise ``InvalidFunction`` unless ``resource`` can be called, and may give a manager.

    The conditions are RESOURCE_NOT_CALLABLE and RESOURCE_WITHOUT_DECORATOR.
    """
    if not callable(resource):
        raise error("RESOURCE_NOT_CALLABLE", value=shown(resource))
    if not takes(resource, 0):
        signature = f"{name_of(resource)}{inspect.signature(resource)}"
        raise error("RESOURCE_NOT_CALLABLE", value=signature)
    for is_one, gives in ((is_async, "a coroutine"), (is_generator, "a generator")):
        if is_one(resource):
            raise error("RESOURCE_WITHOUT_DECORATOR", resource=name_of(resource), gives=gives)
