"""One wheel on each line of Spark: its ``spark-submit`` with the jar that the wheel has for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from environments import ROOT, python_of
from pillarbox._base.spark_versions import SUPPORTED, installed

APP = Path(__file__).with_name("submit_app.py")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel was installed into."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT / "python", check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def environment(line: str, wheel: Path) -> dict[str, str]:
    python = python_of(line)
    own = {"PYTHONPATH": str(wheel), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    return {**os.environ, **own}


@cache
def jar_of(line: str, wheel: Path) -> str:
    """What users write: --jars "$(python -m pillarbox jar)"."""
    command = [python_of(line), "-m", "pillarbox", "jar"]
    done = subprocess.run(
        command, env=environment(line, wheel), check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def submitted(line: str, jar: str, wheel: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    where = "import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)"
    home = subprocess.run(
        [python_of(line), "-c", where], check=True, capture_output=True, text=True
    ).stdout.strip()
    command = [f"{home}/bin/spark-submit", "--master", "local[2]", "--jars", jar]
    return subprocess.run(
        [*command, str(APP), str(folder)],
        env={**environment(line, wheel), "SPARK_HOME": home},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Any:
    @cache
    def of(line: str) -> Any:
        folder = tmp_path_factory.mktemp("submit")
        done = submitted(line, jar_of(line, wheel), wheel, folder)
        found = [text for text in done.stdout.splitlines() if text.startswith("FOUND ")]
        assert len(found) == 1, f"on Spark {line}: {done.stdout[-500:]}{done.stderr[-4000:]}"
        return json.loads(found[0].removeprefix("FOUND "))

    return of


@pytest.mark.parametrize("line", SUPPORTED)
def test_spark_submit_with_the_jar_of_the_line(line: str, wheel: Path, answers: Any) -> None:
    jar = jar_of(line, wheel)
    assert jar.startswith(f"{wheel}/pillarbox/jars/pillarbox-spark_{line}-")
    found = answers(line)
    assert found["spark"].startswith(f"{line}.")
    assert found["package"].startswith(str(wheel))
    assert [Path(one).name for one in found["jars"].split(",")] == [Path(jar).name]
    assert found["calls"] == 2 * sum(range(20))
    assert all(found["keyed"].values())
    assert found["keyed"] == answers(installed())["keyed"]


@pytest.mark.parametrize("line", ["4.1", "4.3"])
def test_the_jar_of_another_line_is_refused(line: str, wheel: Path, tmp_path: Path) -> None:
    done = submitted(line, jar_of(installed(), wheel), wheel, tmp_path / "query")
    assert done.returncode != 0
    assert "[SPARK_VERSION_UNSUPPORTED]" in done.stderr + done.stdout
