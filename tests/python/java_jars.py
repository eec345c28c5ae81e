"""Jars as users build them: against Spark's jars and ours."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyspark

from pillarbox._driver.jars import find_jar


def compiled(folder: Path, name: str, sources: Mapping[str, str]) -> Path:
    """The jar ``name`` in ``folder``, of the texts of Java classes by their simple names."""
    javac = shutil.which("javac")
    assert javac, "the tests need a JDK: no javac on the PATH"
    for simple, text in sources.items():
        (folder / f"{simple}.java").write_text(text)
    classes = folder / "classes"
    libraries = f"{find_jar()}:{Path(pyspark.__file__).parent / 'jars'}/*"
    files = [str(folder / f"{simple}.java") for simple in sources]
    command = [javac, "--release", "17", "-cp", libraries, "-d", str(classes), *files]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(folder / name, "w") as jar:
        for file in classes.rglob("*.class"):
            jar.write(file, str(file.relative_to(classes)))
    return folder / name
