"""What type checkers say of user code: nothing of the docs' examples, all of the mistakes.

``make types`` runs it, with mypy and pyright.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from test_docs import PAGES, ROOT, blocks

pytestmark = pytest.mark.types

MISTAKES = ROOT / "tests/types/mistakes.py"
FOUND = re.compile(r"# found: (\S+) (\S+)$")
# What code without annotations can't satisfy; everything else of strict holds for the examples.
UNTYPED = ("--allow-untyped-defs", "--allow-untyped-calls", "--allow-any-generics")
START = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"


class Found(NamedTuple):
    file: str
    line: int
    code: str
    message: str


def mypy(paths: list[Path], *flags: str) -> list[Found]:
    told = run("-m", "mypy", "--config-file=../python/pyproject.toml", "--strict",
               "--output=json", "--no-error-summary", *flags, *map(str, paths))  # fmt: skip
    errors = [json.loads(line) for line in told.splitlines() if line]
    return [
        Found(Path(one["file"]).name, one["line"], one["code"] or "", one["message"])
        for one in errors
        if one["severity"] == "error"
    ]


def pyright(paths: list[Path], *_: str) -> list[Found]:
    told = run("-m", "pyright", f"--pythonpath={sys.executable}", "--outputjson", *map(str, paths))
    return [
        Found(
            Path(one["file"]).name,
            one["range"]["start"]["line"] + 1,
            one.get("rule", ""),
            one["message"],
        )
        for one in json.loads(told)["generalDiagnostics"]
        if one["severity"] == "error"
    ]


def run(*command: str) -> str:
    made = subprocess.run(
        [sys.executable, *command], cwd=ROOT / "tests", capture_output=True, text=True, timeout=600
    )
    assert made.returncode in (0, 1), made.stdout + made.stderr
    return made.stdout


Checker = Callable[..., list[Found]]
CHECKERS = pytest.mark.parametrize(("checker", "column"), [(mypy, 1), (pyright, 2)])


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The code of each page in one file, its lines where they are on the page."""
    folder = tmp_path_factory.mktemp("examples")
    return [written(page, folder) for page in PAGES if blocks(page)]


def written(page: Path, folder: Path) -> Path:
    file = folder / f"{page.parent.name}_{page.stem}.py".replace("-", "_")
    code = START
    for block in blocks(page):
        before = page.read_text("utf-8").count("\n", 0, block.start("code"))
        code += "\n" * (before - code.count("\n")) + block["code"]
    file.write_text(code, "utf-8")
    return file


@CHECKERS
def test_the_examples_of_the_docs_have_no_errors(
    checker: Checker, column: int, examples: list[Path]
) -> None:
    assert len(examples) > 5
    assert checker(examples, *UNTYPED) == []


@CHECKERS
def test_the_jobs_of_the_demo_have_no_errors(checker: Checker, column: int) -> None:
    assert checker(sorted((ROOT / "examples").glob("*/job.py"))) == []


@CHECKERS
def test_exactly_the_mistakes_are_found(checker: Checker, column: int) -> None:
    wanted = {}
    for number, line in enumerate(MISTAKES.read_text("utf-8").splitlines(), 1):
        told = FOUND.search(line)
        if told and told[column] != "-":
            wanted[number] = set(told[column].split(","))
    found: dict[int, set[str]] = {}
    for one in checker([MISTAKES]):
        found.setdefault(one.line, set()).add(one.code)
    assert len(wanted) > 40
    assert found == wanted
