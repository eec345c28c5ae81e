"""A checkpoint goes from each line of Spark to the next, and back.

Needs the environments and jars of all lines: ``tools/test-upgrades`` makes them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pillarbox._base.lines import SUPPORTED, installed

ROOT = Path(__file__).resolve().parents[2]
APP = Path(__file__).with_name("app.py")
CASES = [
    ("keyed", "rocksdb", "1"),
    ("keyed", "rocksdb", "2"),
    ("keyed", "heap", "1"),
    ("keyed", "heap", "2"),
    ("scan", "rocksdb", "2"),
    ("carry", "", "1"),
    ("carry", "", "2"),
]


def python_of(line: str) -> str:
    if line == installed():
        return sys.executable
    return str(ROOT / ".build" / "lines" / line / "bin" / "python")


def run(lines: list[str], folder: Path, case: tuple[str, str, str]) -> list[str]:
    """The rows that a query puts out whose steps run on these lines, sorted."""
    folder.mkdir(parents=True)
    what, backend, checkpoint_format = case
    for step, line in enumerate(lines):
        settings = {"folder": str(folder), "step": step, "last": step == len(lines) - 1}
        settings |= {"what": what, "backend": backend, "format": checkpoint_format}
        python = python_of(line)
        done = subprocess.run(
            [python, str(APP), json.dumps(settings)],
            env={**os.environ, "PYSPARK_PYTHON": python},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"on Spark {line}: {done.stderr[-4000:]}"
    batches = sorted((folder / "out").iterdir())
    return sorted(row for batch in batches for row in batch.read_text().splitlines())


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The rows of a query whose steps all run on one line."""

    @cache
    def rows(case: tuple[str, str, str]) -> list[str]:
        return run([installed()] * len(SUPPORTED), tmp_path_factory.mktemp("one") / "q", case)

    return rows


@pytest.mark.parametrize("case", CASES, ids=" ".join)
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_query_goes_on_where_another_line_of_spark_stopped_it(case, way, tmp_path, undisturbed):
    lines = list(SUPPORTED) if way == "up" else list(reversed(SUPPORTED))
    assert run(lines, tmp_path / "q", case) == undisturbed(case)
