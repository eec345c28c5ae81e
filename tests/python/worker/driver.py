"""Speaks the JVM's side of the worker protocol, written from the protocol and not from the worker.

``InProcess`` runs the worker in a thread, so that tests share latches with the functions they
send; ``OwnProcess`` in a process, for what ends one.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pillarbox._async.command import Command
from pillarbox._async.options import AsyncOptions
from pillarbox._base.functions import is_async
from pillarbox._base.spark_versions import in_utc
from pillarbox._worker.main import main

LIMIT_S = 20

# Spark's own default: a worker serves one task after another.
os.environ["SPARK_REUSE_WORKER"] = "1"


def options_for(**options: Any) -> AsyncOptions:
    """What ``async_io`` makes of these."""
    if options.pop("journaled", False):
        options["journal"] = "/journal"
    ticketed = options.pop("ticketed", None)
    return AsyncOptions.of("f", {"name": "test", **options}, ticketed)


def command_for(function: Any, returns: Any, inputs: Any, **options: Any) -> Command:
    """What the driver's API would send for these options."""
    return Command(
        function=function,
        is_async=is_async(function),
        is_batch=options.get("batch_size") is not None,
        resource=options.get("resource"),
        retry=options.get("retry"),
        input_schema=schema_of(inputs),
        returns=schema_of(returns),
        name="test",
        has_limits="limit" in options,
    )


def schema_of(columns: str | StructType) -> StructType:
    """A schema of flat columns; Spark's own DDL parser would need a session."""
    if isinstance(columns, StructType):
        return columns
    schema = StructType()
    for column in columns.split(", "):
        schema = schema.add(*column.split(" "))
    return schema


def spec_for(**options: Any) -> dict[str, Any]:
    """A spec as the JVM sends it on, with defaults like ``async_io``."""
    own = ("blocked_loop_ms", "frame_bytes", "look_ahead")
    extra = {key: options.pop(key) for key in own if key in options}
    options.pop("resource", None)
    spec = options_for(**options).to_spec()
    task = {"partition": 3, "stage": 2, "attempt": 1, "task_attempt_id": 17}
    own = {"capacity": spec.pop("figures")["capacity"], **spec.pop("worker")}
    return {**spec, **own, "task": task, "values": {}, **extra}


def name_of(element_id: int) -> str:
    """The name that a call gets from the JVM's end."""
    return f"{element_id:032x}"


def names_of(ids: list[int]) -> bytes:
    """The names of calls as frames have them."""
    return b"".join(bytes.fromhex(name_of(one)) for one in ids)


class Worker:
    """One worker and the JVM's end of its socket."""

    def __init__(self) -> None:
        self.socket, self._theirs = socket.socketpair()
        self.socket.settimeout(LIMIT_S)
        self._stream = self.socket.makefile("rb")
        self._pickled: dict[Any, bytes] = {}
        self._input: pa.Schema
        self._returns: pa.Schema

    def preamble(self, python_version: str | None = None) -> None:
        """What Spark's PythonWorkerUtils writes (big-endian)."""
        version = python_version or ".".join(map(str, sys.version_info[:2]))
        files = os.getcwd()
        # In one piece: a worker that refuses the version hangs up, and then no more can be sent.
        self.socket.sendall(_utf(version) + _utf(files) + struct.pack(">i?i", 0, False, 0))

    def init(
        self,
        function: Any,
        returns: Any = "y long",
        inputs: Any = "x long",
        **options: Any,
    ) -> None:
        """The preamble and INIT."""
        command = command_for(function, returns, inputs, **options)
        key = (function, str(returns), str(inputs), str(sorted(options)))
        self._input = to_arrow_schema(command.input_schema, **in_utc(to_arrow_schema))
        self._returns = to_arrow_schema(command.returns, **in_utc(to_arrow_schema))
        self.preamble()
        if key not in self._pickled:  # pickled once, like a plan that is run many times
            self._pickled[key] = command.dumps()
        self.init_frame(spec_for(**options), self._pickled[key])

    def init_frame(self, spec: dict[str, Any], command: bytes) -> None:
        blocks = (
            json.dumps(spec).encode(),
            self._input.serialize().to_pybytes(),
            self._returns.serialize().to_pybytes(),
            command,
        )
        self.send(b"I", b"".join(struct.pack("<I", len(block)) + block for block in blocks))

    def start(self, function: Any, *arguments: Any, **options: Any) -> Worker:
        """INIT, and waits for READY."""
        self.init(function, *arguments, **options)
        assert self.receive() == ("O", b"")
        return self

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self.socket.sendall(struct.pack("<I", 1 + len(body)) + kind + body)

    def call(self, *rows: Any, ids: list[int] | None = None, attempt: int = 1) -> None:
        """CALLS for ``rows`` (tuples, or bare values of one column), ids from 0 by default."""
        self.send(b"C", self._calls(rows, ids, attempt))

    def group(self, *rows: Any, ids: list[int] | None = None, attempt: int = 1) -> None:
        self.send(b"G", self._calls(rows, ids, attempt))

    def _calls(self, rows: tuple[Any, ...], ids: list[int] | None, attempt: int) -> bytes:
        tuples = [row if isinstance(row, tuple) else (row,) for row in rows]
        columns = [
            pa.array([row[index] for row in tuples], type=field.type)
            for index, field in enumerate(self._input)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._input)
        known = ids or list(range(len(rows)))
        return _keys(known, attempt) + names_of(known) + batch.serialize().to_pybytes()

    def cancel(self, *ids: int, attempt: int = 1) -> None:
        self.send(b"X", _keys(list(ids), attempt))

    def give_up(self, element_id: int) -> None:
        self.send(b"U", struct.pack("<q", element_id))

    def end(self) -> bool:
        """END, and whether the worker says that it is clean."""
        self.send(b"E")
        kind, body = self.receive()
        while kind != "E":
            kind, body = self.receive()
        return bool(body[0])

    def receive(self) -> tuple[str, Any]:
        """The next frame: its type's letter and its parsed body. EOFError at the end."""
        letter, body = self.receive_raw()
        parsers = {"R": self._results, "F": _failures, "T": _fatal}
        return letter, parsers[letter](body) if letter in parsers else body

    def receive_raw(self) -> tuple[str, bytes]:
        """The next frame, with its body as it came."""
        header = self._stream.read(5)
        if len(header) < 5:
            raise EOFError
        length, kind = struct.unpack("<Ic", header)
        body = self._stream.read(length - 1)
        assert len(body) == length - 1
        return kind.decode(), body

    def _results(self, body: bytes) -> list[tuple[int, int, Any]]:
        (count,) = struct.unpack_from("<I", body)
        ids = struct.unpack_from(f"<{count}q", body, 4)
        attempts = struct.unpack_from(f"<{count}i", body, 4 + 8 * count)
        counts = struct.unpack_from(f"<{count}i", body, 4 + 12 * count)
        batch = pa.ipc.read_record_batch(pa.py_buffer(body[4 + 16 * count :]), self._returns)
        batch.validate(full=True)
        rows = iter([tuple(row.values()) for row in batch.to_pylist()])
        results = []
        for element, attempt, size in zip(ids, attempts, counts, strict=True):
            answer = None if size < 0 else [next(rows) for _ in range(size)]
            results.append((element, attempt, answer))
        assert next(rows, None) is None
        return results

    def collect(self, count: int) -> dict[int, Any]:
        """Outcomes of ``count`` elements by id: a list of rows, None, or a failure (a dict)."""
        outcomes: dict[int, Any] = {}
        while len(outcomes) < count:
            kind, body = self.receive()
            assert kind in ("R", "F"), (kind, body)
            for outcome in body:
                assert outcome[0] not in outcomes
                outcomes[outcome[0]] = outcome[2]
        return outcomes

    def close(self) -> None:
        self._stream.close()
        self.socket.close()


