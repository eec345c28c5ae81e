"""Threads for plain functions: one a call, and a replacement for each that hangs."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from .accumulators import make_thread_safe

_Work = tuple["Future[Any]", Callable[[], Any]]


class CallThreads:
    """Up to ``most`` calls at a time, each in its own thread; threads are reused.

    A thread can't be cancelled. The thread of an abandoned call is replaced, and ends when the call
    does. At most ``most`` threads are replaced; further calls wait for a thread. ``submit``,
    ``abandon`` and ``shutdown`` are for the event loop's thread only.
    """

    def __init__(self, most: int) -> None:
        make_thread_safe()
        self._most = most
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._wanted = 0  # calls that run or wait for a thread
        self._running: set[Future[Any]] = set()
        self._abandoned: set[Future[Any]] = set()
        self._told = False

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Run ``call`` as soon as there is a thread. Until then the future can be cancelled."""
        future: Future[Any] = Future()
        self._work.put((future, call))
        with self._lock:
            self._wanted += 1
            self._add_thread()
        return future

    def abandon(self, future: Future[Any]) -> None:
        """Give up a call. If it runs, its thread is replaced."""
        with self._lock:
            if future not in self._running:
                return
            if len(self._abandoned) < self._most:
                self._abandoned.add(future)
                self._add_thread()
            elif not self._told:
                self._told = True
                print(
                    f"Pillarbox: {self._most} threads still run calls that were given up, and are "
                    "replaced no more: calls wait for a thread. Give the client a timeout of its "
                    "own, so that it returns.",
                    file=sys.stderr,
                    flush=True,
                )

    def shutdown(self) -> None:
        """Cancel calls that wait for a thread; threads end with the calls that they run."""
        with contextlib.suppress(Empty):
            while (work := self._work.get_nowait()) is not None:
                work[0].cancel()
        with self._lock:
            for _ in range(self._threads):
                self._work.put(None)

    def _add_thread(self) -> None:
        """Start a thread if a call would wait and the bound allows it. Called under the lock."""
        allowed = self._most + len(self._abandoned)
        if self._threads < min(self._wanted, allowed):
            self._threads += 1
            name = f"pillarbox-call-{self._threads}"
            # A daemon thread that hangs does not keep the process alive.
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            if self._begin(work[0]):
                _run(*work)
            is_surplus = self._ended(work[0])
            del work  # frees the answer while the thread waits for its next call
            if is_surplus:
                return

    def _begin(self, future: Future[Any]) -> bool:
        with self._lock:
            begun = future.set_running_or_notify_cancel()
            if begun:
                self._running.add(future)
            return begun

    def _ended(self, future: Future[Any]) -> bool:
        """Count a call's end, and return True if its thread is surplus now."""
        with self._lock:
            self._wanted -= 1
            self._running.discard(future)
            self._abandoned.discard(future)
            surplus = self._threads > self._most + len(self._abandoned)
            self._threads -= surplus
            return surplus


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    try:
        answer = call()
    except StopIteration as stop:
        # A future can't hold StopIteration. Python itself wraps it so in coroutines.
        broken = RuntimeError("the function raised StopIteration")
        broken.__cause__ = stop
        future.set_exception(broken)
    except BaseException as problem:
        future.set_exception(problem)
    else:
        future.set_result(answer)
