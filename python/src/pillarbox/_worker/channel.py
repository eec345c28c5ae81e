"""The worker's end of the socket to the JVM, once frames flow: reads and writes never block."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

_READ_SIZE = 1 << 18


class Channel:
    """Owns a duplicate of the socket behind ``fd``; whatever was buffered above it must be read.

    ``send`` may be called from any thread; frames are never interleaved. What the socket does not
    take at once waits here and goes out as the JVM reads on: the event loop is not held up.
    """

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        if self._socket.family in (socket.AF_INET, socket.AF_INET6):
            # A small frame behind another one would wait 40 ms for the JVM's acknowledgement.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: deque[memoryview] = deque()

    def on_readable(self, callback: Callable[[], None]) -> None:
        """Runs ``callback`` on the loop whenever there is something to ``receive``."""
        self._loop.add_reader(self._socket.fileno(), callback)

    def stop_reading(self) -> None:
        """No ``callback`` of ``on_readable`` runs from now on."""
        self._loop.remove_reader(self._socket.fileno())

    def receive(self) -> bytes | None:
        """The bytes that have arrived; None for none; ``b""`` once the JVM has closed its end."""
        try:
            return self._socket.recv(_READ_SIZE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""

    def send(self, frame: bytes) -> None:
        """Sends ``frame`` after all earlier ones. A closed connection is left to ``receive``."""
        with self._lock:
            was_idle = not self._waiting
            self._waiting.append(memoryview(frame))
            if was_idle and not self._write_some():
                self._loop.call_soon_threadsafe(self._watch_writable)

    def _watch_writable(self) -> None:
        if self._waiting:
            self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        with self._lock:
            if self._write_some():
                self._loop.remove_writer(self._socket.fileno())

    def _write_some(self) -> bool:
        """Under the lock: whether all that waited is written."""
        while self._waiting:
            part = self._waiting[0]
            try:
                sent = self._socket.send(part, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except OSError:
                self._waiting.clear()
                return True
            if sent < len(part):
                self._waiting[0] = part[sent:]
            else:
                self._waiting.popleft()
        return True

    def flush(self, limit_s: float) -> bool:
        """Blocks until all is written, at most ``limit_s`` seconds; whether it was. Any thread."""
        deadline = time.monotonic() + limit_s
        while True:
            with self._lock:
                if self._write_some():
                    return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            poller = select.poll()
            poller.register(self._socket.fileno(), select.POLLOUT)
            poller.poll(left * 1000)

    def close(self) -> None:
        """Leaves the loop and drops the duplicate; the worker's socket itself stays open."""
        fd = self._socket.fileno()
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)
        # uvloop made the socket non-blocking, for its duplicates too.
        self._socket.setblocking(True)
        self._socket.close()