class InProcess(Worker):
    """The worker in a thread of this process, called again for each task as the daemon does."""

    def __init__(self) -> None:
        super().__init__()
        self.exit_code: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                fd = self._theirs.fileno()
                with (
                    os.fdopen(os.dup(fd), "rb") as infile,
                    os.fdopen(os.dup(fd), "wb") as outfile,
                ):
                    main(infile, outfile)
        except SystemExit as end:
            self.exit_code = int(end.code or 0)
        finally:
            self._theirs.close()

    def join(self) -> int | None:
        """Waits for the end; the exit code."""
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        return self.exit_code

    def close(self) -> None:
        super().close()
        self.join()


_SOURCES = [
    str(Path(main.__code__.co_filename).parents[2]),
    str(Path(__file__).parents[1]),
]
_RUN = """
import os, sys
sys.path[:0] = {sources!r}
from pyspark_pillarbox import main
while True:
    infile, outfile = os.fdopen(os.dup({fd}), "rb"), os.fdopen(os.dup({fd}), "wb")
    main(infile, outfile)
"""


class OwnProcess(Worker):
    """The worker in a process of its own."""

    def __init__(self) -> None:
        super().__init__()
        fd = self._theirs.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _RUN.format(sources=_SOURCES, fd=fd)],
            pass_fds=[fd],
            stderr=subprocess.PIPE,
            text=True,
        )
        self._theirs.close()

    def join(self) -> tuple[int, str]:
        """Waits for the end; exit code and stderr."""
        _, stderr = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, stderr

    def close(self) -> None:
        super().close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def _utf(text: str) -> bytes:
    return struct.pack(">i", len(text.encode())) + text.encode()


def _keys(ids: list[int], attempt: int) -> bytes:
    count = len(ids)
    return struct.pack(f"<I{count}q", count, *ids) + struct.pack(f"<{count}i", *[attempt] * count)


def _failures(body: bytes) -> list[tuple[int, int, dict[str, Any]]]:
    (count,), at = struct.unpack_from("<I", body), 4
    failures = []
    for _ in range(count):
        element, attempt, flags, delay = struct.unpack_from("<qiBq", body, at)
        texts, at = _texts(body, at + 21, 3)
        failure = dict(zip(("kind", "message", "traceback"), texts, strict=True))
        failure.update(retryable=bool(flags & 1), delay=delay)
        failures.append((element, attempt, failure))
    assert at == len(body)
    return failures


def _fatal(body: bytes) -> dict[str, Any]:
    (told,), at = _texts(body, 0, 1)
    assert at == len(body)
    report: dict[str, Any] = json.loads(told)
    return report


def _texts(body: bytes, at: int, count: int) -> tuple[list[str], int]:
    texts = []
    for _ in range(count):
        (size,) = struct.unpack_from("<I", body, at)
        texts.append(body[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return texts, at
