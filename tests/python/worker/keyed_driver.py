"""The JVM's side of the keyed protocol, written from its page and not from the worker's codec.

``Store`` is a stand-in for the operator: it keeps state and timers of all keys between frames.
"""

from __future__ import annotations

import json
import pickle
import struct
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from pillarbox._arrow.ddl import parse_columns
from pillarbox._base.spark_versions import in_utc
from pillarbox._keyed.command import KeyedCommand
from pillarbox._keyed.output import wire_schema
from pillarbox._keyed_async.options import keyed_calls
from worker.caller import Caller
from worker.driver import InProcess, OwnProcess

NONE = -(1 << 63)
BATCH, TIME_SORTED, TIMERS_ON_DEMAND, KEEP = 1, 2, 4, 8


def arrow(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, **in_utc(to_arrow_schema))


def schema_of(columns: str | StructType) -> StructType:
    return columns if isinstance(columns, StructType) else parse_columns(columns, "columns")


def _blob(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _batch(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> bytes:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(c), type=f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema).serialize().to_pybytes()


class Body:
    """Reads a body from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def one(self, layout: str) -> Any:
        return self.take(layout)[0]

    def blob(self) -> bytes:
        size = self.one("I")
        self.at += size
        return self.data[self.at - size : self.at]

    def done(self) -> None:
        assert self.at == len(self.data)


class Keyed:
    """Mixed into a worker: starts a keyed function and sends it frames."""

    big: frozenset[str] = frozenset()  # states whose content is only given on demand
    notes: list[tuple[str, str]]  # of calls: kind, text
    make_caller: Any = Caller
    caller: Caller | None = None  # decides on the calls of a function that makes some

    def start_keyed(
        self,
        function: Any,
        *,
        by: str = "k string",
        inputs: str = "k string, x long",
        returns: Any = "k string, y long",
        side_outputs: dict[str, StructType] | None = None,
        form: str = "row",
        calls: dict[str, Any] | None = None,
        **spec: Any,
    ) -> Any:
        self.notes = []
        self.key_schema = schema_of(by)
        self.input_schema = schema_of(inputs)
        self.returns_schema = schema_of(returns)
        sides = side_outputs or {}
        made = None if calls is None else keyed_calls("test", calls, self.returns_schema)
        self.caller = None if made is None else self.make_caller(self, made.options)
        command = KeyedCommand(
            function,
            form,
            self.input_schema,
            self.key_schema,
            self.returns_schema if made is None else made.output,
            sides,
            made,
        )
        self.keys_arrow, self.rows_arrow = (
            arrow(self.key_schema),
            arrow(self.input_schema),
        )
        self._input = self.rows_arrow
        self._returns = self.out_arrow = arrow(wire_schema(command.returns, sides))
        self.preamble()
        task = {"partition": 0, "stage": 0, "attempt": 0, "task_attempt_id": 1}
        defaults = {
            "kind": "keyed",
            "name": "test",
            "event_time": True,
            "time_sorted": False,
            "blocked_loop_ms": 5000,
            "values": {},
        }
        self.init_frame({**defaults, "task": task, **spec}, command.dumps())
        kind, body = self.receive()
        if kind != "O":
            return kind, body
        ready = Body(body)
        self.states = json.loads(ready.blob())["states"]
        ready.done()
        self.send_schemas()
        self.frame_id = 0
        return self

    def receive(self) -> tuple[str, Any]:
        """The next frame that is an answer; what comes besides is kept."""
        besides = {
            "N": self._note, "D": self._answered, "F": self._failed, "S": self._used,
            "L": self._told, "M": self._amounts,
        }  # fmt: skip
        while True:
            kind, body = super().receive()  # type: ignore[misc]
            if kind not in besides:
                return kind, body
            besides[kind](body)

    def _note(self, data: bytes) -> None:
        note = Body(data)
        self.notes.append((note.blob().decode(), note.blob().decode()))
        note.done()

    def _tell(self, *told: Any) -> None:
        assert self.caller is not None
        self.caller.told.append(told)
        self.caller.hear(*told)

    def _answered(self, data: bytes) -> None:
        body = Body(data)
        n = body.one("I")
        for call, attempt in zip(body.take(f"{n}q"), body.take(f"{n}i"), strict=True):
            self._tell("answered", call, attempt)
        body.done()

    def _failed(self, failures: Any) -> None:
        for call, attempt, failure in failures:
            self._tell("failed", call, attempt, failure)

    def _used(self, data: bytes) -> None:
        body = Body(data)
        units = [body.blob().decode() for _ in range(body.one("I"))]
        for _ in range(body.one("I")):
            call, attempt, unit, amount = body.take("qiid")
            self._tell("used", call, attempt, units[unit], amount)
        body.done()

    def _told(self, data: bytes) -> None:
        body = Body(data)
        for _ in range(body.one("I")):
            self._tell("told", *body.take("qiidd"))
        body.done()

    def _amounts(self, data: bytes) -> None:
        body = Body(data)
        assert self.caller is not None
        for _ in range(body.one("I")):
            if body.one("B"):
                self.caller.amounts.append(tuple(body.blob().decode() for _ in range(3)))
            else:
                self.caller.amounts.append(body.one("d"))
        body.done()

    def send_schemas(self) -> None:
        self.cell_schemas = [self._cell_schema(state) for state in self.states]
        schemas = [self.keys_arrow, self.rows_arrow, *self.cell_schemas]
        blobs = b"".join(_blob(schema.serialize().to_pybytes()) for schema in schemas)
        self.send(b"S", struct.pack("<I", len(schemas)) + blobs)

    def _cell_schema(self, state: dict[str, Any]) -> pa.Schema:
        fields = [StructField("value", StructType.fromJson(json.loads(state["type"])))]
        if state["kind"] == "map":
            fields.insert(
                0,
                StructField("map_key", StructType.fromJson(json.loads(state["key_type"]))),
            )
        if state["kind"] in ("list", "map"):
            fields.insert(0, StructField("key", IntegerType()))
        return arrow(StructType([*fields, StructField("ts", LongType())]))

    def send_frame(
        self, keys: list[Any], events: list[Any], cells: list[Any], timers: list[Any], *,
        watermark: int = NONE, horizon: int = NONE, processing_time: int = 0, flags: int = 0,
        held: int = 0, ended: int = 0,
    ) -> int:  # fmt: skip
        """``events``: (kind, key index, time, row or None); ``timers``: (key index, kind, time).

        ``keys`` and ``cells`` are those of the new keys only, behind the ``held`` ones.
        """
        self.frame_id += 1
        n, t = len(events), len(timers)
        key_rows = [key if isinstance(key, tuple) else (key,) for key in keys]
        rows = [event[3] for event in events if event[0] == 0]
        parts = [
            struct.pack(
                "<QqqqBIIII",
                self.frame_id,
                watermark,
                horizon,
                processing_time,
                flags,
                held,
                len(keys),
                ended,
                n,
            ),
            bytes(event[0] for event in events),
            struct.pack(f"<{n}I", *(event[1] for event in events)),
            struct.pack(f"<{n}q", *(event[2] for event in events)),
            _blob(_batch(self.keys_arrow, key_rows)),
            _blob(_batch(self.rows_arrow, rows)) if rows else _blob(b""),
            struct.pack("<I", len(self.states)),
            *map(_blob, cells),
            struct.pack(f"<I{t}I", t, *(timer[0] for timer in timers)),
            bytes(timer[1] for timer in timers),
            struct.pack(f"<{t}q", *(timer[2] for timer in timers)),
        ]
        self.send(b"K", b"".join(parts))
        if self.caller is not None and events:
            self.caller.begin_frame([event[1] for event in events])
        return self.frame_id

    def parse_update(self, data: bytes) -> dict[str, Any]:
        body = Body(data)
        frame_id = body.one("Q")
        rows = self.read(body.blob(), self.out_arrow)
        changes = [self._changes(state, body.blob()) for state in self._each(body)]
        t = body.one("I")
        timers = list(
            zip(
                body.take(f"{t}I"),
                body.take(f"{t}B"),
                body.take(f"{t}B"),
                body.take(f"{t}q"),
                strict=True,
            )
        )
        fired = body.take("II")
        body.done()
        return {
            "id": frame_id,
            "rows": rows,
            "changes": changes,
            "timers": timers,
            "fired": fired,
        }

    def _each(self, body: Body) -> list[dict[str, Any]]:
        assert body.one("I") == len(self.states)
        return self.states

    def _changes(self, state: dict[str, Any], blob: bytes) -> list[tuple[Any, ...]]:
        cells = self.cell_schemas[self.states.index(state)]
        fields = [pa.field("key", pa.int32())]
        if state["kind"] in ("list", "map"):
            fields.append(pa.field("op", pa.int8()))
        if state["kind"] == "map":
            fields.append(cells.field("map_key"))
        fields += [cells.field("value"), cells.field("ts")]
        return self.read(blob, pa.schema(fields))

    @staticmethod
    def read(blob: bytes, schema: pa.Schema) -> list[tuple[Any, ...]]:
        if not blob:
            return []
        batch = pa.ipc.read_record_batch(pa.py_buffer(blob), schema)
        batch.validate(full=True)
        return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


class KeyedInProcess(Keyed, InProcess):
    """A keyed worker in a thread of this process."""


class KeyedOwnProcess(Keyed, OwnProcess):
    """A keyed worker in a process of its own."""


class Store:
    """Keeps what a worker sends back; gives it along with the next frame, or when asked.

    After frames that are ``run`` with the flag ``KEEP`` the worker holds the keys.
    """

    page_entries = 1 << 14

    def __init__(self, worker: Any, timers_on_demand: bool = False) -> None:
        self.worker = worker
        self.timers_on_demand = timers_on_demand
        self.cells: dict[tuple[str, Any], Any] = {}
        self.timers: set[tuple[Any, int, int]] = set()
        self.queries: list[tuple[str, int]] = []
        self.sent: list[list[Any]] = []  # of each frame its new keys
        self.held: list[Any] = []
        self.fired = (0, 0)
        self.first_watermark = NONE

    def start_lives(self, watermark: int) -> None:
        """What was written before any watermark lives from the first one that is known."""
        if watermark == NONE or self.first_watermark != NONE:
            return
        self.first_watermark = watermark
        live = self._stamped
        for cell, content in self.cells.items():
            if isinstance(content, dict):
                self.cells[cell] = {key: live(one) for key, one in content.items()}
            elif isinstance(content, list):
                self.cells[cell] = [live(one) for one in content]
            else:
                self.cells[cell] = live(content)

    def _stamped(self, one: tuple[Any, int]) -> tuple[Any, int]:
        return one[0], self.first_watermark if one[1] == NONE else one[1]

    def run(self, events: list[Any], keys: list[Any] | None = None, **clocks: Any) -> Any:
        """Events are (kind, key, time, row); gives the rows that come back."""
        self.start_lives(clocks.get("watermark", NONE))
        keys = list(dict.fromkeys(event[1] for event in events)) if keys is None else keys
        held = len(self.held)
        keys = self.held + [key for key in keys if key not in self.held]
        new = keys[held:]
        index = {key: at for at, key in enumerate(keys)}
        self.timers -= {(key, kind, time) for kind, key, time, _ in events if kind}
        listed = [(index[k], kind, time) for k, kind, time in sorted(self.timers) if k in index]
        if self.timers_on_demand:
            listed, clocks["flags"] = [], clocks.get("flags", 0) | TIMERS_ON_DEMAND
        sent = [(kind, index[key], time, row) for kind, key, time, row in events]
        frame = self.worker.send_frame(new, sent, self._blobs(new), listed, held=held, **clocks)
        self.sent.append(new)
        self.held = keys if clocks.get("flags", 0) & KEEP else []
        kind, body = self.worker.receive()
        while kind == "Q":
            self._answer(keys, frame, body)
            kind, body = self.worker.receive()
        if kind != "U":
            return [(kind, body)]
        update = self.worker.parse_update(body)
        assert update["id"] == frame
        if self.held:
            assert not any(update["changes"])
        self._check_ended(update, clocks.get("ended", 0))
        self._apply(keys, update)
        return update["rows"]

    @staticmethod
    def _check_ended(update: dict[str, Any], ended: int) -> None:
        """Nothing comes back of keys that have ended."""
        key_indexes = [change[0] for changes in update["changes"] for change in changes]
        key_indexes += [timer[0] for timer in update["timers"]]
        assert all(key_index >= ended for key_index in key_indexes)

    def _blobs(self, keys: list[Any]) -> list[bytes]:
        return [
            self._blob(keys, state, schema)
            for state, schema in zip(self.worker.states, self.worker.cell_schemas, strict=True)
        ]

    def _blob(self, keys: list[Any], state: dict[str, Any], schema: pa.Schema) -> bytes:
        name, kind = state["name"], state["kind"]
        if kind not in ("list", "map"):
            return _batch(schema, [self.cells.get((name, key), (None, 0)) for key in keys])
        is_big = name in self.worker.big
        flags = bytes(is_big and (name, key) in self.cells for key in keys)
        rows = [] if is_big else [
            row for index, key in enumerate(keys) for row in self._entries(state, index, key)
        ]  # fmt: skip
        return flags + _batch(schema, rows)

    def _entries(self, state: dict[str, Any], key_index: int, key: Any) -> list[tuple[Any, ...]]:
        cell = self.cells.get((state["name"], key), ())
        if state["kind"] == "list":
            return [(key_index, value, stamp) for value, stamp in cell]
        return [
            (key_index, pickle.loads(k), value, stamp) for k, (value, stamp) in dict(cell).items()
        ]

    def _answer(self, keys: list[Any], frame: int, data: bytes) -> None:
        body = Body(data)
        frame_id, at, key_index, op = body.take("QIIB")
        if at == 0xFFFFFFFF:
            self._answer_timers(keys[key_index], frame_id)
            return
        state = self.worker.states[at]
        schema = self.worker.cell_schemas[at]
        blob = body.blob()
        body.done()
        assert frame_id == frame
        self.queries.append((state["name"], op))
        rows = self._entries(state, key_index, keys[key_index])
        if op == 1:
            ((wanted,),) = self.worker.read(blob, pa.schema([schema.field("map_key")]))
            rows = [row for row in rows if row[1] == wanted]
        rows = rows[:1] if op == 2 else rows
        place = b""
        if op == 0:
            start = int.from_bytes(blob, "little")
            stop = start + self.page_entries
            place = stop.to_bytes(4, "little") if stop < len(rows) else b""
            rows = rows[start:stop]
        self._send_answer(frame_id, _batch(schema, rows), place)

    def _send_answer(self, frame_id: int, entries: bytes, place: bytes = b"") -> None:
        self.worker.send(b"A", struct.pack("<Q", frame_id) + _blob(place) + _blob(entries))

    def _answer_timers(self, wanted: Any, frame_id: int) -> None:
        self.queries.append(("timers", 0))
        found = [struct.pack("<Bq", kind, time) for k, kind, time in self.timers if k == wanted]
        self._send_answer(frame_id, b"".join(found))

    def _apply(self, keys: list[Any], update: dict[str, Any]) -> None:
        self.fired = tuple(map(sum, zip(self.fired, update["fired"], strict=True)))
        for state, changes in zip(self.worker.states, update["changes"], strict=True):
            for key_index, *change in changes:
                cell = (state["name"], keys[key_index])
                getattr(self, "_" + state["kind"], self._value)(cell, *change)
        for key_index, kind, op, time in update["timers"]:
            timer = (keys[key_index], kind, time)
            if not self.timers_on_demand:
                assert (timer in self.timers) == bool(op)
            self.timers = self.timers - {timer} if op else self.timers | {timer}

    def _value(self, cell: Any, value: Any, stamp: int) -> None:
        self.cells.pop(cell, None)
        if value is not None:
            self.cells[cell] = (value, stamp)

    def _list(self, cell: Any, op: int, value: Any, stamp: int) -> None:
        now = self.cells.get(cell, [])
        now = {
            0: lambda: [*now, (value, stamp)],
            1: lambda: [],
            2: lambda: [one for one in now if one[1] > stamp or one[1] == NONE],
            3: lambda: [(v, max(s, stamp)) for v, s in now],
            4: lambda: [(v, stamp if s == NONE else s) for v, s in now],
        }[op]()
        self.cells[cell] = now
        if not now:
            del self.cells[cell]

    def _map(self, cell: Any, op: int, key: Any, value: Any, stamp: int) -> None:
        entries = dict(self.cells.pop(cell, {}))
        if op == 2:
            entries = {}
        elif op == 1:
            entries.pop(pickle.dumps(key), None)
        else:
            entries[pickle.dumps(key)] = (value, stamp)
        if entries:
            self.cells[cell] = entries
