"""The JVM's end of the calls of a keyed function, in the few rules that tests of workers need."""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pillarbox._async.options import AsyncOptions
from worker.driver import name_of


class Caller:
    """Begins the calls of a frame's rows, one of a key at a time, with retries and deadlines.

    ``told`` has what the worker has told, as (what, id, attempt, ...). Tests that decide themselves
    override ``begin_frame`` and ``hear``.
    """

    def __init__(self, worker: Any, options: AsyncOptions) -> None:
        self.worker = worker
        self.options = options
        self.told: list[tuple[Any, ...]] = []
        self.amounts: list[Any] = []
        self.first = self.next = 0
        self.lines: dict[int, deque[int]] = {}
        self.attempts: dict[int, int] = {}
        self.left = 0
        self.lock = threading.RLock()

    def begin_frame(self, key_indexes: Sequence[int]) -> None:
        """Called when a frame with rows has been sent."""
        with self.lock:
            self.first, self.next = self.next, self.next + len(key_indexes)
            self.left = len(key_indexes)
            self.lines = {}
            for call, key_index in enumerate(key_indexes, self.first):
                self.lines.setdefault(key_index, deque()).append(call)
            for line in self.lines.values():
                self.begin(line[0])

    def hear(self, what: str, call: int, attempt: int, *told: Any) -> None:
        """Called with what the worker tells of an attempt."""
        with self.lock:
            if self.attempts.get(call) == attempt:
                if what == "answered":
                    self.end(call)
                elif what == "failed":
                    self.failed(call, told[0])

    def failed(self, call: int, failure: dict[str, Any]) -> None:
        retry = self.options.retry
        if failure["retryable"] and retry and self.attempts[call] < retry.max_attempts:
            self.begin(call, self.attempts[call] + 1)
        else:
            ends = self.options.on_error == "raise"
            self.fail(call, failure["kind"], failure["message"], ends)
            self.end(call)

    def begin(self, call: int, attempt: int = 1) -> None:
        self.attempts[call] = attempt
        name = bytes.fromhex(name_of(call))
        self.send(struct.pack("<Bqi", 1, call, attempt) + name)
        if limit_ms := self.options.timeout._attempt_ms:
            timer = threading.Timer(limit_ms / 1000, self.timed_out, (call, attempt))
            timer.daemon = True
            timer.start()

    def timed_out(self, call: int, attempt: int) -> None:
        with self.lock:
            if self.attempts.get(call) == attempt:
                self.give_up(call, attempt)
                self.failed(call, {"retryable": True, "kind": "TIMEOUT", "message": "too late"})

    def give_up(self, call: int, attempt: int) -> None:
        self.send(struct.pack("<Bqi", 2, call, attempt))

    def fail(self, call: int, kind: str, message: str, ends_task: bool = False) -> None:
        texts = [text.encode() for text in (name_of(call), kind, message, "")]
        told = b"".join(struct.pack("<I", len(text)) + text for text in texts)
        head = struct.pack("<BqBiq", 3, call, ends_task, self.attempts.get(call, 0), 0)
        self.send(head + told)

    def end(self, call: int) -> None:
        """End a call: the next one of its key begins, and the last one ends the frame."""
        del self.attempts[call]
        line = next(line for line in self.lines.values() if line and line[0] == call)
        line.popleft()
        if line:
            self.begin(line[0])
        self.left -= 1
        if not self.left:
            self.end_frame()

    def end_frame(self) -> None:
        self.send(struct.pack("<Bq", 4, 0))

    def send(self, attempts: bytes) -> None:
        with self.lock, suppress(OSError):  # a worker that has hung up has said why
            self.worker.send(b"W", attempts)
