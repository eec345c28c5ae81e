"""The order of rows and timers on Spark: golden cases and random programs, a key each."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from keyed import order_function
from keyed.order_function import Group, differences, folds, groups
from keyed.order_runners import OnSpark, add_golden_function

# Executors have no copy of the tests.
cloudpickle.register_pickle_by_value(order_function)
cloudpickle.register_pickle_by_value(sys.modules[__name__])

GROUPS = groups("order.json", "order_random.json")
FOLDING = [
    replace(group, cases=own) for group in GROUPS if (own := [c for c in group.cases if folds(c)])
]
RANGE_MS = 1 << 53


@pytest.fixture(scope="module")
def golden(spark: SparkSession) -> SparkSession:
    add_golden_function(spark)
    return spark


def in_range(left: dict[str, Any]) -> dict[str, Any]:
    """Without timers that no timestamp can hold."""
    found = {}
    for key, there in left.items():
        timers = [t for t in there.get("timers", ()) if abs(int(t.split()[1])) < RANGE_MS]
        kept = {**there, "timers": timers} if timers else {
            name: what for name, what in there.items() if name != "timers"
        }  # fmt: skip
        if kept:
            found[key] = kept
    return found


def starts_on_time(group: Group) -> Group:
    """Without keys that start with a timer that is due in the micro-batch before the first."""
    due = [
        case["name"]
        for case in group.cases
        for timer in case.get("initial", {}).get("timers", ())
        if timer.startswith("clock") and int(timer.split()[1]) <= group.clock[0][1]
    ]
    return replace(group, cases=[case for case in group.cases if case["name"] not in due])


def streamed(played: OnSpark, folder: Path) -> None:
    assert not differences(played.stream(folder), played.group.expected("stream"))


@pytest.mark.parametrize("group", GROUPS, ids=str)
@pytest.mark.parametrize(("form", "backend"), [("rows", "rocksdb"), ("jvm", "heap")])
def test_a_stream(
    golden: SparkSession, quick: SparkSession, tmp_path: Path, group: Group, form: str, backend: str
) -> None:
    played = OnSpark(golden, starts_on_time(group), form, backend)
    streamed(played, tmp_path)
    if len(group.cases) > 1:
        left, expected = played.left(tmp_path), played.group.expected("left")
        assert not differences(in_range(left), in_range(expected))


@pytest.mark.parametrize("group", GROUPS[:2], ids=str)
@pytest.mark.parametrize("form", ["rows", "jvm"])
def test_a_batch(golden: SparkSession, group: Group, form: str) -> None:
    assert not differences(OnSpark(golden, group, form, "heap").batch(), group.expected("batch"))


@pytest.mark.parametrize("group", [group for group in FOLDING if not group.time_sorted], ids=str)
def test_columns(golden: SparkSession, quick: SparkSession, tmp_path: Path, group: Group) -> None:
    """In a batch a key's rows may come in one piece, which has the state before it."""
    streamed(OnSpark(golden, group, "columns", "rocksdb"), tmp_path)
    single = replace(group, cases=[case for case in group.cases if len(case["rows"]) == 1])
    batch = OnSpark(golden, single, "columns", "heap").batch()
    assert not differences(batch, single.expected("batch"))


@pytest.mark.parametrize("group", FOLDING, ids=str)
def test_a_scan(golden: SparkSession, quick: SparkSession, tmp_path: Path, group: Group) -> None:
    """A scan does not tell the watermark; its TTL goes by it."""
    played = OnSpark(golden, group, "scan", "rocksdb")
    told = {key: [one.split()[-1] for one in of] for key, of in group.expected("stream").items()}
    assert not differences(played.stream(tmp_path), told)
    told = {key: [one.split()[-1] for one in of] for key, of in group.expected("batch").items()}
    assert not differences(played.batch(), told)
