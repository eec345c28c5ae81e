"""The frames of the channel: ``u32 length, u8 type, body``, little-endian, both ways.

A blob is a u32 length and bytes, a text a blob of UTF-8, a batch an encapsulated message of Arrow
up to the end of the body. Of each call there are its id and its attempt. Those of keyed functions
are in ``keyed_frames``. ::

    I INIT     JVM -> Python   blobs: JSON of the task, input schema, result schema, command
    O READY    Python -> JVM   nothing: the resource is open
    C CALLS    JVM -> Python   u32 n, n x i64 id, n x i32 attempt, n x 16 bytes of name, batch
    G GROUP    JVM -> Python   the same, of rows that are called together
    P PART     JVM -> Python   the same, of rows that precede those of the next GROUP
    K COLLECT  JVM -> Python   u32 n, ids, attempts, names; n x i32 place among the ticket's rows,
                               u32 the ticket's rows, text ticket
    X CANCEL   JVM -> Python   u32 n, ids, attempts
    U GIVE_UP  JVM -> Python   i64 id of a call that got no place
    R RESULTS  Python -> JVM   u32 n, ids, attempts, n x i32 rows of each, batch of rows
    F FAILURES Python -> JVM   u32 n, then of each: i64 id, i32 attempt, u8 flags (1 retryable,
                               2 overload, 4 pauses limits, 8 ends the ticket), i64 delay in ms or
                               -1, texts kind, message, traceback
    Q TICKETS  Python -> JVM   u32 n, then of each: i64 id, i32 attempt, i32 place, i32 the
                               ticket's rows, text ticket, empty if it is known
    S USAGE    Python -> JVM   u32 units, texts of them, u32 n, then of each: i64 id, i32 attempt,
                               i32 unit, f64 amount
    L TOLD     Python -> JVM   what a service says of limits: u32 n, then of each: i64 id,
                               i32 attempt, i32 unit, f64 remaining, f64 seconds until the reset
    N NOTE     Python -> JVM   what was wrong with a report of a call: texts kind, text
    E END      both ways       Python -> JVM: u8 1 if the worker may be used again, updates of
                               accumulators, text of the error if they can't be sent
    T FATAL    Python -> JVM   text: the JSON of a ``Report``
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from .._async.ticket_runner import Wait
from .._base.failures import Failure, message_of
from .._metered.calls import Feedback
from ..errors import PillarboxError, error
from . import accumulators

INIT, CALLS, GROUP, PART, COLLECT, CANCEL, GIVE_UP, END = b"ICGPKXUE"
READY, RESULTS, FAILURES, TICKETS, USAGE, TOLD, NOTE, FATAL = b"ORFQSLNT"

_HEADER = struct.Struct("<IB")
_FAILURE = struct.Struct("<qiBq")
_USAGE = struct.Struct("<qiid")
_TOLD = struct.Struct("<qiidd")
_TICKET = struct.Struct("<qiii")
_NAME_SIZE = 16
_DIGITS = 2 * _NAME_SIZE


class FrameBuffer:
    """Cuts received bytes into frames; a large frame is copied once, however it arrives."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._wanted = 4

    def feed(self, data: bytes) -> list[tuple[int, memoryview]]:
        """Return the frames that are complete with ``data``, as pairs of type and body."""
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return []
        joined = data if len(self._parts) == 1 else b"".join(self._parts)
        return self._cut(memoryview(joined))

    def _cut(self, view: memoryview) -> list[tuple[int, memoryview]]:
        frames = []
        start, size = 0, len(view)
        self._wanted = 4
        while size - start >= 4:
            length = int.from_bytes(view[start : start + 4], "little")
            if length == 0:
                raise error("PROTOCOL_ERROR", reason="a frame without a type")
            end = start + 4 + length
            if end > size:
                self._wanted = 4 + length
                break
            frames.append((view[start + 4], view[start + 5 : end]))
            start = end
        self._parts = [bytes(view[start:])] if start < size else []
        self._size = size - start
        return frames


