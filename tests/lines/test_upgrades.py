"""A checkpoint goes from each line of Spark to the next, and back.

Needs the environments and jars of all lines: ``tools/test_upgrades`` makes them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from environments import python_of
from java_jars import compiled
from java_options import java_options
from keyed.java_functions import SOURCE
from pillarbox._base.spark_versions import SUPPORTED, installed
from stored_queries import Case

APP = Path(__file__).with_name("app.py")
CASES = [
    *(Case("keyed", backend, form) for backend in ("rocksdb", "heap") for form in "12"),
    *(Case("scan", backend, form) for backend in ("rocksdb", "heap") for form in "12"),
    Case("jvm", "rocksdb", "2"),
    Case("jvm", "heap", "1"),
    Case("carry", "", "1"),
    Case("carry", "", "2"),
    Case("journal"),
]
WAYS = {"up": SUPPORTED, "down": tuple(reversed(SUPPORTED))}
Runs = Callable[[Sequence[str]], Path]


def run(line: str, steps: Sequence[int], last: int, folder: Path, jars: Path) -> None:
    """Steps of all cases, in one process on that line."""
    settings = {"folder": str(folder), "steps": steps, "last": last, "cases": CASES}
    python = python_of(line)
    done = subprocess.run(
        [python, str(APP), json.dumps({**settings, "jars": str(jars)})],
        env={
            **os.environ,
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "JDK_JAVA_OPTIONS": java_options(Path(python).parents[1]),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"on Spark {line}: {done.stderr[-4000:]}"


@pytest.fixture(scope="session")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A jar of a user, compiled once, for all lines."""
    return compiled(tmp_path_factory.mktemp("java"), "counting.jar", {"Counting": SOURCE})


@pytest.fixture(scope="session")
def moved(tmp_path_factory: pytest.TempPathFactory, counting: Path) -> Runs:
    """Queries each of whose steps runs on another line."""

    @cache
    def ran(lines: Sequence[str]) -> Path:
        folder = tmp_path_factory.mktemp("moved")
        for step, line in enumerate(lines):
            run(line, [step], len(lines) - 1, folder, counting)
        return folder

    return ran


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, counting: Path) -> Path:
    """Queries all of whose steps run in one process, which keeps their state open."""
    folder = tmp_path_factory.mktemp("undisturbed")
    last = len(SUPPORTED) - 1
    run(installed(), list(range(last + 1)), last, folder, counting)
    return folder


def outcome(folder: Path, case: Case) -> dict[str, list[str]]:
    failure = folder / str(case) / "failure"
    assert not failure.exists(), failure.read_text()
    found: dict[str, list[str]] = json.loads((folder / str(case) / "outcome.json").read_text())
    assert all(found.values()), f"{case} has nothing to compare"
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_a_query_goes_on_where_another_line_of_spark_stopped_it(
    case: Case, way: str, moved: Runs, undisturbed: Path
) -> None:
    assert outcome(moved(WAYS[way]), case) == outcome(undisturbed, case)
