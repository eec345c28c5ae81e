"""The frames of a keyed task, as the worker's main thread reads and writes them."""

from __future__ import annotations

from collections import deque
from typing import Any

from . import frames, keyed_frames
from .channel import Channel
from .keyed_calls import ATTEMPTS, JvmCalls

_NO_LIMIT_S = 10**6


class FrameChannel:
    """Blocking reads and writes of frames; frames that arrive before an answer are queued."""

    def __init__(self, infile: Any, channel: Channel) -> None:
        self._infile = infile
        self._channel = channel
        self._kept: deque[tuple[int, memoryview]] = deque()
        self._parts = keyed_frames.Parts()

    def send(self, frame: bytes) -> None:
        self._channel.send_now(frame, _NO_LIMIT_S)

    def next(self) -> tuple[int, memoryview]:
        """Return the next frame that is no part. Raises ``EOFError`` if the JVM went away."""
        return self._kept.popleft() if self._kept else self._read()

    def _read(self) -> tuple[int, memoryview]:
        while (frame := self._next_frame())[0] == frames.PART:
            self._parts.add(frame[1])
        return frame

    def _next_frame(self) -> tuple[int, memoryview]:
        return frames.read_frame(self._infile)

    def stop(self) -> None:
        """End the reading: what comes now is for the next task."""

    def parts(self) -> keyed_frames.Parts:
        """Take the parts that came before the last frame."""
        parts, self._parts = self._parts, keyed_frames.Parts()
        return parts

    def answer(self, frame_id: int) -> tuple[bytes, memoryview]:
        """Return the next page's place and the blob that answer a query.

        Other frames may come before it.
        """
        while True:
            kind, body = self._read()
            if kind == keyed_frames.ANSWER:
                answered, next_place, blob = keyed_frames.decode_answer(body)
                if answered == frame_id:
                    return next_place, blob
            self._kept.append((kind, body))


class CallsChannel(FrameChannel):
    """A ``FrameChannel`` that is read by the loop too, while it runs, for ATTEMPTS.

    What they tell while the thread waits for another frame is done in the loop's next turn, so that
    no call begins inside of what a function does without an ``await``.
    """

    def __init__(self, infile: Any, channel: Channel, calls: JvmCalls) -> None:
        super().__init__(infile, channel)
        self._calls = calls
        self._buffer = frames.FrameBuffer()
        self._come: deque[tuple[int, memoryview]] = deque()
        channel.on_readable(self._on_readable)

    def _on_readable(self) -> None:
        try:
            if not self._receive():
                self._channel.stop_reading()
                self._calls.exited(EOFError("the JVM closed the connection"))
            self._calls.work()
        except BaseException as problem:
            self._calls.exited(problem)

    def _receive(self) -> bool:
        """Take what has come. Return False if the JVM has gone."""
        data = self._channel.receive()
        for kind, body in self._buffer.feed(data) if data else ():
            if kind == ATTEMPTS:
                self._calls.take(body)
            else:
                self._come.append((kind, body))
        return data != b""

    def _next_frame(self) -> tuple[int, memoryview]:
        while not self._come:
            self._channel.wait_readable()
            if not self._receive():
                raise EOFError
            self._channel.loop.call_soon(self._calls.work)
        return self._come.popleft()

    def stop(self) -> None:
        self._channel.stop_reading()
