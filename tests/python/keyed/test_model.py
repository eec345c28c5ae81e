"""Random functions over random inputs: harness, worker and a plain model agree, key by key."""

from __future__ import annotations

import json
from collections import defaultdict
from time import tzset

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from worker.keyed_driver import KeyedInProcess
from worker.keyed_operator import Operator

from keyed.model import START, Interpreter, Model
from pillarbox.testing import KeyedHarness

NUMBERS = st.integers(0, 9)
MOMENTS = st.integers(0, 5)
WORDS = st.sampled_from("xy")
# Mostly halves of the TTL, so that lives end exactly when somebody looks.
STRIDES = st.sampled_from([0, 1, 2, 5, 5, 5, 9, 10, 10, 11])
AHEAD = st.sampled_from([-1, 0, 1, 1, 2, 5, 5, 10])


def op(name, *arguments):
    return st.tuples(st.just(name), *arguments).map(list)


# Each example is about a few kinds of state, so that reads meet what was written before.
OPS = {
    "value": [op("value.value"), op("value.update", NUMBERS), op("value.clear")],
    "largest": [op("largest.get"), op("largest.add", NUMBERS)],
    "elements": [
        op("elements.get"), op("elements.add", NUMBERS), op("elements.clear"),
        op("elements.update", st.lists(NUMBERS, max_size=2)),
    ],
    "entries": [
        op("entries.get", WORDS), op("entries.put", WORDS, NUMBERS), op("entries.remove", WORDS),
        op("entries.contains", WORDS), op("entries.items"), op("entries.is_empty"),
        op("entries.clear"),
    ],
    "moments": [
        op("moments.get", MOMENTS), op("moments.put", MOMENTS, MOMENTS), op("moments.turn"),
        op("moments.remove", MOMENTS), op("moments.items"),
    ],
    "timers": [
        op("timers.list"), op("timers.delete_all"),
        *(op(f"timers.{what}_{domain}_time", AHEAD)
          for what in ("register", "delete") for domain in ("event", "processing")),
    ],
}  # fmt: skip


@st.composite
def scripts(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(OPS)), min_size=1, max_size=2, unique=True))
    ops = st.one_of(*(choice for kind in kinds for choice in OPS[kind]))
    row = st.tuples(st.sampled_from("aab"), AHEAD, st.lists(ops, min_size=2, max_size=5))
    step = st.one_of(
        st.tuples(st.just("rows"), st.lists(row, min_size=1, max_size=5)),
        st.tuples(st.sampled_from(["watermark", "processing_time"]), STRIDES),
    )
    return list(absolute(draw(st.lists(step, min_size=8, max_size=24))))


def absolute(steps):
    """Times are drawn as strides from the clock they belong to, so that they stay in reach."""
    clocks = {"watermark": 1, "processing_time": 0}  # a watermark of 0 is none
    for step, what in steps:
        if step == "rows":
            watermark, now = clocks.values()
            yield (
                step,
                [
                    (key, watermark + ahead, [timed(op, watermark, now) for op in ops])
                    for key, ahead, ops in what
                ],
            )
        else:
            clocks[step] += what
            yield step, clocks[step]


def timed(op, watermark, now):
    if not op[0].startswith("timers.") or len(op) == 1:
        return op
    return [op[0], op[1] + (watermark if "event" in op[0] else now)]


LIVES = st.fixed_dictionaries(
    {
        "update": st.sampled_from(["on_create_and_write", "on_read_and_write"]),
        "visibility": st.sampled_from(["never_return_expired", "return_expired_if_not_cleaned_up"]),
        "time_domain": st.sampled_from(["processing_time", "event_time"]),
    }
)
TTLS = st.one_of(LIVES, LIVES, st.none())
OPTIONS = {
    "by": "k",
    "schema": "k string, t bigint, ops string",
    "returns": "k string, told string",
}


def by_key(rows):
    told = defaultdict(list)
    for key, text in rows:
        told[key].append(json.loads(text))
    return told


@pytest.fixture(autouse=True, scope="module")
def local_hours_that_come_twice():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        tzset()
        yield
    tzset()


