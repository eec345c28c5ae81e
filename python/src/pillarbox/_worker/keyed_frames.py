"""The frames of a keyed operator, and their layout, which the JVM's side follows.

Framing, preamble, INIT, FATAL and END are those of async I/O (``frames``): ``u32 length`` of what
follows, ``u8 type``, body; little-endian, unpadded. A *blob* is ``u32 length`` and that many bytes;
an Arrow blob is one encapsulated RecordBatch message without schema or dictionaries, and a blob of
length 0 stands for a batch without rows. Columns count by position, their names don't matter.

INIT's spec has ``"kind": "keyed"``, its input schema is that of the rows, its result schema that of
the rows that come back, its command a pickled ``KeyedCommand``. Rows have one more column than the
command's if the function gets late rows: a boolean, true for those. ::

    O READY    Python -> JVM   blob JSON {"states": [{"name", "kind": "value"|"list"|"map"|
                               "reducing"|"aggregating"|"timer", "type": schema JSON (a struct; a
                               plain type T is wrapped as struct<value:T>), "key_type":
                               the same for the keys of a map, else null, "time_domain",
                               "ttl": null | {"ms", "update", "visibility", "time_domain"}}],
                               "timers": true if the function may set timers}
    S SCHEMAS  JVM -> Python   u32 count = 2 + states, then blobs, each an IPC schema message:
                               key columns; rows; each state's cells in the order of READY
    K FRAME    JVM -> Python   u64 frame id
                               i64 watermark, i64 horizon (Long.MIN_VALUE: none),
                               i64 processing time, in ms
                               u8 flags: 1 batch, 2 time-sorted, 4 timers on demand, 8 keep
                               u32 h held keys, u32 k new keys, u32 ended keys, u32 n events
                               n x u8 kind: 0 row, 1 event-time timer, 2 processing-time timer
                               n x u32 key index
                               n x i64 time in ms: a timer's, or a row's (Long.MIN_VALUE: none)
                               Arrow blob: the k new keys;  Arrow blob: the rows, in event order
                               u32 states, then one blob each (below)
                               u32 t timers, t x u32 key index, t x u8 kind, t x i64 time
    Q QUERY    Python -> JVM   u64 frame id, u32 state, u32 key index,
                               u8 op: 0 a page of a list or map, 1 one entry of a map, 2 some
                               entries of a map (at least one, if there is any)
                               blob: for op 1 an Arrow batch of one row of [map key struct], for
                               op 0 the place of the page, empty for the first; else empty;
                               state 0xFFFFFFFF, op 0: the timers of the key
    P PART     both ways       u32 what: 0 rows, n the n-th state (from 1); then, up to its end, an
                               Arrow batch of rows, cells or changes, which come before those in the
                               next FRAME, ANSWER or UPDATE
    A ANSWER   JVM -> Python   u64 frame id, blob: the place of the next page, empty if there is
                               none; Arrow blob: entries, like those of the state's cells;
                               for timers a blob of u8 kind, i64 time, one after the other
    U UPDATE   Python -> JVM   u64 frame id
                               Arrow blob: the rows that come out (INIT's result schema)
                               u32 states, then one Arrow blob of changes each (below)
                               u32 t changes of timers, t x u32 key index, t x u8 kind,
                               t x u8 op: 0 register, 1 delete (also: it fired), t x i64 time
                               u32 how many event-time timers fired, u32 processing-time timers

Beside these a function that makes calls has the frames of ``keyed_calls``.

Cells of a state in FRAME, of its new keys, here counted from 0:

- value, reducing, aggregating, timer: Arrow blob of k rows ``[value struct (null: absent),
  ts int64]``;
- list and map: k x u8, where 1 says that the content of this key is too large and is asked for,
  0 that it follows; then (in the same blob, up to its end) an Arrow batch of the entries,
  ``[key index int32, value struct, ts int64]`` for lists (in the order of the list) and
  ``[key index int32, map key struct, value struct, ts int64]`` for maps.

Changes in UPDATE, only of keys that go on and changed (since the worker holds them), none after
keep:

- value, reducing, aggregating, timer: ``[key index int32, value struct (null: cleared),
  ts int64]``;
- list: ``[key index int32, op int8, value struct, ts int64]``, a log to be applied in order:
  0 add, 1 clear, 2 remove all elements stamped at or below ts, 3 raise all stamps to at least ts,
  4 stamp those that have none (Long.MIN_VALUE);
- map: ``[key index int32, op int8, map key struct, value struct, ts int64]``, to be applied in
  order: 0 put, 1 remove, 2 clear.

Rules:

- A place means something to the JVM alone. What is stored of a key does not change while the worker
  holds it, so pages go on where the last one ended, whatever the worker has changed.
- Key indexes count the keys that the worker holds: 0 to h - 1 are those of the frames before, h to
  h + k - 1 the new ones of this frame. After a frame with keep it holds them all, with their state
  and what changed of it, for the next one; after any other it holds none, and h is 0. The JVM ends
  a stage (the rows of a micro-batch, its timers) with a frame without keep, even one of no events.
- State travels raw. The worker alone judges TTL and renews timestamps; the JVM must neither hide
  nor stamp what it reads and writes for a frame. Its own clean-up of what is expired has to go by a
  clock that no event still to come is behind: for event time, the late-event watermark.
- ``ts`` is 0 for states without TTL. A stamp of Long.MIN_VALUE means that no time was known.
- The t timers of FRAME are all timers of its keys, but for those among the events: they are the
  worker's from then on (if the JVM lists them too, UPDATE says that they are deleted). UPDATE says
  what differs from these t timers. With timers on demand (a stream: what is due comes as an event)
  t is 0, UPDATE may register what there is and delete what there is not, and the worker asks for a
  key's timers when the function lists them.
- Events come in an order that is right for each key. Timers among them are no longer the JVM's:
  the worker fires them, unless an event before has deleted them.
- ``watermark`` is how far time had come before the frame. Every row and timer of a stream sees it,
  but for time-sorted ones: their keys have a time each, which begins there. In a batch it is that
  of key 0 alone, which may go on from the frame before; the others begin at Long.MIN_VALUE.
- Timers that the function sets are fired in the frame only up to its ``horizon``, after the last
  event: no event of that time is still to come. Later ones are the JVM's to send, all of them
  after a frame of rows that is not time-sorted. It is a time of the frame's kind of timers, of
  event time where there are none. In a batch it means nothing: a key fires its timers at its end.
- A row's time is its timestamp's ms rounded down; time-sorted it is rounded up, which is what makes
  "at or before the watermark" the same in ms and in us. Time-sorted rows without one are an error.
- Time-sorted: the rows of a key come in order of time (us). Between two of different times the
  worker fires the key's event-time timers before the later one; those for an earlier time than the
  row that set them, too, only when no row of that row's time can follow. A row sees its time - 1, a
  timer the later of its time and that which its key has come to.
- Ended keys (batch): no rows follow of the first so many; after the events all their timers fire,
  event time first, no other can be set, and their state and timers are forgotten. The JVM sends
  what the last key keeps if that goes on.
- Several frames may be under way; they must not share keys, nor follow one with keep, nor have
  parts. They are answered in order.
- A batch that has more than a number of bytes (INIT's ``frame_bytes``) goes ahead in parts, and no
  row, value or entry is larger than a frame may be.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from .._keyed.timers import NO_CHANGES, TimerChanges
from .frames import PART, READY, Reader, blob, encode, packed, u32

SCHEMAS, FRAME, QUERY, ANSWER, UPDATE = b"SKQAU"
ROWS = 0

BATCH, TIME_SORTED, TIMERS_ON_DEMAND, KEEP = 1, 2, 4, 8
TIMERS = 0xFFFFFFFF
PAGE, ONE, SOME = 0, 1, 2

_FRAME = struct.Struct("<QqqqBIIII")
_QUERY = struct.Struct("<QIIB")
_TIMER = struct.Struct("<Bq")
_EMPTY = b"\0\0\0\0"


@dataclass(frozen=True)
class KeyedFrame:
    """A FRAME; ``timers`` are ``(key index, kind, time)``, the blobs are undecoded."""

    id: int
    watermark: int
    horizon: int
    processing_time: int
    flags: int
    held: int
    new_keys: int
    ended: int
    kinds: bytes
    key_indexes: array[int]
    times: array[int]
    keys: memoryview
    rows: memoryview
    states: list[memoryview]
    timers: list[tuple[int, int, int]]
    parts: Parts

    @property
    def row_blobs(self) -> list[memoryview]:
        """The rows, in order."""
        return [*self.parts.of(ROWS), self.rows]

    @property
    def key_count(self) -> int:
        """The keys that the worker holds, those of the frame included."""
        return self.held + self.new_keys

    @property
    def keeps(self) -> bool:
        """True if the next frame goes on with the keys of this one."""
        return bool(self.flags & KEEP)


class Parts:
    """The batches that have come ahead of a frame: those of its rows and of each state."""

    def __init__(self) -> None:
        self._blobs: dict[int, list[memoryview]] = {}

    def add(self, body: memoryview) -> None:
        self._blobs.setdefault(int.from_bytes(body[:4], "little"), []).append(body[4:])

    def of(self, what: int) -> list[memoryview]:
        """Return the batches of rows (0) or of a state (from 1), in order."""
        return self._blobs.get(what, [])


def encode_ready(states: Sequence[dict[str, Any]], has_timers: bool) -> bytes:
    """Encode READY with the declared states."""
    content = {"states": list(states), "timers": has_timers}
    return encode(READY, blob(json.dumps(content).encode()))


def decode_schemas(body: memoryview) -> list[pa.Schema]:
    """Decode the schemas of keys, rows and each state's cells."""
    reader = Reader(body)
    return [reader.schema() for _ in range(reader.u32())]


