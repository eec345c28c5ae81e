"""The same in what PySpark itself has: transformWithState (Row, pandas), applyInPandasWithState."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from .pillarbox_functions import MAP_ENTRIES, TIMER_MS

COUNT = "n bigint, total bigint"
TTL_MS = 3_600_000


class RunningCount(StatefulProcessor):
    """State read, written, and a row emitted for each row."""

    ttl_ms: int | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("count", COUNT, self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield self.count(key, row)

    def count(self, key: Any, row: Row) -> Row:
        found = self.state.get()
        n, total = (found[0] + 1, found[1] + row.v) if found else (1, row.v)
        self.state.update((n, total))
        return Row(k=key[0], n=n, total=total)


class RunningCountTtl(RunningCount):
    ttl_ms = TTL_MS


class RunningCountTimer(RunningCount):
    """Also one event-time timer a key, which forgets the key."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if not self.state.exists():
                self.handle.registerTimer(int(row.t.timestamp() * 1_000) + TIMER_MS)
            yield self.count(key, row)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        self.state.clear()
        return iter(())


class MapOfTen(StatefulProcessor):
    """One of ten map entries of the key read and written for each row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.totals = handle.getMapState("totals", "entry bigint", "total bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            entry = (row.v % MAP_ENTRIES,)
            found = self.totals.getValue(entry)
            total = (found[0] if found else 0) + row.v
            self.totals.updateValue(entry, (total,))
            yield Row(k=key[0], n=entry[0], total=total)


class RunningCountPandas(StatefulProcessor):
    """The pandas form; state is read and written for each row, as in the Row form."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("count", COUNT)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        for frame in rows:
            counts = [self.count(v) for v in frame.v.tolist()]
            yield pd.DataFrame(
                {"k": key[0], "n": [n for n, _ in counts], "total": [total for _, total in counts]}
            )

    def count(self, v: int) -> tuple[int, int]:
        found = self.state.get()
        n, total = (found[0] + 1, found[1] + v) if found else (1, v)
        self.state.update((n, total))
        return n, total


def apply_in_pandas(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """applyInPandasWithState: state once a key and batch, which is all that it offers."""
    n, total = state.get if state.exists else (0, 0)
    for frame in frames:
        sums = frame.v.cumsum() + total
        counts = pd.RangeIndex(n + 1, n + len(frame) + 1)
        yield pd.DataFrame({"k": key[0], "n": counts, "total": sums.to_numpy()})
        n, total = n + len(frame), int(sums.iloc[-1])
    state.update((n, total))
