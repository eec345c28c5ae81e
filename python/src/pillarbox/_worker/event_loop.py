"""The event loop of a worker, whose timers are exact to less than a millisecond."""

from __future__ import annotations

import asyncio
import select
import selectors


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop where that is installed, else asyncio's own with exact timers."""
    try:
        import uvloop
    except ImportError:
        if hasattr(select, "epoll"):
            return asyncio.SelectorEventLoop(ExactEpollSelector())
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def abandon_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Before ``loop`` is closed: cancels all tasks but this one, and waits for them for a second.

    What does not stop is no longer told of: its end has no consequence any more.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=1.0)
    await loop.shutdown_asyncgens()
    loop.set_exception_handler(lambda loop, context: None)


if hasattr(select, "epoll"):

    class ExactEpollSelector(selectors.EpollSelector):
        """Waits with ``select(2)`` on epoll's own descriptor, which counts in microseconds.

        ``epoll_wait`` counts in milliseconds and Python rounds up, so that every timer of a loop
        over it is half a millisecond late on average: one hundredth of a call of 50 ms.
        """

        _FD_SETSIZE = 1024

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """As ``EpollSelector.select``; ``timeout`` in seconds, None for no limit."""
            if timeout is not None and timeout > 0 and self.fileno() < self._FD_SETSIZE:
                readable, _, _ = select.select((self.fileno(),), (), (), timeout)
                if not readable:
                    return []
                timeout = 0
            return super().select(timeout)
