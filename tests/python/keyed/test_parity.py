"""One list of scripts, the same rows from every runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from worker.keyed_driver import KeyedInProcess
from worker.keyed_operator import Operator, WorkerEnded

import pillarbox as pb
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


class Errs(pb.KeyedProcessFunction):
    """Does what an operator refuses, for the row or the timer of the time 5."""

    def __init__(self, how: str) -> None:
        self.how = how

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        if self.how == "timer":
            ctx.timers.register_event_time(row.t)
            return None
        return [(row.k, row.t), self.wrong(row, ctx)] if row.t == 5 else (row.k, row.t)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.wrong(None, ctx) if timestamp == 5 else None

    def wrong(self, row: Any, ctx: Any) -> Any:
        if self.how == "state":
            self.n.update("x")
        if self.how == "side output":
            ctx.output("bad", ctx.key)
        return row.none if self.how == "column" else (ctx.key, "x")


@pytest.mark.parametrize("how", ["row", "timer", "state", "side output", "column"])
@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "batch"])
def test_an_error_of_ours_names_operator_key_and_row_or_timer_as_the_worker_does(
    how: str, is_stream: bool
) -> None:
    columns = "k string, t bigint"

    def play(stream: Any) -> None:
        rows = [("a", 1), ("b", 2), ("a", 3), ("b", 5), ("a", 7)]
        if is_stream:
            stream.run_micro_batch(rows)
            stream.advance_watermark(9)
        else:
            stream.run_batch(rows)

    one = KeyedInProcess()
    one.start_keyed(Errs(how), by="k string", inputs=columns, returns=columns, name="Errs")
    with pytest.raises(WorkerEnded) as ended:
        play(Operator(one, [0], 1, False))
    one.close()
    report = ended.value.args[0]
    with pytest.raises(pb.PillarboxError) as raised:
        play(KeyedHarness(Errs(how), by="k", schema=columns, returns=columns, timestamp="t"))
    told = raised.value
    assert str(told) == f"[{report['condition']}] process_keyed(Errs): {report['text']}"
    assert type(told).__name__ == report["type"]
    named = {name: report[name] for name in ("condition", "kind", "message", "key", "row", "timer")}
    assert {name: getattr(told, name) for name in named} == named
    assert named["key"] == "'b'"
    assert (named["row"], named["timer"]) == (
        (None, "5 in event time") if how == "timer" else ("k='b', t=5", None)
    )
