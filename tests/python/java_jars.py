"""Jars as users build them: against Spark's jars and ours."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyspark

from pillarbox._driver.jars import find_jar

LIBRARIES = f"{find_jar()}:{Path(pyspark.__file__).parent / 'jars'}/*"


def compiled(
    folder: Path, name: str, sources: Mapping[str, str], scala: Mapping[str, str] | None = None
) -> Path:
    """The jar ``name`` in ``folder``, of classes in Java and Scala by their simple names."""
    classes = folder / "classes"
    classes.mkdir(exist_ok=True)
    files = written(folder, sources, ".java")
    subprocess.run(
        [tool("javac"), "--release", "17", "-cp", LIBRARIES, "-d", str(classes), *files], check=True
    )
    if scala:
        # Spark's shell needs the compiler, so it is among Spark's jars.
        compiler = [tool("java"), "-cp", LIBRARIES, "scala.tools.nsc.Main", "-usejavacp"]
        files = written(folder, scala, ".scala")
        subprocess.run([*compiler, "-Xfatal-warnings", "-d", str(classes), *files], check=True)
    with zipfile.ZipFile(folder / name, "w") as jar:
        for file in classes.rglob("*.class"):
            jar.write(file, str(file.relative_to(classes)))
    return folder / name


def listed_jars(purpose: str) -> list[str]:
    """The paths that build.sbt's task ``jars`` has written down; empty where it didn't run."""
    file = Path(__file__).parents[2] / "target/jars" / f"{purpose}.txt"
    return file.read_text().split() if file.exists() else []


def written(folder: Path, sources: Mapping[str, str], end: str) -> list[str]:
    for simple, text in sources.items():
        (folder / f"{simple}{end}").write_text(text)
    return [str(folder / f"{simple}{end}") for simple in sources]


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"the tests need a JDK: no {name} on the PATH"
    return found
