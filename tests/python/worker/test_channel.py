"""The worker's end of the socket."""

from __future__ import annotations

import asyncio
import socket

from pillarbox._worker.channel import Channel


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
