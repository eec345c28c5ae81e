"""The state of a worker process: its event loop, functions and open resources."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from .._async.call_context import CallContext
from .._async.command import Command
from .._async.event_loop import abandon_tasks, new_event_loop
from .._async.resources import OpenResource
from .._base.functions import unpickled
from .._keyed.command import KeyedCommand
from ..errors import error
from . import accumulators, stderr
from .frames import Init
from .gc_tuning import collect_frozen
from .keyed_functions import OpenedFunction
from .lru_cache import FunctionKey, LruCache

T = TypeVar("T")

_KEPT_COMMANDS, _KEPT_OPEN = 64, 16
_WORTH_COLLECTING = 1 << 20
_CLOSE_LIMIT_S = 3.0


class WorkerProcess:
    """One a process; used by its main thread, a task at a time."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self._resources: LruCache[OpenResource] = LruCache(_KEPT_OPEN)
        self._functions: LruCache[OpenedFunction] = LruCache(_KEPT_OPEN)
        self._commands: LruCache[Command] = LruCache(_KEPT_COMMANDS)
        self._told_to_leave: int | None = None
        self._closing: asyncio.Task[None] | None = None

    def command(self, key: FunctionKey, pickled: bytes) -> Command:
        """Return the command, unpickled once. Raises ``WorkerFailed`` (FUNCTION_LOAD_FAILED)."""
        command = self._commands.get(key)
        if command is None:
            command = load(pickled, Command)
            self._commands.put(key, key, len(pickled), command)
        return command

    def function(self, key: FunctionKey, init: Init) -> OpenedFunction:
        """Return the open keyed function for the task. Raises the errors of ``open``."""
        spec = init.spec
        place = key, spec["name"], spec["event_time"], spec["time_sorted"]
        opened = self._functions.get(place)
        if opened is None:
            # Each has its own function, since opening one again would replace its states.
            opened = OpenedFunction(load(init.command, KeyedCommand), spec)
            opened.open()
            self._functions.put(place, key, len(init.command), opened)
        return opened

    async def resource(
        self, key: FunctionKey, pickled_bytes: int, factory: Callable[[], Any]
    ) -> tuple[Any, CallContext]:
        """Return the open resource of ``key``, and the context variables that it has set.

        Raises ``WorkerFailed`` if ``factory`` fails to open it.
        """
        holder = self._resources.get(key)
        if holder is not None and holder.has_ended:
            self._resources.pop(key)
            holder = None
        if holder is None:
            holder = OpenResource(factory)
            await holder.open()
            self._resources.put(key, key, pickled_bytes, holder)
        assert holder.call_context is not None
        return holder.value, holder.call_context

    def needs_room(self) -> bool:
        """Return True if ``make_room`` has something to drop."""
        kept = self._commands, self._functions, self._resources
        return any(cache.has_surplus() for cache in kept)

    async def make_room(self) -> None:
        """Drop functions and resources beyond the bounds; those of the current task stay."""
        before = self._kept_bytes()
        self._commands.take_surplus()
        await _close(self._functions.take_surplus(), self._resources.take_surplus(), 1.0)
        if before - self._kept_bytes() >= _WORTH_COLLECTING:
            collect_frozen()  # sessions and their functions refer to each other in cycles

    def _kept_bytes(self) -> int:
        return self._commands.bytes + self._functions.bytes + self._resources.bytes

    def handle_signals(self) -> None:
        """Close the resources on SIGTERM and SIGHUP (the daemon's end). Idempotent."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_signal)
            signal.signal(signal.SIGHUP, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._told_to_leave is not None:
            return
        self._told_to_leave = 128 + number
        # The process must end even if the loop hangs, or closing a resource.
        last_resort = threading.Timer(_CLOSE_LIMIT_S + 1, os._exit, [128 + number])
        last_resort.daemon = True
        last_resort.start()
        if self.loop.is_running():
            self.loop.call_soon_threadsafe(self._leave)
        else:
            self.leave_if_told()

    def _leave(self) -> None:
        self._closing_task().add_done_callback(lambda _: self._exit())

    def leave_if_told(self) -> None:
        """End the process in order if a signal has asked for it; the loop must not be running."""
        if self._told_to_leave is not None:
            self.loop.run_until_complete(self._closing_task())
            self._exit()

    def _exit(self) -> None:
        assert self._told_to_leave is not None
        sys.stderr.flush()
        stderr.release()
        os._exit(self._told_to_leave)

    def close(self) -> None:
        """Close functions, resources and the loop; resources within bounded time."""
        if not self.loop.is_closed():
            self.loop.run_until_complete(self._closing_task())
            self.loop.close()
            stderr.release()

    def _closing_task(self) -> asyncio.Task[None]:
        # There is only one, as a signal may come while the worker is closing anyway.
        if self._closing is None:
            self._closing = self.loop.create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        await _close(self._functions.take_all(), self._resources.take_all(), _CLOSE_LIMIT_S)
        await abandon_tasks(self.loop)


async def _close(
    functions: list[OpenedFunction], resources: list[OpenResource], limit_s: float
) -> None:
    """Close all of them, the resources at the same time and within ``limit_s``."""
    for function in functions:
        function.close()
    await asyncio.gather(*(resource.close(limit_s) for resource in resources))


def load(pickled: bytes, kind: type[T]) -> T:
    """Unpickle a command. Raises ``WorkerFailed`` (FUNCTION_LOAD_FAILED, PROTOCOL_ERROR)."""
    command = unpickled(pickled)
    if not isinstance(command, kind):
        raise error("PROTOCOL_ERROR", reason=f"the command is a {type(command).__name__}")
    accumulators.note_loaded()
    return command


_process: WorkerProcess | None = None


def current() -> WorkerProcess:
    """Return the object of this process, made at the first call (after the daemon's fork)."""
    global _process
    if _process is None or _process.loop.is_closed():
        _process = WorkerProcess()
    return _process
