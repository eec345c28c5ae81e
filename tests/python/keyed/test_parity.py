"""One list of scripts, the same rows from every runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from worker.keyed_driver import KeyedInProcess
from worker.keyed_operator import Operator

from keyed.scripts import SCRIPTS, Script, same_rows
from pillarbox.testing import KeyedHarness


def harness(script: Script, play: Callable[[Any], list[Any]]) -> list[Any]:
    return play(
        KeyedHarness(
            script.function(), by=script.by, schema=script.input, returns=script.returns,
            timestamp=script.timestamp, **script.options,
        )
    )  # fmt: skip


def worker(script: Script, play: Callable[[Any], list[Any]], held_frames: int = 3) -> list[Any]:
    """A worker under a small operator; big states are only given on demand."""
    columns = [column.split()[0] for column in script.input.split(", ")]
    types = dict(column.split() for column in script.input.split(", "))
    one = KeyedInProcess()
    try:
        one.start_keyed(
            script.function(), by=", ".join(f"{name} {types[name]}" for name in script.by),
            inputs=script.input, returns=script.returns, **script.options,
        )  # fmt: skip
        one.big = frozenset(state["name"] for state in one.states)
        by = [columns.index(name) for name in script.by]
        at = None if script.timestamp is None else columns.index(script.timestamp)
        is_sorted = script.options.get("time_sorted", False)
        rows = play(Operator(one, by, at, is_sorted, held_frames=held_frames))
        assert one.end()
        return rows
    finally:
        one.close()


def worker_alone(script: Script, play: Callable[[Any], list[Any]]) -> list[Any]:
    """A worker that gives the state of its keys back after each frame."""
    return worker(script, play, held_frames=1)


@pytest.fixture(
    params=[harness, worker, worker_alone], ids=["harness", "worker", "worker, frame by frame"]
)
def runner(request: pytest.FixtureRequest) -> Any:
    """Plays a script: ``runner(script, play)``, where ``play`` drives what it is given."""
    return request.param


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_stream_gives_the_rows_of_the_script(script, runner):
    def play(stream):
        seen, out = [], []
        for batch in script.batches:
            out += stream.run_micro_batch(batch)
            if seen:
                out += stream.advance_watermark(max(seen) - script.delay_ms)
            seen += times(script, batch)
        return out + (stream.advance_watermark(max(seen) - script.delay_ms) if seen else [])

    same_rows(runner(script, play), script.stream)


@pytest.mark.parametrize(
    "script",
    [s for s in SCRIPTS if s.batch is not None],
    ids=lambda script: script.name,
)
def test_a_batch_gives_the_rows_of_the_script(script, runner):
    rows = [row for batch in script.batches for row in batch]
    same_rows(runner(script, lambda stream: stream.run_batch(rows)), script.batch)


def times(script, batch):
    if script.timestamp is None:
        return []
    at = [column.split()[0] for column in script.input.split(", ")].index(script.timestamp)
    return [row[at] for row in batch]
