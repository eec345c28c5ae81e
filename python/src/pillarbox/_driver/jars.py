"""Finds the jar that belongs to this package."""

from __future__ import annotations

import importlib.resources
import re
import zipfile
from pathlib import Path

from .._base.lines import installed
from .._version import __version__
from ..errors import error

_BRIDGE = "io/pillarbox/spark/PythonBridge.class"
_NAME = re.compile(r"pillarbox([-_.].*)?\.jar")


def find_jar() -> str:
    """The path of the jar for the PySpark that is installed: the one in the wheel; in a checkout,
    the newest that was built; where the package itself was loaded from a jar, that one.

    Raises ``EngineUnavailable`` (JAR_NOT_FOUND).
    """
    package = importlib.resources.files("pillarbox")
    if isinstance(package, zipfile.Path):
        return _around(package)
    if not isinstance(package, Path):
        raise error(
            "JAR_NOT_FOUND",
            spark=installed(),
            searched=f"{package}, which is neither a folder nor a jar",
        )
    bundled, built = package / "jars", package.parents[2] / "target"
    name = f"pillarbox-spark_{installed()}-*.jar"
    jars = sorted(bundled.glob(name)) or _built(built, name)
    if not jars:
        raise error("JAR_NOT_FOUND", spark=installed(), searched=f"{bundled}, {built}")
    return str(jars[-1])


def is_ours(jar: str) -> bool:
    """Whether a path or URL is that of a Pillarbox jar, by its name."""
    return _NAME.fullmatch(re.split(r"[/\\]", jar)[-1]) is not None


def _around(package: zipfile.Path) -> str:
    """The archive that the package was loaded from, if it has the JVM's classes too."""
    archive = package.root
    if _BRIDGE not in archive.namelist():
        raise error(
            "JAR_NOT_FOUND", spark=installed(), searched=f"{archive.filename}, which has no classes"
        )
    return str(Path(str(archive.filename)).absolute())


def _built(folder: Path, name: str) -> list[Path]:
    """Oldest first, of this version if there are such."""
    jars = sorted(folder.glob(name), key=lambda jar: jar.stat().st_mtime)
    return [jar for jar in jars if jar.stem.endswith(f"-{__version__}")] or jars
