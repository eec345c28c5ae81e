"""Run the demo of keyed state; see ``--help``. Exit code 1 if a row is not what pandas computes."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pandas as pd

from . import picture
from .data import prepare
from .expected import WrongResult, read_result, rows_equal
from .killing import committed, run_and_kill, run_to_the_end
from .query import DAYS_A_BATCH

OUTPUT = Path(__file__).resolve().parents[2] / "demo-output"
SHOWN = ["event", "tailnum", "at", "airport", "turnaround_min", "inherited_min", "added_min"]


def main() -> int:
    options = arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="flight-rotation-") as name:
        folder = Path(name)
        flights = prepare(folder, options.days)
        aircraft = flights.tailnum.nunique()
        print(
            f"Following {aircraft:,} aircraft over {len(flights):,} real flights: a file a day "
            f"for {options.days} days, {DAYS_A_BATCH} days a micro-batch",
            flush=True,
        )
        result = stream(folder, half=max(1, options.days // DAYS_A_BATCH // 2))
    tell(result)
    picture.delays(options.output / "delays.png", result, flights)
    print(f"\nPicture: {options.output / 'delays.png'}")
    verdict = check(result, flights)
    print(f"\nThis part took {time.perf_counter() - started:.0f} s.")
    return verdict


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="flight_rotation", description=__doc__)
    parser.add_argument("--days", type=int, default=120, help="how many days of 2013, up to 365")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the picture")
    return parser.parse_args()


def stream(folder: Path, half: int) -> pd.DataFrame:
    """The result of the query, killed after ``half`` of its micro-batches and started again."""
    print("\n== The query, in its own process", flush=True)
    done = run_and_kill(folder, after=half)
    print(f"   SIGKILL after {done} micro-batches", flush=True)
    run_to_the_end(folder)
    print(f"   started again on its checkpoint: {committed(folder) - done} more, and the end")
    return read_result(folder / "rotations")


def tell(result: pd.DataFrame) -> None:
    known = result[result.turnaround_min.notna()]
    print("\n== Some rows\n" + known[SHOWN].head(5).to_string(index=False))
    away = known.groupby("airport").turnaround_min.agg(["median", "size"])
    away = away[away["size"] >= away["size"].quantile(0.5)].sort_values("median")
    late = known[["inherited_min", "added_min"]].sum()
    print("\n== Away from New York after an arrival, the flight home included (median)")
    for airport, row in pd.concat([away.head(3), away.tail(3)]).iterrows():
        print(f"   {airport}  {row['median'] / 60:>5.1f} h  of {row['size']:,.0f}")
    not_back = int((result.event == "not back").sum())
    print(
        f"\n== Delay\n   {late.inherited_min / late.sum():.0%} of it the aircraft had already on "
        "arrival at its destination before; the rest was added since\n"
        f"   {not_back:,} times an aircraft was not back within a day (on_timer)"
    )


def check(result: pd.DataFrame, flights: pd.DataFrame) -> int:
    """0 if the result is what pandas computes; else says why not, 1."""
    print("\n== Check against pandas, on all flights at once")
    try:
        print(f"   {rows_equal(result, flights):,} rows equal, none lost and none twice")
    except WrongResult as wrong:
        print(f"   WRONG: {wrong}")
        return 1
    return 0


if __name__ == "__main__":
    # pandas 3 works for what is done here; PySpark says at every turn that it doubts it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    sys.exit(main())
