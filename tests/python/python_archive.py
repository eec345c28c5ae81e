"""An environment of Python for ``spark-submit --archives``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: The Python that this environment was made from; it has none of the packages.
BARE = str(Path(sys._base_executable))  # type: ignore[attr-defined]


def python_archive(folder: Path) -> Path:
    """One with pyarrow and numpy, as venv-pack makes it of an environment that pip has filled."""
    make = [BARE, "-m", "venv", "--copies", "--without-pip", str(folder / "env")]
    subprocess.run(make, check=True)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    left_out = shutil.ignore_patterns("__pycache__", "tests", "include", "*flight*")
    for name in ("numpy", "numpy.libs", "pyarrow"):
        _copy(name, packages, left_out)
    with tarfile.open(folder / "environment.tar.gz", "w:gz", compresslevel=1) as packed:
        packed.add(folder / "env", arcname=".")
    return folder / "environment.tar.gz"


def _copy(name: str, packages: Path, left_out: Any) -> None:
    spec = find_spec(name.split(".")[0])
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).parent.parent / name
    # Wheels for some systems have no folder of libraries.
    if source.exists():
        shutil.copytree(source, packages / name, ignore=left_out)
