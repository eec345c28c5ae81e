"""Async I/O that outlives a micro-batch: whatever is killed, the output is what it must be."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyed.chaos import EPOCH, KINDS, Chaos, write_input
from keyed.test_exactly_once import files_for, settings

FEW = {"worker": 1, "driver": 1}
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
    chaos.compare(rows, OF_ROWS[asked["after"]](rows_of(folder / "in")))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    lines = [line for file in folder.iterdir() for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def answered(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [[row["k"], row["what"], row["seq"], f"{row['k']} {row['v']}"] for row in rows]


def windowed(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Five seconds each; the last row is so far ahead that all but its own are closed."""
    windows = defaultdict(list)
    for row in rows:
        number = (datetime.fromisoformat(row["ts"]) - EPOCH) // timedelta(seconds=5)
        windows[number, row["k"]].append(row)
    del windows[max(windows)]
    return [
        [
            key,
            max(row["what"] for row in of),
            sum(row["seq"] for row in of),
            f"{EPOCH + number * timedelta(seconds=5):%Y-%m-%d %H:%M:%S} {len(of)}",
        ]
        for (number, key), of in windows.items()
    ]


OF_ROWS = {"rows": answered, "windows": windowed}


@pytest.mark.parametrize(
    ("after", "ordered", "format", "kills"),
    [
        ("windows", False, 2, FEW),
        pytest.param("windows", False, 2, MANY, marks=pytest.mark.whole),
        pytest.param("rows", True, 1, MANY, marks=pytest.mark.whole),
    ],
)
def test_output_is_the_same_whatever_is_killed(
    tmp_path: Path, after: str, ordered: bool, format: int, kills: dict[str, int]
) -> None:
    check(tmp_path, chosen(tmp_path, after, ordered, format), kills, seed=format)


@pytest.mark.whole
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
