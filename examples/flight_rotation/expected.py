"""The same in pandas, over all flights at once, and the comparison row by row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from .job import FORGOTTEN_AFTER, NOT_BACK_AFTER, RETURNS

COLUMNS = [column.split()[0] for column in RETURNS.split(", ")]
BY = ["event", "id"]


class WrongResult(Exception):
    """The stream's result is not what pandas computes."""


def expected(flights: pd.DataFrame) -> pd.DataFrame:
    """Every departure with what the aircraft's flight before says of it; and who wasn't back."""
    rows = flights.sort_values(["tailnum", "scheduled", "id"])
    before, after = rows.groupby("tailnum").shift(1), rows.groupby("tailnum").shift(-1)
    forgotten = rows.scheduled - before.scheduled > pd.Timedelta(FORGOTTEN_AFTER)
    known = before.arrived.notna() & ~forgotten
    late = rows.dep_delay.clip(lower=0)
    inherited = np.minimum(late, before.arr_delay.clip(lower=0))
    departed = pd.DataFrame(
        {
            "event": "departed",
            "id": rows.id,
            "tailnum": rows.tailnum,
            "at": rows.departed,
            "airport": before.dest.where(known),
            "turnaround_min": ((rows.departed - before.arrived) / pd.Timedelta("1min")).where(
                known
            ),
            "inherited_min": inherited.where(known),
            "added_min": (late - inherited).where(known),
        }
    )
    return pd.concat([departed, not_back(rows, after.scheduled)], ignore_index=True)[COLUMNS]


def not_back(rows: pd.DataFrame, next_scheduled: pd.Series) -> pd.DataFrame:
    due = rows.arrived + pd.Timedelta(NOT_BACK_AFTER)
    missing = due.notna() & ~(next_scheduled <= due)
    remembered = due < rows.scheduled + pd.Timedelta(FORGOTTEN_AFTER)
    those = rows[missing & remembered]
    return pd.DataFrame(
        {
            "event": "not back",
            "id": those.id,
            "tailnum": those.tailnum,
            "at": due[those.index],
            "airport": those.dest,
        }
    )


def rows_equal(result: pd.DataFrame, flights: pd.DataFrame) -> int:
    """How many rows were compared. Raises ``WrongResult`` for one lost, doubled or different."""
    want, got = (frame.set_index(BY).sort_index() for frame in (expected(flights), result))
    if not want.index.equals(got.index):
        missing, unknown = want.index.difference(got.index), got.index.difference(want.index)
        raise WrongResult(
            f"{len(missing)} rows missing, {len(unknown)} unknown, "
            f"{int(got.index.duplicated().sum())} twice"
        )
    for column in COLUMNS[2:]:
        if column == "at":
            want[column], got[column] = as_utc(want[column]), as_utc(got[column])
        same = (want[column] == got[column]) | (want[column].isna() & got[column].isna())
        if not same.all():
            pair = pd.DataFrame({"expected": want[column], "found": got[column]})[~same]
            raise WrongResult(f"{len(pair)} values of {column} differ:\n{pair.head()}")
    return len(want)


def as_utc(moments: pd.Series) -> pd.Series:
    """Spark's parquet files have timestamps without a zone, which are UTC."""
    return pd.to_datetime(moments, utc=True).astype("datetime64[us, UTC]")


def read_result(folder: Path) -> pd.DataFrame:
    """What Spark's file sink committed: only files that its log names count."""
    lines = []
    for entry in sorted((folder / "_spark_metadata").iterdir(), key=lambda path: path.name):
        if not entry.name.startswith("."):
            lines += entry.read_text().splitlines()[1:]
    files = {json.loads(line)["path"].removeprefix("file://") for line in lines}
    return pd.concat([pd.read_parquet(path) for path in sorted(files)], ignore_index=True)