class Reader:
    """A cursor over a body."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._at = 0

    def take(self, size: int) -> memoryview:
        start, self._at = self._at, self._at + size
        return self._body[start : self._at]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def blob(self) -> memoryview:
        return self.take(self.u32())

    def schema(self) -> pa.Schema:
        return _schema_of(bytes(self.blob()))

    def numbers(self, code: str, size: int, count: int) -> array[int]:
        return numbers_of(code, self.take(size * count))


@lru_cache(maxsize=256)
def _schema_of(message: bytes) -> pa.Schema:
    """Decode a schema, once for the tasks of an operator."""
    return pa.ipc.read_schema(pa.py_buffer(message))


@dataclass(frozen=True)
class Init:
    """The first frame of a task."""

    spec: dict[str, Any]
    input_schema: pa.Schema
    result_schema: pa.Schema
    command: bytes


@dataclass(frozen=True)
class Calls:
    """Calls of the function; ``rows`` has one row an id, ``names`` one name an id."""

    ids: Sequence[int]
    attempts: Sequence[int]
    names: Sequence[str]
    rows: pa.RecordBatch


@dataclass(frozen=True)
class Collection:
    """A call for the answers of a ticket, at the ``places`` of those of ``of`` rows."""

    ids: Sequence[int]
    attempts: Sequence[int]
    names: Sequence[str]
    ticket: str
    places: Sequence[int]
    of: int


def read_init(infile: Any) -> Init:
    """Read the INIT frame, blocking. Raises EOFError if the JVM went away."""
    kind, body = read_frame(infile)
    if kind != INIT:
        raise error("PROTOCOL_ERROR", reason=f"frame type {kind} where INIT was expected")
    reader = Reader(body)
    spec = json.loads(bytes(reader.blob()))
    return Init(spec, reader.schema(), reader.schema(), bytes(reader.blob()))


def read_frame(infile: Any) -> tuple[int, memoryview]:
    """Read the type and body of one frame, blocking. Raises EOFError if the JVM went away."""
    length, kind = _HEADER.unpack(_exactly(infile, _HEADER.size))
    return kind, memoryview(_exactly(infile, length - 1))


def _exactly(infile: Any, size: int) -> bytes:
    data: bytes = infile.read(size)
    if len(data) < size:
        raise EOFError
    return data


def decode_ids(body: memoryview) -> tuple[array[int], array[int], int]:
    """Decode ids and attempts, and return their end in ``body`` too."""
    count = int.from_bytes(body[:4], "little")
    ids_end = 4 + 8 * count
    end = ids_end + 4 * count
    return numbers_of("q", body[4:ids_end]), numbers_of("i", body[ids_end:end]), end


def decode_calls(body: memoryview, schema: pa.Schema) -> Calls:
    """Decode the body of CALLS or GROUP."""
    ids, attempts, names, end = _decode_begin(body)
    # Arrow needs aligned buffers, and a copy of the message is aligned.
    rows = pa.ipc.read_record_batch(pa.py_buffer(bytes(body[end:])), schema)
    return Calls(ids, attempts, names, rows)


def decode_collect(body: memoryview) -> Collection:
    """Decode the body of COLLECT."""
    ids, attempts, names, end = _decode_begin(body)
    reader = Reader(body[end:])
    places = reader.numbers("i", 4, len(ids))
    of = reader.u32()
    return Collection(ids, attempts, names, str(reader.blob(), "utf-8"), places, of)


def _decode_begin(body: memoryview) -> tuple[array[int], array[int], list[str], int]:
    ids, attempts, start = decode_ids(body)
    end = start + _NAME_SIZE * len(ids)
    digits = body[start:end].hex()
    names = [digits[at : at + _DIGITS] for at in range(0, len(digits), _DIGITS)]
    return ids, attempts, names, end


def encode(kind: int, *parts: bytes | memoryview) -> bytes:
    return b"".join((_HEADER.pack(1 + sum(map(len, parts)), kind), *parts))


def encode_results(
    ids: Sequence[int], attempts: Sequence[int], counts: Sequence[int], batch: pa.RecordBatch
) -> bytes:
    """Encode RESULTS: the rows of ``batch`` belong to the ids in order, ``counts[i]`` each."""
    return encode(
        RESULTS,
        u32(len(ids)),
        packed("q", ids),
        packed("i", attempts),
        packed("i", counts),
        memoryview(batch.serialize()),
    )


def encode_failures(failures: Sequence[tuple[int, int, Failure]]) -> bytes:
    """Encode FAILURES of ``(id, attempt, failure)``."""
    parts = [u32(len(failures))]
    for element_id, attempt, failure in failures:
        flags = failure.retryable | failure.overload << 1
        flags |= failure.pauses_limit << 2 | failure.ends_ticket << 3
        parts.append(_FAILURE.pack(element_id, attempt, flags, failure.retry_after_ms))
        parts.append(texts(failure.kind, failure.message, failure.traceback))
    return encode(FAILURES, *parts)


def encode_tickets(waits: Sequence[tuple[int, int, Wait]]) -> bytes:
    """Encode TICKETS of ``(id, attempt, wait)``; without a text the ticket is known."""
    parts = [u32(len(waits))]
    for element_id, attempt, wait in waits:
        parts.append(_TICKET.pack(element_id, attempt, wait.place, wait.of))
        parts.append(texts(wait.ticket))
    return encode(TICKETS, *parts)


def encode_usage(usage: Sequence[tuple[int, int, str, float]]) -> bytes:
    """Encode USAGE of ``(id, attempt, unit, amount)``: the units, and each report by its place."""
    places: dict[str, int] = {}
    reports = [
        _USAGE.pack(element_id, attempt, places.setdefault(unit, len(places)), amount)
        for element_id, attempt, unit, amount in usage
    ]
    return encode(USAGE, u32(len(places)), texts(*places), u32(len(usage)), *reports)


def encode_told(told: Sequence[tuple[int, int, Feedback]]) -> bytes:
    """Encode TOLD of ``(id, attempt, told)``: what the service has said of limits."""
    parts = (
        _TOLD.pack(element_id, attempt, one.unit, one.remaining, one.reset_s)
        for element_id, attempt, one in told
    )
    return encode(TOLD, u32(len(told)), *parts)


def encode_note(kind: str, text: str) -> bytes:
    """Encode NOTE: what was wrong with a report of a call."""
    return encode(NOTE, texts(kind, text))


def encode_end(clean: bool) -> bytes:
    """Encode END: a flag that the worker may be used again, and the task's accumulator updates.

    A text follows, which is the error if the updates can't be sent.
    """
    refusal = ""
    try:
        updates = accumulators.updates()
    except PillarboxError as problem:
        updates, refusal = [], message_of(problem)
    parts = [bytes([clean]), u32(len(updates)), *map(blob, updates)]
    return encode(END, *parts, texts(refusal))


def encode_fatal(report: str) -> bytes:
    """Encode FATAL, which ends the task; ``report`` is the JSON of a ``Report``."""
    return encode(FATAL, texts(report))


def texts(*values: str) -> bytes:
    """Encode texts, each behind its length."""
    return b"".join(blob(text.encode("utf-8", "replace")) for text in values)


def blob(data: bytes | memoryview) -> bytes:
    """Encode ``data`` behind its length."""
    return b"".join((u32(len(data)), data))


def u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


def numbers_of(code: str, data: memoryview) -> array[int]:
    numbers = array(code)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def packed(code: str, numbers: Sequence[int]) -> bytes:
    packed = array(code, numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
