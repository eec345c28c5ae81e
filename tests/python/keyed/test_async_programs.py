"""Random programs as coroutines: with awaits, failures and retries they do what the model says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pillarbox as pb
from keyed.async_model import AsyncInterpreter
from keyed.test_model import (
    OPS,
    OPTIONS,
    TTLS,
    absolute,
    by_key,
    of_model,
    play,
    worker_agrees,
)
from pillarbox._harness import loop as harness_loop
from pillarbox._harness.virtual_loop import VirtualLoop
from pillarbox.testing import AsyncKeyedHarness

# More attempts than fail: a busy machine lets deadlines end attempts that would have answered.
CALLS = {"retry": pb.Retry(50, backoff="1ms", jitter=0), "timeout": pb.Timeout(attempt="60ms")}
STATES = sorted(set(OPS) - {"timers"})
AHEAD = st.sampled_from([-1, 0, 1, 5, 10])
STRIDES = st.sampled_from([0, 1, 5, 5, 9, 10, 11])


@st.composite
def scripts(draw):
    kinds = draw(st.lists(st.sampled_from(STATES), min_size=1, max_size=2, unique=True))
    ops = st.one_of(*(choice for kind in kinds for choice in OPS[kind]))
    row = st.tuples(st.sampled_from("aab"), AHEAD, st.lists(ops, min_size=2, max_size=5))
    step = st.one_of(
        st.tuples(st.just("rows"), st.lists(row, min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["watermark", "processing_time"]), STRIDES),
    )
    return list(absolute(draw(st.lists(step, min_size=5, max_size=16))))


@pytest.fixture(autouse=True)
def virtual_clock(monkeypatch):
    monkeypatch.setattr(harness_loop, "new_event_loop", VirtualLoop)


@pytest.mark.parametrize("examples", [50, pytest.param(200, marks=pytest.mark.nightly)])
def test_the_harness_does_what_the_model_says(examples):
    @settings(max_examples=examples)
    @given(TTLS, scripts(), st.integers(0, 99), st.integers(0, 3), st.sampled_from([1, 2, 100]))
    def check(ttl, steps, seed, failures, capacity):
        function = AsyncInterpreter(ttl, seed, failures)
        harness = AsyncKeyedHarness(function, timestamp="t", capacity=capacity, **CALLS, **OPTIONS)
        for (step, what), expected in zip(steps, of_model(ttl, steps), strict=True):
            assert by_key(play(harness, step, what)) == expected
        harness.close()

    check()


@pytest.mark.parametrize("examples", [15, pytest.param(60, marks=pytest.mark.nightly)])
def test_the_worker_does_what_the_model_says_however_frames_are_cut(examples):
    @settings(max_examples=examples)
    @given(
        TTLS, scripts(), st.integers(0, 99), st.integers(0, 2), st.integers(1, 4),
        st.integers(1, 4), st.booleans(),
    )  # fmt: skip
    def check(ttl, steps, seed, failures, frame_rows, held_frames, big):
        function, frames = AsyncInterpreter(ttl, seed, failures), (frame_rows, held_frames)
        worker_agrees(function, ttl, steps, frames, big, calls=dict(**CALLS))

    check()


def test_a_program_that_is_never_lucky_fails_and_leaves_the_state_before_it():
    function = AsyncInterpreter(None, 1, 0)
    harness = AsyncKeyedHarness(function, timestamp="t", on_error="column", **CALLS, **OPTIONS)
    ops = [["value.update", 1], ["elements.add", 1], ["entries.put", "x", 1], ["largest.add", 1]]
    harness.process(("a", 1, json.dumps(ops)))
    before = {name: harness.state(name, "a") for name in ("value", "elements", "entries")}
    (row,) = harness.process(("a", 2, json.dumps([["no.such"]])))
    assert (row.k, row.told, row.error.kind) == ("a", None, "AttributeError")
    assert {name: harness.state(name, "a") for name in before} == before
