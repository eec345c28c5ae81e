"""One task of a keyed operator in the worker, from READY to END: frames in, updates out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ..errors import EXITS, PillarboxError, error
from . import frames, keyed_frames
from .channel import Channel
from .frames import Init
from .keyed_calls import JvmCalls
from .keyed_channel import CallsChannel, FrameChannel
from .keyed_frames import KeyedFrame, KeyedUpdate
from .keyed_functions import OpenedFunction
from .session import send_fatal

OpenFunction = Callable[[JvmCalls], OpenedFunction]


class KeyedSession:
    """Serves one task for a function that is open already. Lives on the worker's main thread."""

    def __init__(self, channel: FrameChannel, init: Init, opened: OpenedFunction) -> None:
        self._channel = channel
        self._init = init
        self._opened = opened
        self._name = init.spec["name"]
        self._run_frame: Callable[[KeyedFrame], KeyedUpdate] = self._before_schemas

    def run(self) -> bool:
        """Serve frames until END. Return True if the worker may be used again.

        Raises ``EOFError`` if the JVM went away.
        """
        self._channel.send(self._opened.ready)
        while True:
            kind, body = self._channel.next()
            if kind == keyed_frames.FRAME:
                frame = keyed_frames.decode_frame(body, self._channel.parts())
                for part in keyed_frames.encode_update(self._run_frame(frame)):
                    self._channel.send(part)
            elif kind == keyed_frames.SCHEMAS:
                self._on_schemas(keyed_frames.decode_schemas(body))
            elif kind == frames.END:
                self._channel.stop()
                clean = self._opened.end_task()
                self._channel.send(frames.encode_end(clean))
                return clean
            else:
                raise error("PROTOCOL_ERROR", reason=f"a frame of the unexpected type {kind}")

    def _before_schemas(self, frame: KeyedFrame) -> KeyedUpdate:
        raise error("PROTOCOL_ERROR", reason="FRAME came before SCHEMAS")

    def _on_schemas(self, schemas: list[pa.Schema]) -> None:
        states = len(self._opened.runtime.registry.states)
        if len(schemas) != 2 + states:
            raise error("PROTOCOL_ERROR", reason=f"{len(schemas)} schemas for {states} states")
        runner = self._opened.runner(self._init, schemas, self._query)
        self._run_frame = runner.run

    def _query(
        self, frame_id: int, state: int, key_index: int, op: int, asked: bytes | memoryview
    ) -> keyed_frames.Answer:
        self._channel.send(keyed_frames.encode_query(frame_id, state, key_index, op, asked))
        next_place, last = self._channel.answer(frame_id)
        return keyed_frames.Answer([*self._channel.parts().of(1 + state), last], next_place)


def serve(infile: Any, channel: Channel, init: Init, open_function: OpenFunction) -> bool:
    """Open the function unless it is open, and serve the task.

    Raises ``EOFError`` if the JVM went away, and ``Reported`` for an error that the JVM was told.
    """
    calls = JvmCalls(channel.loop, channel.send)
    try:
        opened = open_function(calls)
        reading = FrameChannel(infile, channel)
        if opened.command.calls is not None:
            reading = CallsChannel(infile, channel, calls)
        return KeyedSession(reading, init, opened).run()
    except (*EXITS, PillarboxError) as problem:
        raise send_fatal(channel, problem) from problem
