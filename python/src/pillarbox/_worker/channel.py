"""The worker's end of the socket to the JVM, with reads and writes that don't block the loop."""

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
    """Owns a duplicate of the socket behind ``fd``, whose earlier buffers must have been read.

    ``send`` may be called from any thread; frames are never interleaved. Bytes that the socket does
    not accept at once are queued and sent as the JVM reads, without blocking the event loop.
    """

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        if self._socket.family in (socket.AF_INET, socket.AF_INET6):
            # A small frame behind another one would wait 40 ms for the JVM's acknowledgement.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.loop = self._loop = loop
        self._lock = threading.Lock()
        self._waiting: deque[memoryview] = deque()

    def on_readable(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` on the loop whenever there is something to ``receive``."""
        self._loop.add_reader(self._socket.fileno(), callback)

    def stop_reading(self) -> None:
        self._loop.remove_reader(self._socket.fileno())

    def receive(self) -> bytes | None:
        """Return received bytes; None if there are none; ``b""`` if the JVM has closed its end."""
        try:
            return self._socket.recv(_READ_SIZE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""

    def wait_readable(self) -> None:
        """Block until there is something to ``receive``."""
        poller = select.poll()
        poller.register(self._socket.fileno(), select.POLLIN)
        poller.poll()

    def send(self, frame: bytes) -> None:
        """Send ``frame`` after all earlier ones. ``receive`` detects a closed connection."""
        with self._lock:
            was_idle = not self._waiting
            self._waiting.append(memoryview(frame))
            if was_idle and not self._write_some():
                self._loop.call_soon_threadsafe(self._watch_writable)

    def send_now(self, frame: bytes, limit_s: float) -> bool:
        """Send ``frame`` after all earlier ones without the loop, as ``flush`` does."""
        with self._lock:
            self._waiting.append(memoryview(frame))
        return self.flush(limit_s)

    def _watch_writable(self) -> None:
        if self._waiting:
            self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        with self._lock:
            if self._write_some():
                self._loop.remove_writer(self._socket.fileno())

    def _write_some(self) -> bool:
        """Write from the queue, under the lock. Return True if all of it is written."""
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
        """Block until all is written, or for ``limit_s``. Return True if it is. Any thread."""
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
        """Leave the loop and close the duplicate; the worker's socket itself stays open."""
        fd = self._socket.fileno()
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)
        # uvloop has made the socket non-blocking, and with it its duplicates.
        self._socket.setblocking(True)
        self._socket.close()
