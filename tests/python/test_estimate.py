"""The extrapolation of ``pb.estimate``, without Spark."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import pillarbox as pb
from pillarbox._driver.estimate import _Called, _Whole

SHARES = {"tenant": 0.4}


def of(calls: list[_Called], rows: int, *, tasks: int = 1, **options: Any) -> pb.Estimate:
    return _Whole(rows, tasks, len(calls), calls, ["tokens"], options, SHARES).estimate()


def calls(*tokens: float, attempts: int = 1, elapsed_ms: int = 100) -> list[_Called]:
    return [_Called(attempts, elapsed_ms, {"tokens": amount}, False) for amount in tokens]


def test_sums_are_those_of_the_sample_times_all_rows() -> None:
    found = of(calls(10, 30, attempts=2), 1000)
    assert (found.rows, found.sample, found.calls, found.usage) == (1000, 2, 2000, {"tokens": 20e3})
    assert found.spread["calls"] == (2000, 2000)
    low, high = found.spread["tokens"]
    assert low < 20e3 < high


def test_a_sample_of_all_rows_has_no_spread() -> None:
    assert of(calls(10, 30), 2).spread["tokens"] == (40, 40)
    assert of(calls(10), 5).spread["tokens"] == (0, math.inf)


def test_with_a_journal_the_rows_of_the_sample_are_paid() -> None:
    assert of(calls(10, 30), 1000, journal="/j").calls == 998
    known = [_Called(0, 0, {}, False), *calls(10)]
    assert of(known, 1000, journal="/j").calls == 499


def test_the_share_of_failed_rows_is_told() -> None:
    assert of([_Called(3, 9, {}, True), *calls(1, 1, 1)], 100).failed == 0.25


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"capacity": 10}, 10.0),
        ({"capacity": 10, "tasks": 4}, 2.5),
        ({"limit": pb.Limit(concurrency=5)}, 20.0),
        ({"limit": pb.Limit(concurrency=5, scope="task"), "tasks": 4}, 5.0),
        ({"limit": pb.Limit(per_second=20)}, 50.0),
        ({"limit": pb.Limit(per_minute=600), "tasks": 4}, 100.0),
        ({"limit": pb.Limit(per_second=20), "batch_size": 10}, 5.0),
        ({"limit": pb.Limit(concurrency=1), "batch_size": 10}, 10.0),
        ({"limit": pb.Limit(per_second=100, unit="tokens")}, 20.0),
        ({"limit": pb.Limit(per_second=20, key="tenant")}, 20.0),
        ({"limit": pb.Limit(concurrency=2, key="tenant")}, 20.0),
        ({"limit": [pb.Limit(per_second=20), pb.Limit(per_minute=600, unit="tokens")]}, 200.0),
    ],
)
def test_the_time_is_the_longest_of_what_limits_and_calls_need(
    options: dict[str, Any], seconds: float
) -> None:
    assert of(calls(*[2.0] * 10), 1000, **options).duration_s == pytest.approx(seconds)


def test_the_true_sum_is_within_the_bounds_in_some_95_of_100_samples() -> None:
    chance = random.Random(7)
    tokens = [chance.gammavariate(2, 400) for _ in range(2000)]
    inside = 0
    for _ in range(400):
        low, high = of(calls(*chance.sample(tokens, 100)), len(tokens)).spread["tokens"]
        inside += low <= sum(tokens) <= high
    assert 0.91 <= inside / 400 <= 0.98


def test_rows_of_a_list_count_as_one_of_the_sample() -> None:
    chance = random.Random(8)
    lists = [chance.gammavariate(2, 400) for _ in range(1000)]
    inside = 0
    for _ in range(400):
        sample = [tokens for one in chance.sample(lists, 50) for tokens in [one / 10] * 10]
        low, high = of(calls(*sample), 10 * len(lists), batch_size=10).spread["tokens"]
        inside += low <= sum(lists) <= high
    assert 0.91 <= inside / 400 <= 0.98
    assert of(calls(*[1.0] * 15), 100, batch_size=10).spread["tokens"] == (0, math.inf)