def decode_frame(body: memoryview, parts: Parts) -> KeyedFrame:
    """Decode FRAME, with the parts that came before it, but none of its Arrow blobs."""
    reader = Reader(body)
    *clocks, flags, held, keys, ended, events = _FRAME.unpack(reader.take(_FRAME.size))
    frame_id, watermark, horizon, processing = clocks
    kinds = bytes(reader.take(events))
    key_indexes = reader.numbers("I", 4, events)
    times = reader.numbers("q", 8, events)
    key_blob, row_blob = reader.blob(), reader.blob()
    states = [reader.blob() for _ in range(reader.u32())]
    count = reader.u32()
    timer_keys = reader.numbers("I", 4, count)
    timer_kinds = reader.take(count)
    timers = list(zip(timer_keys, timer_kinds, reader.numbers("q", 8, count), strict=True))
    return KeyedFrame(
        frame_id, watermark, horizon, processing, flags, held, keys, ended, kinds, key_indexes,
        times, key_blob, row_blob, states, timers, parts,
    )  # fmt: skip


def decode_batch(blob: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """Decode an Arrow blob; an empty one is a batch without rows."""
    if not len(blob):
        empty = [pa.nulls(0, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(empty, schema=schema)
    # Arrow needs aligned buffers, and a copy of the message is aligned.
    return pa.ipc.read_record_batch(pa.py_buffer(bytes(blob)), schema)


def decode_batches(
    blobs: Sequence[bytes | memoryview], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Decode Arrow blobs of one kind, one after the other."""
    return (decode_batch(blob, schema) for blob in blobs)


def decode_answer(body: memoryview) -> tuple[int, bytes, memoryview]:
    """Decode ANSWER into the frame id, the place of the next page and the Arrow blob."""
    reader = Reader(body)
    return reader.u64(), bytes(reader.blob()), reader.blob()


class Answer(NamedTuple):
    """The blobs that answer a QUERY, and the place of the next page, empty if there is none."""

    blobs: list[memoryview]
    next_place: bytes


def decode_timers(blob: memoryview) -> Iterator[tuple[int, int]]:
    """Decode the kind and time of each timer in the answer about a key's timers."""
    return _TIMER.iter_unpack(blob)


def encode_query(
    frame_id: int, state: int, key_index: int, op: int, asked: bytes | memoryview
) -> bytes:
    """Encode QUERY; ``asked`` is a serialized map key, the place of a page, or empty."""
    return encode(QUERY, _QUERY.pack(frame_id, state, key_index, op), blob(asked))


@dataclass(frozen=True)
class KeyedUpdate:
    """The content of an UPDATE."""

    id: int
    rows: Sequence[pa.RecordBatch]
    states: Sequence[Sequence[pa.RecordBatch]]
    timers: TimerChanges = NO_CHANGES
    fired: tuple[int, int] = (0, 0)


def encode_update(update: KeyedUpdate) -> Iterator[bytes]:
    """Encode UPDATE, after a PART for each batch of rows or of a state but the last one."""
    for what, batches in enumerate([update.rows, *update.states]):
        for batch in batches[:-1]:
            yield encode(PART, u32(what), memoryview(batch.serialize()))
    key_indexes, kinds, ops, times = update.timers
    yield encode(
        UPDATE,
        update.id.to_bytes(8, "little"),
        arrow_blob(_last(update.rows)),
        u32(len(update.states)),
        *(arrow_blob(_last(batches)) for batches in update.states),
        u32(len(times)),
        packed("I", key_indexes),
        bytes(kinds),
        bytes(ops),
        packed("q", times),
        *map(u32, update.fired),
    )


def _last(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    return batches[-1] if batches else None


def arrow_blob(batch: pa.RecordBatch | None) -> bytes:
    """Encode a batch as a blob, an empty one if it has no rows."""
    if batch is None or not batch.num_rows:
        return _EMPTY
    return blob(memoryview(batch.serialize()))