def of_model(ttl, steps, restart=None, then=None):
    """What each step gives; at the step ``restart`` the TTL becomes ``then``."""
    keys = {key: Model(key, ttl) for key in "ab"}
    watermark, now = START, 0
    for number, (step, what) in enumerate(steps):
        told = {key: [] for key in keys}
        if number == restart:
            for model in keys.values():
                model.restart(then, (watermark, now))
        if step == "rows":
            for key, time, ops in what:
                if time > watermark:
                    told[key].append(keys[key].row(time, ops, (watermark, now)))
        elif step == "watermark":
            watermark = max(watermark, what)
        else:
            now = max(now, what)
        for key, model in keys.items():
            told[key] += model.due((watermark, now))
        yield {key: rows for key, rows in told.items() if rows}


def play(stream, step, what):
    if step == "rows":
        return stream.run_micro_batch([(key, time, json.dumps(ops)) for key, time, ops in what])
    return getattr(stream, f"advance_{step}")(what)


def agree(ttl, steps, restart, then):
    """Runs the harness beside the model; at the step ``restart`` the TTL becomes ``then``."""
    harness = KeyedHarness(Interpreter(ttl), timestamp="t", **OPTIONS)
    for number, ((step, what), expected) in enumerate(
        zip(steps, of_model(ttl, steps, restart, then), strict=True)
    ):
        if number == restart:
            harness = KeyedHarness.restore(
                harness.snapshot(), Interpreter(then), timestamp="t", **OPTIONS
            )
        assert by_key(play(harness, step, what)) == expected


def worker_agrees(function, ttl, steps, frames, big, **calls):
    """The worker does what the model says, with rows in ``frames``: rows of one, frames held."""
    worker = KeyedInProcess()
    try:
        inputs, returns = OPTIONS["schema"], OPTIONS["returns"]
        worker.start_keyed(function, by="k string", inputs=inputs, returns=returns, **calls)
        worker.big = frozenset(["elements", "entries"] if big else [])
        operator = Operator(worker, [0], 1, False, *frames)
        for (step, what), expected in zip(steps, of_model(ttl, steps), strict=True):
            assert by_key(play(operator, step, what)) == expected
    finally:
        worker.close()


@st.composite
def restarts(draw):
    """One key and one kind of state, whose clocks move before and behind a restart."""
    ops = st.one_of(*OPS[draw(st.sampled_from(sorted(set(OPS) - {"timers"})))])
    rows = st.lists(
        st.tuples(st.just("a"), AHEAD, st.lists(ops, min_size=3, max_size=5)), max_size=2
    )
    clock = st.tuples(st.sampled_from(["watermark", "processing_time"]), st.sampled_from([5, 6, 9]))
    parts = []
    for _ in range(3):
        parts += [("rows", draw(rows)), draw(clock), draw(clock)]
    parts.append(("rows", draw(rows)))
    return list(absolute(parts)), draw(st.sampled_from([2, 3, 5, 6]))


@pytest.mark.parametrize("examples", [100, pytest.param(500, marks=pytest.mark.nightly)])
def test_another_ttl_after_a_restart_does_what_the_model_says(examples):
    @settings(max_examples=examples)
    @given(TTLS, restarts(), TTLS)
    def check(ttl, program, then):
        agree(ttl, *program, then)

    check()


@pytest.mark.parametrize("examples", [75, pytest.param(300, marks=pytest.mark.nightly)])
def test_the_harness_does_what_the_model_says_also_over_a_restart(examples):
    @settings(max_examples=examples)
    @given(TTLS, scripts(), st.integers(0, 24))
    @example(
        {"update": "on_read_and_write", "visibility": "never_return_expired",
         "time_domain": "event_time"},
        [("rows", [("a", 5, [["elements.add", 1], ["timers.register_event_time", 9]])]),
         ("watermark", 9), ("rows", [("a", 16, [["elements.get"]])])],
        2,
    )  # fmt: skip
    def check(ttl, steps, restart):
        agree(ttl, steps, restart, ttl)

    check()


@pytest.mark.parametrize("examples", [30, pytest.param(120, marks=pytest.mark.nightly)])
def test_the_worker_does_what_the_model_says_however_frames_are_cut(examples):
    @settings(max_examples=examples)
    @given(TTLS, scripts(), st.integers(1, 4), st.integers(1, 4), st.booleans())
    def check(ttl, steps, frame_rows, held_frames, big):
        worker_agrees(Interpreter(ttl), ttl, steps, (frame_rows, held_frames), big)

    check()
