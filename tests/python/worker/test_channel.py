"""The worker's end of the socket."""

from __future__ import annotations

import asyncio
import gc
import io
import socket
import threading
import weakref

from pillarbox._worker.channel import Channel
from pillarbox._worker.keyed_channel import FrameChannel


def test_small_frames_are_sent_at_once_over_tcp() -> None:
    loop = asyncio.new_event_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours, theirs:
        assert not ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        channel = Channel(ours.fileno(), loop)
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        channel.close()
    loop.close()


def test_other_sockets_are_left_as_they_are() -> None:
    loop = asyncio.new_event_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours.fileno(), loop)
        channel.send(b"a frame")
        assert theirs.recv(100) == b"a frame"
        channel.close()
    loop.close()


def test_a_channel_whose_loop_never_runs_goes_with_its_task() -> None:
    """The worker's loop outlives the tasks of keyed functions, which don't run it."""
    loop = asyncio.new_event_loop()
    ours, theirs = socket.socketpair()
    frame, got = bytes(8 << 20), bytearray()

    def read() -> None:
        while len(got) < len(frame):
            got.extend(theirs.recv(1 << 20))

    with ours, theirs:
        reader = threading.Thread(target=read)
        channel = Channel(ours.fileno(), loop)
        gone = weakref.ref(channel)
        reader.start()
        FrameChannel(io.BytesIO(), channel).send(frame)
        reader.join()
        channel.close()
        del channel
        gc.collect()
        assert gone() is None
        assert len(got) == len(frame)
    loop.close()
