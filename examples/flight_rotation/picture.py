"""The picture: the delay of departures over the day, and where it comes from."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import pandas as pd
from matplotlib import pyplot as plt

from flight_data.style import INK, OTHER, OURS, STYLE

AT_LEAST = 100


def by_hour(result: pd.DataFrame, flights: pd.DataFrame) -> pd.DataFrame:
    """Mean minutes inherited and added, by the hour of scheduled departure in New York."""
    known = result[result.turnaround_min.notna()].set_index("id")
    scheduled = flights.set_index("id").scheduled.dt.tz_convert("America/New_York")
    hours = known[["inherited_min", "added_min"]].groupby(scheduled[known.index].dt.hour)
    means = hours.mean()
    return means[hours.size() >= AT_LEAST]


def delays(path: Path, result: pd.DataFrame, flights: pd.DataFrame) -> None:
    """Draw the mean delay of departures by hour of day, inherited below and added above."""
    means = by_hour(result, flights)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9.5, 4.2))
        axes.bar(
            means.index,
            means.inherited_min,
            color=OTHER,
            label="late already at its destination before",
        )
        axes.bar(
            means.index,
            means.added_min,
            bottom=means.inherited_min,
            color=OURS,
            label="added since",
        )
        total = means.sum(axis=1)
        for hour, minutes in total.items():
            axes.text(float(hour), minutes, f"{minutes:.0f}", ha="center", va="bottom", color=INK)
        axes.set(xlabel="hour of scheduled departure in New York", ylabel="minutes late, mean")
        axes.set_xticks(means.index)
        axes.set_ylim(0, total.max() * 1.15)
        axes.set_title("Where the delay of a departure comes from", pad=12)
        axes.legend(frameon=False, loc="upper left")
        figure.savefig(path)
        plt.close(figure)
