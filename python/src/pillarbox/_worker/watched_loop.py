"""The worker's event loop, where a task's thread runs it only while there are calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from .._async.event_loop import complete, stopped_loop
from .._async.watchdog import Watchdog
from .channel import Channel
from .session import leave_blocked

T = TypeVar("T")


class WatchedLoop:
    """Main thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, channel: Channel, blocked_ms: int) -> None:
        self._loop = loop
        self._channel = channel
        self._blocked_ms = blocked_ms

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs ``work``; ends the process if one callback holds the loop for too long."""
        watchdog = Watchdog(
            self._loop,
            threading.get_ident(),
            complete.__code__,
            self._blocked_ms,
            partial(leave_blocked, self._channel),
        )
        watchdog.start()
        try:
            return complete(self._loop, work, stopped_loop)
        finally:
            watchdog.stop()
