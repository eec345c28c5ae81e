"""Async I/O that outlives a micro-batch: whatever is killed, the output is what it must be.

By day it runs beside a keyed query, in ``test_exactly_once``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from keyed.chaos import KINDS, Chaos, carried, write_input
from keyed.test_exactly_once import files_for, settings

MANY = {"worker": 2, "task": 1, "job": 1, "executor": 1, "driver": 2}
ROUNDS = int(os.environ.get("PILLARBOX_KILL_ROUNDS", "5"))


def chosen(folder: Path, after: str, ordered: bool, format: int, **conf: str) -> dict[str, Any]:
    """Of ``chaos_app``: what follows the operator, "rows" or "windows"."""
    return settings(folder, "heap", False, format, **conf) | {"after": after, "ordered": ordered}


def check(folder: Path, asked: dict[str, Any], kills: dict[str, int], seed: int) -> None:
    write_input(folder / "in", files_for(kills))
    chaos = Chaos(folder / "run", asked, kills, seed)
    rows = chaos.run()
    assert chaos.done == kills
    chaos.compare(rows, carried(folder / "in", asked["after"]))


@pytest.mark.nightly
@pytest.mark.parametrize(("after", "ordered", "format"), [("windows", False, 2), ("rows", True, 1)])
def test_output_is_the_same_whatever_is_killed(
    tmp_path: Path, after: str, ordered: bool, format: int
) -> None:
    check(tmp_path, chosen(tmp_path, after, ordered, format), MANY, seed=format)


@pytest.mark.nightly
def test_speculation_changes_nothing(tmp_path: Path) -> None:
    """Copies of tasks run at the same time, and one of them wins."""
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "10ms",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.minTaskRuntime": "0ms",
    }
    asked = chosen(tmp_path, "windows", False, 2, **speculation)
    asked["master"] = "local-cluster[2,2,1024]"
    check(tmp_path, asked, {"executor": 1, "task": 1}, seed=3)


@pytest.mark.soak
@pytest.mark.parametrize("after", ["rows", "windows"])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("format", [1, 2])
def test_dozens_of_kills(tmp_path: Path, format: int, ordered: bool, after: str) -> None:
    kills = dict.fromkeys(KINDS, ROUNDS)
    check(tmp_path, chosen(tmp_path, after, ordered, format), kills, 10 * format)
