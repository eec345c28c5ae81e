"""The event loop of a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import PillarboxError, error

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop where that is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def complete(
    loop: asyncio.AbstractEventLoop, work: Awaitable[T], stopped: Callable[[], BaseException]
) -> T:
    """Run ``loop`` until ``work`` is done. Raises ``stopped()`` if a function stops it before."""
    future = asyncio.ensure_future(work, loop=loop)
    try:
        return loop.run_until_complete(future)
    except RuntimeError as problem:
        if future.done() or isinstance(problem, PillarboxError):
            raise
        raise stopped() from None


async def abandon_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all other tasks before ``loop`` is closed, and wait for them for a second.

    Later errors of tasks that don't stop are ignored.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=1.0)
    await loop.shutdown_asyncgens()
    loop.set_exception_handler(lambda loop, context: None)


def stopped_loop() -> PillarboxError:
    """Return FUNCTION_EXITED for a function that has stopped the event loop of all calls."""
    return error("FUNCTION_EXITED", kind="loop.stop()", reason="it stopped the event loop")
