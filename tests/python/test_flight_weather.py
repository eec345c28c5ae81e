"""The demo: its parts one by one, then all of it, small."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

from flight_weather import picture, service  # noqa: E402
from flight_weather.check import WrongResult, cells_equal, expected  # noqa: E402
from flight_weather.data import FILES, prepare  # noqa: E402

ROWS = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("flights")
    prepare(made, ROWS)
    return made


def test_the_data_is_the_same_every_time_and_lies_in_several_files(
    folder: Path, tmp_path: Path
) -> None:
    prepare(tmp_path, ROWS)
    first, second = (pd.read_parquet(one / "flights") for one in (folder, tmp_path))
    assert len(first) == ROWS
    assert first.equals(second)
    assert len(list((folder / "flights").iterdir())) == FILES


def test_the_check_accepts_the_merge_in_any_order_of_rows(folder: Path) -> None:
    right = expected(folder).reset_index()
    cells = cells_equal(right.sample(frac=1, random_state=1), folder)
    assert cells == ROWS * (len(right.columns) - 1)


def test_the_check_finds_one_wrong_cell(folder: Path) -> None:
    wrong = expected(folder).reset_index()
    wrong.loc[7, "temp"] += 0.01
    with pytest.raises(WrongResult, match="1 cells of temp differ"):
        cells_equal(wrong, folder)


def test_the_check_finds_a_null_where_a_value_belongs(folder: Path) -> None:
    wrong = expected(folder).reset_index()
    wrong.loc[3, "carrier"] = None
    with pytest.raises(WrongResult, match="1 cells of carrier differ"):
        cells_equal(wrong, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.iloc[1:], "1 missing, 0 unknown, 0 twice"),
        (
            lambda rows: pd.concat([rows, rows.iloc[:1]]),
            "0 missing, 0 unknown, 1 twice",
        ),
    ],
)
def test_the_check_finds_rows_that_are_lost_or_doubled(
    folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    with pytest.raises(WrongResult, match=message):
        cells_equal(change(expected(folder).reset_index()), folder)


def test_latencies_are_log_normal_with_a_heavy_tail() -> None:
    weather = service.WeatherService({}, seed=2013)
    drawn = np.array([weather.latency_seconds() for _ in range(200_000)])
    assert np.median(drawn) == pytest.approx(0.020, rel=0.02)
    assert np.percentile(drawn, 99) == pytest.approx(0.400, rel=0.05)
    assert drawn.mean() == pytest.approx(0.046, rel=0.05)


def test_about_one_answer_in_a_hundred_is_a_503_with_retry_after() -> None:
    weather = service.WeatherService({("EWR", "now"): "{}"}, seed=2013)
    answers = [weather.answer("EWR", "now") for _ in range(20_000)]
    refused = [answer for answer in answers if answer.status == 503]
    assert 150 < len(refused) < 250
    assert weather.stats.unavailable == len(refused)
    assert {answer.headers["Retry-After"] for answer in refused} == {"1"}


def test_a_running_service_answers_counts_and_starts_over(folder: Path) -> None:
    async def scenario() -> None:
        from aiohttp.test_utils import TestClient, TestServer

        weather = service.WeatherService(service.load(folder / "weather.parquet"), seed=1)
        async with TestClient(TestServer(weather.app())) as client:
            known = next(iter(weather.weather))
            statuses = []
            for origin, hour in (known, ("LAX", "2013-01-01T10:00:00Z")):
                async with client.get(f"/weather/{origin}/{hour}") as answer:
                    statuses.append(answer.status)
            assert statuses == [200, 404]
            counts = await (await client.get("/stats")).json()
            assert (
                counts["requests"],
                counts["not_found"],
                counts["in_flight_max"],
            ) == (2, 1, 1)
            timeline = await (await client.get("/stats/timeline")).json()
            assert [count for _, count in timeline] == [1, 0, 1, 0]
            assert (await client.post("/stats/reset")).status == 200
            assert (await (await client.get("/stats")).json())["requests"] == 0

    asyncio.run(scenario())


def test_a_line_with_very_many_points_is_thinned_but_keeps_its_level_and_its_ends() -> None:
    times = np.linspace(0, 10, 50_000)
    thin_times, thin_counts = picture.thinned(times, np.full(50_000, 200.0))
    assert len(thin_times) <= 602
    assert (thin_times[0], thin_times[-1]) == (0, 10)
    assert set(thin_counts[1:-1]) == {200.0}
    assert (thin_counts[0], thin_counts[-1]) == (0, 0)


@pytest.mark.nightly
def test_the_whole_demo_runs_and_finds_its_results_right(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "flight_weather",
        "--rows",
        "400",
        "--sample",
        "20",
    ]
    done = subprocess.run(
        [*command, "--output", str(tmp_path)],
        cwd=ROOT / "examples",
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "batch: 4,800 cells equal" in done.stdout
    assert "stream: 4,800 cells equal" in done.stdout
    assert "slow stream with carry_over: 4,800 cells equal" in done.stdout
    for name in ("calls-in-flight.png", "latency.png", "micro-batches.png"):
        assert (tmp_path / name).stat().st_size > 10_000
