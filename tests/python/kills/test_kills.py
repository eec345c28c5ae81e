"""The campaign of kills: ten programs of it, and that its oracle finds what it is there for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kills.oracle import problems
from kills.programs import Calls, Program, program
from spark_apps import SOURCES

TESTS = Path(__file__).parents[1]


@pytest.mark.nightly
def test_ten_programs_end_as_they_must_whatever_is_killed() -> None:
    path = os.pathsep.join([SOURCES, str(TESTS)])
    done = subprocess.run(
        [sys.executable, "-m", "kills.campaign", "10", "1"],
        cwd=TESTS, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 programs, " in done.stdout.splitlines()[-1]


STREAM = replace(
    program(1), does=Calls("stream", "async"), files=2, rows=2, starts=program(1).starts[:1]
)


class Run:
    """A run as it should be, to be spoilt: two micro-batches of two rows."""

    def __init__(self, of: Program) -> None:
        self.of = of
        self.files = of.questions()
        self.rows = [
            [[row["id"], row["ask"], row["ask"], None] for row in file] for file in self.files
        ]
        self.log: list[dict[str, Any]] = [{"event": "started"}]
        for number, rows in enumerate(self.rows):
            for row in rows:
                self.call(row[1], f"id of {row[1]}")
            self.log.append({"event": "sink", "batch": number, "rows": rows})

    def call(self, ask: str, id: str) -> None:
        of = {"asks": [ask], "ids": [id], "orphan": False, "pid": 1}
        self.log += [{"event": "call", **of}, {"event": "answered", **of}]

    def problems(self, folder: Path) -> str:
        (folder / "out").mkdir()
        for number, rows in enumerate(self.rows):
            (folder / f"out/{number}.json").write_text(json.dumps(rows))
        return "\n".join(problems(self.of, folder, self.log, "done"))


def test_a_program_follows_from_its_seed() -> None:
    assert repr(program(17)) == repr(program(17))
    assert len({repr(program(seed)) for seed in range(50)}) == 50


def test_nothing_is_wrong_with_a_run_as_it_should_be(tmp_path: Path) -> None:
    assert Run(STREAM).problems(tmp_path) == ""


def with_another_answer(run: Run) -> None:
    run.rows[1][0][2] = run.rows[0][0][1]


def with_a_row_twice(run: Run) -> None:
    run.rows[1].append(run.rows[0][0])


def without_a_row(run: Run) -> None:
    run.rows[1].pop()


def with_an_error(run: Run) -> None:
    run.rows[0][0][2:] = [None, "TIMEOUT"]


def with_one_id_for_two(run: Run) -> None:
    first, second = (run.log[at] for at in (1, 3))
    second["ids"] = first["ids"]


def with_a_second_id(run: Run) -> None:
    run.log.insert(1, {"event": "kill", "what": "worker", "own": True})
    run.log.insert(2, {**run.log[2], "ids": ["another"]})


def asked_behind_its_micro_batch(run: Run) -> None:
    run.log.append({"event": "kill", "what": "worker", "own": True})
    run.call(run.rows[0][0][1], f"id of {run.rows[0][0][1]}")


def asked_twice(run: Run) -> None:
    run.log.insert(1, run.log[2])


def failed(run: Run) -> None:
    run.log += [{"event": "failed", "told": "a defect"}, {"event": "started"}]


def crowded(run: Run) -> None:
    run.log.append({"event": "crowd", "calls": 3, "value": ""})


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (with_another_answer, "has the answer of"),
        (with_a_row_twice, "1 rows too many"),
        (without_a_row, "1 rows missing"),
        (with_an_error, "with the error TIMEOUT"),
        (with_one_id_for_two, "one id for the questions"),
        (with_a_second_id, "2 ids of the question"),
        (asked_behind_its_micro_batch, "was asked again behind its micro-batch"),
        (asked_twice, "answered more than 1 times, and nothing was killed"),
        (failed, "the query failed, and nothing was killed: a defect"),
        (crowded, "3 calls in flight"),
    ],
)
def test_the_oracle_finds(tmp_path: Path, spoil: Any, told: str) -> None:
    run = Run(STREAM)
    spoil(run)
    assert told in run.problems(tmp_path)


def test_the_oracle_knows_budgets_and_journals(tmp_path: Path) -> None:
    run = Run(replace(STREAM, does=Calls("stream", "async", max_calls=3)))
    assert "4 calls, and the budget is 3" in run.problems(tmp_path)
    refused = Run(replace(STREAM, does=Calls("stream", "async", max_calls=1000)))
    refused.rows[0][0][2:] = [None, "BUDGET_EXCEEDED"]
    (tmp_path / "refused").mkdir()
    assert "rows are refused after 4 calls of 1000" in refused.problems(tmp_path / "refused")
    kept = Run(replace(STREAM, does=Calls("batch", "async", capacity=1, journal=True)))
    kept.log.append({"event": "kill", "what": "driver", "own": True})
    for ask in [row[1] for row in kept.rows[0]]:
        kept.call(ask, f"id of {ask}")
    (tmp_path / "kept").mkdir()
    assert "2 answers were asked for again" in kept.problems(tmp_path / "kept")
