"""The PySpark job: what became of each aircraft between two departures from New York.

This is the part to copy. `rotations` works on a batch and on a streaming DataFrame alike, and gives
the same rows for both.

The data hold only departures from New York. Between two of them an aircraft flew to a destination,
turned round there, came home by a flight that is not in the data, and turned round again. So the
"turnaround" at a destination is the time from the arrival there until the next departure from New
York, the flight home included. And an aircraft that is "not back" may well fly elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame, Row

import pillarbox as pb

NOT_BACK_AFTER = timedelta(hours=24)
FORGOTTEN_AFTER = "2 days"
RETURNS = (
    "event string, id bigint, tailnum string, at timestamp, airport string, "
    "turnaround_min double, inherited_min double, added_min double"
)
MINUTE = timedelta(minutes=1)


class Rotation(pb.KeyedProcessFunction):
    """One aircraft: a row for every departure, and one whenever it does not come back."""

    def open(self, ctx: pb.OpenContext) -> None:
        self.last = ctx.value_state(
            "last flight",
            "id bigint, dest string, arrived timestamp, arr_delay double, due bigint",
            ttl=pb.StateTtl(FORGOTTEN_AFTER, time_domain="event_time"),
        )

    def process(self, row: Row, ctx: pb.Context[str]) -> Iterator[dict[str, Any]]:
        last = self.last.value()  # None for a new aircraft, and after two quiet days
        if last is not None and last.due is not None:
            ctx.timers.delete_event_time(last.due)
        if row.departed is None:  # the row that ends the data
            return
        yield {
            "event": "departed",
            "id": row.id,
            "tailnum": ctx.key,
            "at": row.departed,
            **self.turnaround(row, last),
        }
        due = None
        if row.arrived is not None:
            due = epoch_ms(row.arrived + NOT_BACK_AFTER)
            ctx.timers.register_event_time(due)
        self.last.update((row.id, row.dest, row.arrived, row.arr_delay, due))

    def turnaround(self, row: Row, last: Row | None) -> dict[str, Any]:
        """How long it was away, and how much of its delay it brought with it."""
        if last is None or last.arrived is None:
            return {}
        late = max(row.dep_delay, 0.0)
        inherited = min(late, max(last.arr_delay, 0.0))
        return {
            "airport": last.dest,
            "turnaround_min": (row.departed - last.arrived) / MINUTE,
            "inherited_min": inherited,
            "added_min": late - inherited,
        }

    def on_timer(self, timestamp: int, ctx: pb.Context[str]) -> Iterator[dict[str, Any]]:
        """No departure came in time."""
        last = self.last.value()
        if last is None or last.due != timestamp:
            return  # it was forgotten, and perhaps seen again since
        yield {
            "event": "not back",
            "id": last.id,
            "tailnum": ctx.key,
            "at": datetime.fromtimestamp(timestamp / 1000, timezone.utc),
            "airport": last.dest,
        }


def epoch_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def rotations(flights: DataFrame) -> DataFrame:
    """What happened to the aircraft of ``flights``, in the order of scheduled departures."""
    return flights.withWatermark("scheduled", "0 seconds").transform(
        pb.process_keyed,
        Rotation(),
        by="tailnum",
        returns=RETURNS,
        timestamp="scheduled",
        time_sorted=True,
        order_by="id",
        backend="rocksdb",
    )
