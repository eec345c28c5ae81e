"""Frames on the wire."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pillarbox as pb
from pillarbox._worker.frames import FrameBuffer


def frame(kind, body):
    return struct.pack("<IB", 1 + len(body), kind) + body


@given(
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=10),
    st.lists(st.integers(1, 400), min_size=1, max_size=50),
)
def test_frames_are_cut_out_however_the_bytes_arrive(frames, sizes):
    stream = b"".join(frame(kind, body) for kind, body in frames)
    buffer, got, at, turn = FrameBuffer(), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        got += [(kind, bytes(body)) for kind, body in buffer.feed(stream[at : at + size])]
        at, turn = at + size, turn + 1
    assert got == frames


def test_a_frame_comes_out_with_its_last_byte_and_not_before():
    data, buffer = frame(67, b"abc"), FrameBuffer()
    for byte in data[:-1]:
        assert buffer.feed(bytes([byte])) == []
    assert [(kind, bytes(body)) for kind, body in buffer.feed(data[-1:])] == [(67, b"abc")]


def test_a_frame_without_a_type_is_a_protocol_error():
    with pytest.raises(pb.WorkerFailed, match="PROTOCOL_ERROR"):
        FrameBuffer().feed(struct.pack("<I", 0))
