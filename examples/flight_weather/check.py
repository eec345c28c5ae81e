"""The check: the job's result against a plain pandas merge, cell by cell."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from .data import FLIGHT_COLUMNS, WEATHER_COLUMNS


class WrongResult(AssertionError):
    """The job's result differs from the pandas merge; the message shows where."""


def expected(folder: Path) -> pd.DataFrame:
    """Flights left-joined with weather by pandas, by flight id."""
    flights = pd.read_parquet(folder / "flights")
    weather = pd.read_parquet(folder / "weather.parquet")
    return _table(flights.merge(weather, on=["origin", "time_hour"], how="left"))


def cells_equal(result: pd.DataFrame, folder: Path) -> int:
    """The number of cells compared; WrongResult at the first column that differs anywhere."""
    want, got = expected(folder), _table(result)
    if not want.index.equals(got.index):
        missing, extra = want.index.difference(got.index), got.index.difference(want.index)
        raise WrongResult(
            f"{len(want)} flights expected, {len(got)} found: {len(missing)} missing, "
            f"{len(extra)} unknown, {int(got.index.duplicated().sum())} twice"
        )
    for column in want:
        same = (want[column] == got[column]) | (want[column].isna() & got[column].isna())
        if not same.all():
            pair = pd.DataFrame({"expected": want[column], "found": got[column]})[~same]
            raise WrongResult(f"{len(pair)} cells of {column} differ:\n{pair.head()}")
    return want.size


def _table(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_index("id").sort_index()[FLIGHT_COLUMNS + WEATHER_COLUMNS]
