"""The demo of keyed state: its parts, a slice of it as batch and stream, then all of it, small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

from flight_rotation import data, job, picture, query  # noqa: E402
from flight_rotation.expected import (  # noqa: E402
    WrongResult,
    expected,
    read_result,
    rows_equal,
)

cloudpickle.register_pickle_by_value(job)
DAYS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rotation")
    data.prepare(made, DAYS)
    return made


@pytest.fixture(scope="module")
def flights(folder: Path) -> pd.DataFrame:
    return data.flights(DAYS)


def test_times_are_moments_not_local_clock_times(flights: pd.DataFrame) -> None:
    first = flights.set_index("id").loc[0]  # 5:17 in Newark to 8:30 in Houston, an hour behind
    assert str(first.departed) == "2013-01-01 10:17:00+00:00"
    assert str(first.arrived) == "2013-01-01 14:30:00+00:00"
    known = flights[flights.arrived.notna()]
    hours = (known.arrived - known.departed) / pd.Timedelta("1h")
    assert hours.between(0.4, 14).all()


def test_a_file_holds_a_day_and_the_last_one_ends_the_data(
    folder: Path, flights: pd.DataFrame
) -> None:
    parts = [pd.read_parquet(path) for path in sorted((folder / "flights").iterdir())]
    assert len(parts) == DAYS + 1
    assert pd.concat(parts[:-1]).id.tolist() == flights.id.tolist()
    assert parts[-1].tailnum.tolist() == [data.END]


def test_a_stream_and_a_batch_give_the_rows_that_pandas_gives(
    spark: SparkSession, folder: Path, flights: pd.DataFrame
) -> None:
    query.run(spark, folder, days_a_batch=2)
    result = read_result(folder / "rotations")
    assert rows_equal(result, flights) == len(result) > 5000
    assert set(result.event) == {"departed", "not back"}
    batch = job.rotations(spark.read.schema(data.SCHEMA).parquet(str(folder / "flights")))
    batch.write.parquet(str(folder / "batch"))
    assert rows_equal(pd.read_parquet(folder / "batch"), flights) == len(result)


@pytest.mark.parametrize("change", ["lost", "twice", "different"])
def test_the_check_finds_what_is_wrong(flights: pd.DataFrame, change: str) -> None:
    right = expected(flights)
    wrong = {
        "lost": right.iloc[1:],
        "twice": pd.concat([right, right.iloc[:1]]),
        "different": right.assign(added_min=right.added_min.where(right.id != 900, 0.5)),
    }[change]
    with pytest.raises(WrongResult):
        rows_equal(wrong, flights)


def test_the_picture_adds_up(tmp_path: Path, flights: pd.DataFrame) -> None:
    means = picture.by_hour(expected(flights), flights)
    assert (means >= 0).all().all()
    assert means.index.is_monotonic_increasing
    picture.delays(tmp_path / "delays.png", expected(flights), flights)
    assert (tmp_path / "delays.png").stat().st_size > 10_000


@pytest.mark.nightly
def test_the_whole_demo_runs_is_killed_and_finds_its_result_right(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flight_rotation", "--days", "20", "--output", str(tmp_path)],
        cwd=ROOT / "examples",
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL after" in done.stdout
    assert "rows equal" in done.stdout
    assert (tmp_path / "delays.png").stat().st_size > 10_000
