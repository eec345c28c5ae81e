"""What lives as long as the worker process: the event loop, loaded functions, open resources."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable
from types import FrameType

from .._failures import message_of
from .._functions import Command
from .._keyed.command import KeyedCommand
from ..errors import error
from . import stderr
from .event_loop import new_event_loop
from .keyed_functions import FunctionCache
from .resources import ResourceCache

_KEPT_COMMANDS = 64
_CLOSE_LIMIT_S = 3.0


class WorkerProcess:
    """One a process; used by its main thread, a task at a time."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self.resources = ResourceCache()
        self.functions = FunctionCache()
        self._commands: OrderedDict[Hashable, Command] = OrderedDict()
        self._told_to_leave: int | None = None
        self._closing: asyncio.Task[None] | None = None

    def key(self, pickled: bytes) -> Hashable:
        """Tells functions apart, and the same function with other broadcast files too."""
        from pyspark.core.broadcast import _broadcastRegistry

        broadcasts = sorted(
            (bid, str(getattr(b, "_path", None))) for bid, b in _broadcastRegistry.items()
        )
        return hashlib.sha256(pickled).digest(), tuple(broadcasts)

    def command(self, key: Hashable, pickled: bytes) -> Command:
        """The unpickled command, loaded once. Raises ``WorkerFailed`` (FUNCTION_LOAD_FAILED)."""
        if key not in self._commands:
            command = load(pickled)
            if not isinstance(command, Command):
                raise error("PROTOCOL_ERROR", reason=f"the command is a {type(command).__name__}")
            self._commands[key] = command
        self._commands.move_to_end(key)
        while len(self._commands) > _KEPT_COMMANDS:
            self._commands.popitem(last=False)
        return self._commands[key]

    def handle_signals(self) -> None:
        """SIGTERM and SIGHUP (the daemon going down) close the resources first. Idempotent."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_signal)
            signal.signal(signal.SIGHUP, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._told_to_leave is not None:
            return
        self._told_to_leave = 128 + number
        # If the loop hangs or a close does, the process ends all the same.
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
        """Ends the process in order if a signal has asked for it; the loop must not be running."""
        if self._told_to_leave is not None:
            self.loop.run_until_complete(self._closing_task())
            self._exit()

    def _exit(self) -> None:
        assert self._told_to_leave is not None
        sys.stderr.flush()
        stderr.release()
        os._exit(self._told_to_leave)

    def close(self) -> None:
        """Closes functions, resources and the loop; resources within bounded time."""
        if not self.loop.is_closed():
            self.loop.run_until_complete(self._closing_task())
            self.loop.close()
            stderr.release()

    def _closing_task(self) -> asyncio.Task[None]:
        # One for all: a signal may come while the worker is closing anyway.
        if self._closing is None:
            self._closing = self.loop.create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        self.functions.close_all()
        await self.resources.close_all(_CLOSE_LIMIT_S)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=1.0)
        await self.loop.shutdown_asyncgens()


def load(pickled: bytes) -> Command | KeyedCommand:
    """A command, unpickled anew. Raises ``WorkerFailed`` (FUNCTION_LOAD_FAILED)."""
    from pyspark import cloudpickle
    from pyspark.core.broadcast import Broadcast

    try:
        command = cloudpickle.loads(pickled)
        if isinstance(command, Broadcast):  # as Spark sends commands over 1 MB
            command = cloudpickle.loads(command.value)
    except BaseException as problem:
        raise error(
            "FUNCTION_LOAD_FAILED", kind=type(problem).__name__, reason=message_of(problem)
        ) from problem
    if not isinstance(command, (Command, KeyedCommand)):
        raise error("PROTOCOL_ERROR", reason=f"the command is a {type(command).__name__}")
    return command


_process: WorkerProcess | None = None


def current() -> WorkerProcess:
    """The one of this process, made at the first call (after the daemon's fork)."""
    global _process
    if _process is None or _process.loop.is_closed():
        _process = WorkerProcess()
    return _process
