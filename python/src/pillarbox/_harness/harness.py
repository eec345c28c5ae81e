"""One keyed function over all its keys, with clocks that are moved by hand."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from .._arrow.fields import Place
from .._arrow.schema import parse_returns
from .._async.options import options_of_jvm
from .._base.checks import needs_other
from .._keyed.context import EVENT_TIMER, PROCESSING_TIMER, ROW, UNKNOWN
from .._keyed.function import AsyncKeyedProcessFunction, KeyedProcessFunction
from .._keyed.input_columns import order_key, timestamp_reader
from .._keyed.methods import check_methods
from .._keyed.options import KeyedOptions
from .._keyed.output import LATE, check_names, row_acceptor
from .._keyed.runtime import KeyedRuntime
from .._keyed.surface import Timer
from .._keyed.tagged import union_time
from .._keyed.timers import epoch_ms
from .._keyed_async.key_queues import KeyQueues
from .._keyed_async.options import KeyedCalls, keyed_calls
from .._keyed_async.runtime import AsyncKeyedRuntime
from ..errors import ResultTypeMismatch, error, shown
from . import snapshot as snapshots
from .columns import columns_of, key_acceptor, key_reader, keys_of, up_to_ms
from .loop import HarnessLoop
from .memory import KeySpace, hashable, visible
from .telling import telling
from .virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from typing_extensions import Self


class Harness:
    """The base of both kinds of harness, which are documented in ``pillarbox.testing``."""

    def __init__(
        self,
        function: KeyedProcessFunction | AsyncKeyedProcessFunction,
        by: str | Sequence[str],
        schema: str | t.StructType | type[Any],
        returns: str | t.StructType | type[Any],
        processing_time: int | datetime,
        given: Mapping[str, object],
        makes_calls: bool = False,
    ) -> None:
        check_methods(function)
        options = KeyedOptions.of(type(function).__name__, by, given)
        columns = columns_of(schema)
        self._accept_row = row_acceptor(columns, Place(error="INPUT_TYPE_MISMATCH"))
        output = parse_returns(returns, None)
        calls = keyed_calls(options.name, given, output) if makes_calls else None
        output = output if calls is None else calls.output
        self._accept_output = row_acceptor(output, Place())
        keys = keys_of(columns, options.by)
        self._note = snapshots.Note(keys, columns, options.time_sorted)
        self._accept_key = key_acceptor(keys)
        self._key_of = key_reader(columns, keys)
        self._take_times(columns, options)
        sides = options.side_outputs or {}
        check_names(output, sides, options.on_late, case_sensitive=False)
        late = (LATE,) if options.on_late == "output" else ()
        self._sides: dict[str, list[Any]] = {tag: [] for tag in (*sides, *late)}
        tags = {
            tag: row_acceptor(parse_returns(kind, None, f"side_outputs[{tag!r}]"), Place(tag))
            for tag, kind in sides.items()
        }
        self._loop: HarnessLoop | None = None
        self._runtime = self._made(
            function, options.name, calls, columns, keys, sorted_input=self._sorted, tags=tags
        )
        self._runtime.context._key_names = keys.names
        self._is_open = True
        try:
            self._runtime.open()
        except BaseException:
            self._end_calls()
            raise
        self._by_event_time |= self._runtime.uses_event_time
        self._space = KeySpace(self._runtime)
        self._watermark = UNKNOWN
        self._processing_time = epoch_ms(processing_time)
        self._arrived = 0
        self._waiting: list[tuple[int, Any, int, int, Any]] = []
        self.late_rows = 0

    def _take_times(self, columns: t.StructType, options: KeyedOptions) -> None:
        timestamp, self._sorted = options.timestamp, options.time_sorted
        self._by_event_time = self._sorted or timestamp is not None
        if timestamp is None and (time := union_time(columns)) is not None:
            timestamp = time.name
        self._time_of = timestamp_reader(columns, timestamp, self._sorted)
        self._order = order_key(columns, options.order_by, None if self._sorted else timestamp)
        self._on_late = options.on_late
        if self._on_late != "drop" and timestamp is None:
            advice = "Name the column of the watermark by timestamp=."
            raise needs_other("on_late", self._on_late, "in a harness without timestamp", advice)

    def _made(
        self,
        function: Any,
        name: str,
        calls: KeyedCalls | None,
        *schemas: t.StructType,
        **options: Any,
    ) -> KeyedRuntime:
        if calls is None:
            return KeyedRuntime(function, name, **options)
        for option, _ in options_of_jvm(calls.options):
            if option != "limit.unit":
                raise error("HARNESS_NEEDS_SPARK", option=option)
        runtime = AsyncKeyedRuntime(function, name, calls, *schemas, **options)
        self._loop = HarnessLoop(VirtualLoop())
        opened = self._loop.open(calls.options.resource)
        runtime.begin_task(self._loop.run, *opened, KeyQueues)
        return runtime

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        function: KeyedProcessFunction | AsyncKeyedProcessFunction,
        **options: Any,
    ) -> Self:
        """Return a harness that continues from ``snapshot``; ``options`` as for a new one.

        Raises ``InvalidOption`` (RESTORE_WITHOUT_OPTIONS) if one is missing that a new one needs,
        and ``StateError`` for what Spark refuses at a restart: other keys, another ``time_sorted``,
        states that are declared in a way that does not fit.
        """
        snapshots.check_options(cls, options)
        make: Any = cls
        harness: Self = make(function, **options)
        runtime, space = harness._runtime, harness._space
        try:
            clocks = snapshots.restore(
                snapshot, runtime, space, harness._processing_time, harness._note
            )
        except BaseException:
            harness.close()
            raise
        harness._watermark = clocks["watermark"]
        runtime.context._first_watermark = clocks.get("first_watermark", UNKNOWN)
        harness._processing_time = clocks["processing_time"]
        harness._waiting = [
            (time, order, number, key_index, harness._accept_row(row))
            for time, order, number, key_index, row in clocks["waiting"]
        ]
        harness._arrived = clocks["arrived"]
        harness.late_rows = clocks["late_rows"]
        return harness

    def snapshot(self) -> bytes:
        """Return state, timers, waiting rows and clocks as bytes."""
        clocks = {
            "watermark": self._watermark,
            "first_watermark": self._runtime.context._first_watermark,
            "processing_time": self._processing_time,
            "waiting": self._waiting,
            "arrived": self._arrived,
            "late_rows": self.late_rows,
        }
        return snapshots.take(self._runtime, self._space, clocks, self._note)

    @property
    def watermark(self) -> int | None:
        """The watermark in epoch ms; None before the first one."""
        return None if self._watermark == UNKNOWN else self._watermark

    @property
    def processing_time(self) -> int:
        """The clock in epoch ms."""
        return self._processing_time

    def process(self, row: Any) -> list[t.Row]:
        """Run a micro-batch of one row, and return the output rows."""
        return self.run_micro_batch([row])

    def run_micro_batch(
        self,
        rows: Iterable[Any],
        *,
        watermark: int | datetime | None = None,
        processing_time: int | datetime | None = None,
    ) -> list[t.Row]:
        """Run a micro-batch: its rows in order (or by ``order_by``), then the timers that are due.

        As on Spark, the clock moves to ``processing_time`` before the rows, and the watermark to
        ``watermark`` between rows and timers; neither moves back. With ``time_sorted`` rows wait
        until the watermark has reached them. Where it raises, go on from a ``snapshot``.
        """
        with self._running():
            before = reached = self._watermark
            if watermark is not None and (time := epoch_ms(watermark)) > 0:  # Spark's 0 is none
                reached = max(before, time)
            if processing_time is not None:
                self._processing_time = max(self._processing_time, epoch_ms(processing_time))
            timed = [(self._time_of(row), row) for row in map(self._accept_row, rows)]
            accepted = self._admitted(timed)
            context = self._runtime.context
            if context._first_watermark == UNKNOWN:  # Spark knows it before the rows
                context._first_watermark = reached
            self._begin()
            if self._sorted:
                self._wait(accepted)
            else:
                self._run_arrived(accepted)
            self._watermark = reached
            return self._settled(before)

    def advance_watermark(self, watermark: int | datetime) -> list[t.Row]:
        """Move the watermark forward (never back) and fire the event-time timers up to it."""
        return self.run_micro_batch((), watermark=watermark)

    def advance_processing_time(self, time: int | datetime) -> list[t.Row]:
        """Move the clock forward (never back) and fire the processing-time timers up to it."""
        return self.run_micro_batch((), processing_time=time)

    def run_batch(self, rows: Iterable[Any]) -> list[t.Row]:
        """Run ``rows`` as a batch DataFrame, key by key; all timers fire at a key's end.

        There is no watermark and no late row, and no state is left. For a harness without keys.
        """
        by_key: dict[Any, list[Any]] = {}
        with self._running():
            for row in map(self._accept_row, rows):
                by_key.setdefault(hashable(self._key_of(row)), []).append(row)
            return [row for own in by_key.values() for row in self._run_key(own)]

    def state(self, name: str, key: Any) -> Any:
        """Return a state as the function would see it: a value, list or dict; it is not changed.

        Raises :class:`StateError` for a name that was not declared.
        """
        state = self._runtime.registry[name]
        self._runtime.set_clocks(self._watermark, self._processing_time)
        return visible(state, self._space.find(self._accept_key(key)))

    def timers(self, key: Any) -> list[Timer]:
        """Return the timers of a key, the earliest first."""
        key_index = self._space.find(self._accept_key(key))
        return [] if key_index is None else list(self._runtime.timers.of(key_index))

    def side_output(self, tag: str) -> list[t.Row]:
        """Return all rows of a side output so far. Raises ``StateError`` for an unknown one."""
        if tag not in self._sides:
            declared = ", ".join(map(repr, self._sides)) or "none"
            raise error("UNKNOWN_SIDE_OUTPUT", tag=shown(tag), declared=declared)
        return list(self._sides[tag])

    def close(self) -> None:
        """Close the function, and the resource of an asynchronous one.

        Then no more rows and timers run, which is a ``StateError`` (HARNESS_CLOSED). What has been
        there can be read, and another call does nothing.
        """
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._runtime.function.close()
        finally:
            self._end_calls()

    def _end_calls(self) -> None:
        if self._loop is not None:
            assert isinstance(self._runtime, AsyncKeyedRuntime)
            self._runtime.end_task()
            self._loop.close()

    def _running(self) -> AbstractContextManager[None]:
        """Tell errors as Spark does. Raises ``StateError`` (HARNESS_CLOSED)."""
        if not self._is_open:
            raise error("HARNESS_CLOSED", harness=type(self).__name__)
        return telling(self._runtime)

    def _admitted(self, rows: list[tuple[int | None, Any]]) -> list[tuple[int | None, Any]]:
        """Return the rows that the function gets, by the rule of ``LateRows.scala``."""
        if self._on_late == "drop" and not self._by_event_time:
            return rows
        late = [row for micros, row in rows if self._is_late(micros)]
        self.late_rows += len(late)
        if self._on_late == "output":
            self._sides[LATE] += late
        if self._on_late == "process":
            return rows
        return [pair for pair in rows if not self._is_late(pair[0])]

    def _run_arrived(self, rows: list[tuple[int | None, Any]]) -> None:
        if (order := self._order) is not None:
            rows = sorted(rows, key=lambda pair: order(pair[1]))
        key_indexes = [self._space.key_index(self._key_of(row)) for _, row in rows]
        times = [None if micros is None else micros // 1000 for micros, _ in rows]
        if self._on_late == "process":
            self._runtime.mark_late(self._is_late(micros) for micros, _ in rows)
        self._runtime.run_rows(key_indexes, times, [row for _, row in rows])

    def _is_late(self, micros: int | None) -> bool:
        watermark = self._watermark
        return micros is not None and watermark != UNKNOWN and micros <= watermark * 1000

    def _begin(self) -> None:
        self._runtime.set_clocks(self._watermark, self._processing_time)
        self._runtime.begin(self._space.keys)

    def _wait(self, rows: list[tuple[int | None, Any]]) -> None:
        for micros, row in rows:
            assert micros is not None
            key_index = self._space.key_index(self._key_of(row))
            heapq.heappush(self._waiting, (micros, self._tie(row), self._arrived, key_index, row))
            self._arrived += 1

    def _tie(self, row: Any) -> Any:
        """Return a sort key of rows of one time, by their content and not by their arrival."""
        return () if self._order is None else self._order(row), repr(tuple(row))

    def _run_key(self, rows: list[Any]) -> list[t.Row]:
        key_index = self._space.key_index(self._key_of(rows[0]))
        try:
            return self._batch_of(key_index, rows)
        finally:
            self._runtime.timers.forget(key_index)
            self._space.drop(key_index)

    def _batch_of(self, key_index: int, rows: list[Any]) -> list[t.Row]:
        self._watermark = self._runtime.context._first_watermark = UNKNOWN
        self._begin()
        timed = [(self._time_of(row), row) for row in rows]
        if self._sorted:
            timed.sort(key=lambda pair: (pair[0], self._tie(pair[1])))
            self._run([(up_to_ms(micros), ROW, key_index, row) for micros, row in timed], UNKNOWN)
        else:
            self._run_arrived(timed)
        self._runtime.finish_keys([key_index])
        return self._emitted()

    def _settled(self, reached: int) -> list[t.Row]:
        """Run due events, event time first, until there are none, and return the emitted rows.

        ``reached`` is the current event time of all keys, where each key has its own.
        """
        runtime, watermark, now = self._runtime, self._watermark, self._processing_time
        while True:
            if event_time := self._due_in_event_time():
                runtime.set_clocks(reached if self._sorted else watermark, now)
                self._run(event_time, watermark)
            reached = watermark
            timers = [
                (time, PROCESSING_TIMER, key_index, None)
                for time, key_index in runtime.timers.due(PROCESSING_TIMER, now)
            ]
            if not timers and not event_time:
                break
            runtime.set_clocks(watermark, now)
            self._run(timers, now)
        runtime.timers.committed()
        return self._emitted()

    def _due_in_event_time(self) -> list[tuple[int, int, int, Any]]:
        """Return due rows and timers in the order of time, rows first."""
        watermark = self._watermark
        if watermark == UNKNOWN:
            return []
        events: list[tuple[int, int, int, Any]] = []
        while self._waiting and self._waiting[0][0] <= watermark * 1000:
            micros, _, _, key_index, row = heapq.heappop(self._waiting)
            events.append((up_to_ms(micros), ROW, key_index, row))
        due = self._runtime.timers.due(EVENT_TIMER, watermark)
        events += [(time, EVENT_TIMER, key_index, None) for time, key_index in due]
        return sorted(events, key=lambda event: event[:2])

    def _run(self, events: list[tuple[int, int, int, Any]], horizon: int) -> None:
        times, kinds, key_indexes, rows = zip(*events, strict=True) if events else ((), (), (), ())
        own = [row for row, kind in zip(rows, kinds, strict=True) if kind == ROW]
        self._runtime.run_events(kinds, key_indexes, times, own, horizon)

    def _emitted(self) -> list[t.Row]:
        runtime = self._runtime
        accepted: list[t.Row] = []
        try:
            for row in runtime.rows:
                accepted.append(self._accept_output(row))
        except ResultTypeMismatch:
            runtime.blame(len(accepted), runtime.ends)
            raise
        for tag, _, row in runtime.context.side_rows:
            self._sides[tag].append(row)
        runtime.context.side_rows = []
        return accepted
