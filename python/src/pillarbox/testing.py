"""Runs a keyed process function in plain Python, without Spark: for its unit tests::

    harness = Harness(fn, by="k", input="k string, t bigint, ts timestamp", returns="k string",
                      timestamp="ts")
    assert harness.process({"k": "a", "t": 1, "ts": start}) == [Row(k="a")]

The function runs on the very runtime that the workers use: state, TTL and timers behave alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from ._arrow.ddl import parse_columns
from ._arrow.fields import Place
from ._arrow.lists import row_class
from ._base.checks import column_names
from ._harness import snapshot as snapshots
from ._harness.loop import HarnessLoop
from ._harness.memory import KeySpace, hashable, visible
from ._keyed.context import EVENT_TIMER, PROCESSING_TIMER, ROW, UNKNOWN
from ._keyed.function import (
    ArrowKeyedProcessFunction,
    AsyncKeyedProcessFunction,
    KeyedProcessFunction,
)
from ._keyed.input_columns import order_key, timestamp_reader
from ._keyed.methods import check_methods, instead_of
from ._keyed.output import row_acceptor, without_none
from ._keyed.runtime import KeyedRuntime
from ._keyed.surface import Timer
from ._keyed.timers import epoch_ms
from ._keyed_async.options import CallOptions, KeyedCalls
from ._keyed_async.runtime import AsyncKeyedRuntime
from .errors import PillarboxError, error, shown

if TYPE_CHECKING:
    from ._async.options import Duration, OnError
    from .retry import Retry

__all__ = ["Harness", "Timer"]


class Harness:
    """One function over all its keys, with clocks that are moved by hand.

    ``process(row)`` is a micro-batch of one row, ``process_batch`` one of many: first its rows,
    then the timers that are due. What the function raises comes out unchanged. As on Spark, order
    is promised within a key only. Not for several threads.

    Parameters
    ----------
    fn: the function; it is opened at once.
    by: name or names of the key columns.
    input, returns: columns, as in ``process_keyed``, as a DDL string or StructType.
    timestamp: the column with a row's event time: a timestamp, or (for short tests) a bigint of
        epoch ms. Rows at or before the watermark are dropped and counted in ``late_rows``, as
        Spark does.
    order_by, time_sorted, side_outputs: as in ``process_keyed``.
    processing_time: where that clock begins, in epoch ms or as a datetime.
    capacity, timeout, attempt_timeout, retry, on_error, error_column, resource: of an asynchronous
        function, as in ``process_keyed``. Its calls run on an event loop of the harness, and
        only while a method such as ``process`` does.

    Raises :class:`InvalidFunction`, :class:`InvalidOption`, :class:`InvalidSchema` or, for what
    ``open`` declares, :class:`StateError`; rows that do not fit raise
    :class:`ResultTypeMismatch`.
    """

    def __init__(
        self,
        fn: KeyedProcessFunction | AsyncKeyedProcessFunction,
        *,
        by: str | Sequence[str],
        input: str | t.StructType,
        returns: str | t.StructType,
        timestamp: str | None = None,
        order_by: str | Sequence[str] | None = None,
        time_sorted: bool = False,
        side_outputs: dict[str, str | t.StructType] | None = None,
        processing_time: int | datetime = 0,
        capacity: int | None = None,
        timeout: Duration | None = None,
        attempt_timeout: Duration | None = None,
        retry: Retry | None = None,
        on_error: OnError | None = None,
        error_column: str | None = None,
        resource: Callable[[], Any] | None = None,
    ) -> None:
        if not isinstance(fn, (KeyedProcessFunction, AsyncKeyedProcessFunction)):
            raise _not_for_the_harness(fn)
        check_methods(fn)
        columns = _columns(input, "input")
        self._accept_row = row_acceptor(columns, Place(error="INPUT_TYPE_MISMATCH"))
        output = _columns(returns, "returns")
        given = CallOptions(
            capacity, timeout, attempt_timeout, retry, on_error, error_column, resource
        )
        self._loop: HarnessLoop | None = None
        calls = None
        if isinstance(fn, AsyncKeyedProcessFunction):
            calls = given.calls(type(fn).__name__, output)
            output = calls.output
        else:
            given.refuse("for a function whose process is no coroutine")
        self._accept_output = row_acceptor(output, Place())
        self._key_of = _key_reader(columns, column_names("by", by))
        self._time_of = timestamp_reader(columns, timestamp, time_sorted)
        self._order = order_key(columns, order_by)
        self._sorted = time_sorted
        sides = side_outputs or {}
        self._sides: dict[str, list[Any]] = {tag: [] for tag in sides}
        tags = {tag: row_acceptor(_columns(kind, tag), Place(tag)) for tag, kind in sides.items()}
        self._runtime = self._made(fn, calls, columns, sorted_input=time_sorted, tags=tags)
        self._runtime.open()
        self._space = KeySpace(self._runtime)
        self._watermark = UNKNOWN
        self._processing_time = epoch_ms(processing_time)
        self._arrived = 0
        self._waiting: list[tuple[int, Any, int, int, Any]] = []
        self.late_rows = 0

    def _made(
        self, fn: Any, calls: KeyedCalls | None, columns: t.StructType, **options: Any
    ) -> KeyedRuntime:
        if calls is None:
            return KeyedRuntime(fn, type(fn).__name__, **options)
        runtime = AsyncKeyedRuntime(fn, type(fn).__name__, calls, columns, **options)
        self._loop = HarnessLoop()
        opened = self._loop.open(calls.resource)
        runtime.begin_task(self._loop.run, *opened)
        return runtime

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        fn: KeyedProcessFunction | AsyncKeyedProcessFunction,
        **options: Any,
    ) -> Harness:
        """A harness that goes on where ``snapshot`` was taken; ``options`` as for a new one.

        Raises ``StateError`` if the function declares its states in a way that does not fit.
        """
        harness = cls(fn, **options)
        runtime, space = harness._runtime, harness._space
        clocks = snapshots.restore(snapshot, runtime, space, harness._processing_time)
        harness._watermark = clocks["watermark"]
        runtime.context._first_watermark = clocks.get("first_watermark", UNKNOWN)
        harness._processing_time = clocks["processing_time"]
        harness._waiting = [
            (time, order, number, slot, harness._accept_row(row))
            for time, order, number, slot, row in clocks["waiting"]
        ]
        harness._arrived = clocks["arrived"]
        harness.late_rows = clocks["late_rows"]
        return harness

    def snapshot(self) -> bytes:
        """State, timers, waiting rows and clocks."""
        clocks = {
            "watermark": self._watermark,
            "first_watermark": self._runtime.context._first_watermark,
            "processing_time": self._processing_time,
            "waiting": self._waiting,
            "arrived": self._arrived,
            "late_rows": self.late_rows,
        }
        return snapshots.take(self._runtime, self._space, clocks)

    @property
    def watermark(self) -> int | None:
        """Epoch ms; None before the first one."""
        return None if self._watermark == UNKNOWN else self._watermark

    @property
    def processing_time(self) -> int:
        """Epoch ms."""
        return self._processing_time

    def process(self, row: Any) -> list[t.Row]:
        """A micro-batch of one row; the rows that come out."""
        return self.process_batch([row])

    def process_batch(
        self,
        rows: Iterable[Any],
        *,
        watermark: int | datetime | None = None,
        processing_time: int | datetime | None = None,
    ) -> list[t.Row]:
        """A micro-batch: its rows as they come (or by ``order_by``), then the timers that are due.

        ``processing_time`` is the time of the micro-batch, which the clock moves to before the
        rows, ``watermark`` what it moves to between the two (neither back), as on Spark; else they
        stand. With ``time_sorted`` rows wait until the
        watermark has reached them.
        """
        before = self._watermark
        if processing_time is not None:
            self._processing_time = max(self._processing_time, epoch_ms(processing_time))
        accepted = [(self._time_of(row), row) for row in map(self._accept_row, rows)]
        on_time = [(time, row) for time, row in accepted if not self._is_late(time)]
        self.late_rows += len(accepted) - len(on_time)
        self._begin()
        if self._sorted:
            self._wait(on_time)
        else:
            if self._order is not None:
                order = self._order
                on_time.sort(key=lambda pair: order(pair[1]))
            slots = [self._space.slot(self._key_of(row)) for _, row in on_time]
            times = [None if time is None else time // 1000 for time, _ in on_time]
            self._runtime.run_rows(slots, times, [row for _, row in on_time])
        if watermark is not None:
            self._watermark = max(before, epoch_ms(watermark))
            context = self._runtime.context
            if context._first_watermark == UNKNOWN:
                context._first_watermark = self._watermark
        return self._settled(before)

    def advance_watermark(self, watermark: int | datetime) -> list[t.Row]:
        """Moves the watermark forward (never back) and fires the event-time timers up to it."""
        return self.process_batch((), watermark=watermark)

    def advance_processing_time(self, time: int | datetime) -> list[t.Row]:
        """Moves the clock forward (never back) and fires the processing-time timers up to it."""
        return self.process_batch((), processing_time=time)

    def run_batch(self, rows: Iterable[Any]) -> list[t.Row]:
        """What a batch DataFrame of ``rows`` gives: key by key, all timers fire at a key's end.

        There is no watermark and no late row, and no state is left. For a harness without keys.
        """
        by_key: dict[Any, list[Any]] = {}
        for row in map(self._accept_row, rows):
            by_key.setdefault(hashable(self._key_of(row)), []).append(row)
        emitted = []
        for own in by_key.values():
            emitted += self._run_key(own)
        return emitted

    def state(self, name: str, key: Any) -> Any:
        """What the function would see of a state: a value, list or dict; nothing is touched.

        Raises :class:`StateError` for a name that was not declared.
        """
        state = self._runtime.registry[name]
        slot = self._space.find(key)
        self._runtime.set_clocks(self._watermark, self._processing_time)
        return visible(state, self._space.slot(key) if slot is None else slot)

    def timers(self, key: Any) -> list[Timer]:
        """The timers of a key, the earliest first."""
        slot = self._space.find(key)
        return [] if slot is None else list(self._runtime.timers.of(slot))

    def side_output(self, tag: str) -> list[t.Row]:
        """All rows that were emitted to a side output so far. ``StateError`` for an unknown one."""
        if tag not in self._sides:
            declared = ", ".join(map(repr, self._sides)) or "none"
            raise error("UNKNOWN_SIDE_OUTPUT", tag=shown(tag), declared=declared)
        return list(self._sides[tag])

    def close(self) -> None:
        """Closes the function, and the resource of an asynchronous one."""
        self._runtime.function.close()
        if self._loop is not None:
            assert isinstance(self._runtime, AsyncKeyedRuntime)
            self._runtime.end_task()
            self._loop.close()
            self._loop = None

    def _is_late(self, micros: int | None) -> bool:
        watermark = self._watermark
        return micros is not None and watermark != UNKNOWN and micros <= watermark * 1000

    def _begin(self) -> None:
        self._runtime.set_clocks(self._watermark, self._processing_time)
        self._runtime.begin(self._space.keys)

    def _wait(self, rows: list[tuple[int | None, Any]]) -> None:
        for micros, row in rows:
            assert micros is not None
            slot = self._space.slot(self._key_of(row))
            heapq.heappush(self._waiting, (micros, self._tie(row), self._arrived, slot, row))
            self._arrived += 1

    def _tie(self, row: Any) -> Any:
        """Tells rows of one time apart by what is in them, not by when they came."""
        return () if self._order is None else self._order(row), repr(tuple(row))

    def _run_key(self, rows: list[Any]) -> list[t.Row]:
        self._watermark = self._runtime.context._first_watermark = UNKNOWN
        self._begin()
        runtime, slot = self._runtime, self._space.slot(self._key_of(rows[0]))
        timed = [(self._time_of(row), row) for row in rows]
        order = self._order
        if order is not None:
            timed.sort(key=lambda pair: order(pair[1]))
        if self._sorted:
            timed.sort(key=lambda pair: (pair[0], self._tie(pair[1])))
            self._run([(_up(micros), ROW, slot, row) for micros, row in timed], UNKNOWN)
        else:
            times = [None if micros is None else micros // 1000 for micros, _ in timed]
            runtime.run_rows([slot] * len(timed), times, [row for _, row in timed])
        runtime.finish_keys([slot])
        self._space.drop(slot)
        return self._emitted()

    def _settled(self, reached: int) -> list[t.Row]:
        """Runs what is due, event time first, until nothing is; then what was emitted.

        ``reached``: how far time has come, where keys have a time each.
        """
        runtime, watermark, now = self._runtime, self._watermark, self._processing_time
        while True:
            if event_time := self._due_in_event_time():
                runtime.set_clocks(reached if self._sorted else watermark, now)
                self._run(event_time, watermark)
            reached = watermark
            timers = [
                (time, PROCESSING_TIMER, slot, None)
                for time, slot in runtime.timers.due(PROCESSING_TIMER, now)
            ]
            if not timers and not event_time:
                break
            runtime.set_clocks(watermark, now)
            self._run(timers, now)
        runtime.timers.committed()
        return self._emitted()

    def _due_in_event_time(self) -> list[tuple[int, int, int, Any]]:
        """Waiting rows and timers, in the order of time, rows first."""
        watermark = self._watermark
        if watermark == UNKNOWN:
            return []
        events: list[tuple[int, int, int, Any]] = []
        while self._waiting and self._waiting[0][0] <= watermark * 1000:
            micros, _, _, slot, row = heapq.heappop(self._waiting)
            events.append((_up(micros), ROW, slot, row))
        due = self._runtime.timers.due(EVENT_TIMER, watermark)
        events += [(time, EVENT_TIMER, slot, None) for time, slot in due]
        return sorted(events, key=lambda event: event[:2])

    def _run(self, events: list[tuple[int, int, int, Any]], horizon: int) -> None:
        times, kinds, slots, rows = zip(*events, strict=True) if events else ((), (), (), ())
        own = [row for row, kind in zip(rows, kinds, strict=True) if kind == ROW]
        self._runtime.run_events(kinds, slots, times, own, horizon)

    def _emitted(self) -> list[t.Row]:
        runtime = self._runtime
        runtime.end()
        for tag, _, row in runtime.context.side_rows:
            self._sides[tag].append(row)
        runtime.context.side_rows = []
        rows, _ = without_none(runtime.rows, runtime.ends)
        return [self._accept_output(row) for row in rows]


def _not_for_the_harness(fn: object) -> PillarboxError:
    advice = instead_of(fn)
    if isinstance(fn, ArrowKeyedProcessFunction):
        advice = "Test the column form on Spark, or its process with Arrow arrays."
    return error(
        "NOT_A_KEYED_FUNCTION",
        expected="an object of a pb.KeyedProcessFunction or a pb.AsyncKeyedProcessFunction",
        value=shown(fn),
        advice=advice,
    )


def _up(micros: int | None) -> int:
    """Times of time-sorted rows are rounded up to ms: a row within a millisecond comes after the
    timer at its start, and after a watermark there, wherever the input is cut."""
    assert micros is not None
    return -(-micros // 1000)


def _columns(columns: str | t.StructType, option: str) -> t.StructType:
    return columns if isinstance(columns, t.StructType) else parse_columns(columns, option)


def _key_reader(columns: t.StructType, by: tuple[str, ...]) -> Any:
    for name in by:
        if name not in columns.names:
            raise error("UNKNOWN_KEY_COLUMN", column=name, available=", ".join(columns.names))
    positions = [columns.names.index(name) for name in by]
    if len(positions) == 1:
        return lambda row: row[positions[0]]
    make, new = row_class(by), tuple.__new__
    return lambda row: new(make, [row[position] for position in positions])
