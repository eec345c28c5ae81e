"""The order of rows and timers: golden cases and random programs on the harness and on workers."""

from __future__ import annotations

import json
from random import Random

import pytest

from keyed import order_model
from keyed.order_function import FOLDER, Group, differences, groups
from keyed.order_programs import programs, written
from keyed.order_runners import OnHarness, OnWorker

GROUPS = groups("order.json", "order_random.json")
COUNT, SEED = 100, 20261122


def ids(group: Group) -> str:
    return str(group)


def test_the_model_says_what_the_golden_cases_say() -> None:
    golden = json.loads((FOLDER / "order.json").read_text())
    for case in golden["cases"]:
        told = {form: case.get(form, {}) for form in ("stream", "left", "batch")}
        assert order_model.run(case, golden["clock"]) == told, case["name"]


def test_the_random_programs_are_those_of_their_seed() -> None:
    assert (FOLDER / "order_random.json").read_text() == written(programs(COUNT, SEED))


@pytest.mark.parametrize("group", GROUPS, ids=ids)
def test_a_stream_in_the_harness(group: Group) -> None:
    played = OnHarness(group)
    assert not differences(played.stream(), group.expected("stream"))
    assert not differences(played.left(), group.expected("left"))


@pytest.mark.parametrize("group", GROUPS, ids=ids)
def test_a_batch_in_the_harness(group: Group) -> None:
    with_rows = {case["name"] for case in group.cases if case["rows"]}
    expected = {key: told for key, told in group.expected("batch").items() if key in with_rows}
    assert not differences(OnHarness(group).batch(), expected)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("group", GROUPS, ids=ids)
def test_a_stream_on_a_worker_however_frames_are_cut(group: Group, seed: int) -> None:
    with OnWorker(group, Random(seed)) as played:
        assert not differences(played.stream(), group.expected("stream"))
        assert not differences(played.left(), group.expected("left"))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("group", GROUPS, ids=ids)
def test_a_batch_on_a_worker_however_frames_are_cut(group: Group, seed: int) -> None:
    with OnWorker(group, Random(seed)) as played:
        assert not differences(played.batch(), group.expected("batch"))
        assert not played.left()
