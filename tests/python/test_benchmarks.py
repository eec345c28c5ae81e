"""The yardsticks of the benchmarks: a wrong one would flatter or slander everything measured."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.contestants import SlidingWindow  # noqa: E402
from benchmarks.report import Line, table  # noqa: E402
from benchmarks.schedule import latencies, partitions, perfect_seconds  # noqa: E402


def test_latencies_have_the_promised_distribution_and_come_from_the_seed() -> None:
    drawn = latencies(400_000, seed=7)
    assert np.median(drawn) == pytest.approx(0.020, rel=0.02)
    assert np.percentile(drawn, 99) == pytest.approx(0.400, rel=0.03)
    assert np.array_equal(drawn, latencies(400_000, seed=7))


def test_the_partitions_are_halves_without_gap_or_overlap() -> None:
    covered = np.concatenate([np.arange(7)[part] for part in partitions(7)])
    assert covered.tolist() == list(range(7))


@pytest.mark.parametrize(
    ("seconds", "capacity", "expected"),
    [
        ([1, 1, 1, 1, 9, 1, 1, 1], 4, 9),  # the slower half counts
        ([2, 1, 1, 1, 0, 0, 0, 0], 2, 3),  # 2 beside 1+1, then 1
        ([3, 3, 3, 3, 0, 0, 0, 0], 1, 12),  # one after another
    ],
)
def test_the_perfect_schedule_of_small_cases(
    seconds: list[float], capacity: int, expected: float
) -> None:
    assert perfect_seconds(np.array(seconds, float), capacity) == pytest.approx(expected)


def test_the_perfect_schedule_is_never_below_its_two_bounds() -> None:
    seconds = latencies(5_000, seed=3)
    found = perfect_seconds(seconds, 50)
    halves = [seconds[part] for part in partitions(5_000)]
    assert found >= max(half.sum() / 50 for half in halves)
    assert found >= seconds.max()
    assert found <= max(half.sum() / 50 for half in halves) + seconds.max()


def test_the_window_answers_every_row_once_and_keeps_its_capacity_used_but_not_exceeded() -> None:
    loop = asyncio.new_event_loop()
    most = 0

    def rows() -> Iterator[tuple[int, float]]:
        nonlocal most
        for key in range(3_000):
            most = max(most, window.in_flight)
            yield key, 0.0005 * (key % 3)

    window = SlidingWindow(loop, rows(), capacity=50)
    keys = []
    while answers := loop.run_until_complete(window.take()):
        keys += [key for key, _, _ in answers]
    loop.close()
    assert sorted(keys) == list(range(3_000))
    assert most == 49  # asked for one more row only while there is room


def test_the_window_raises_what_a_call_raises() -> None:
    loop = asyncio.new_event_loop()
    window = SlidingWindow(loop, iter([(1, 0.0), (2, "soon")]), capacity=5)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        loop.run_until_complete(window.take())
    loop.close()


def test_the_table_ranks_by_the_median_of_the_repeats() -> None:
    lines = [
        Line("slow", 100, 1.0, [4.0, 2.0, 2.5]),
        Line("fast", 100, 1.0, [1.25, 1.0, 5.0]),
    ]
    rows = table(lines).splitlines()[2:]
    assert rows[0].startswith("| fast | 80 | **80.0%** | 20.0% - 100.0% |")
    assert rows[1].startswith("| slow | 40 | **40.0%** | 25.0% - 50.0% |")
