"""Finds the jar that belongs to this package."""

from __future__ import annotations

import importlib.resources
import re
import zipfile
from pathlib import Path

from .._version import __version__
from ..errors import error

_BRIDGE = "io/pillarbox/spark/PythonBridge.class"
_NAME = re.compile(r"pillarbox([-_.].*)?\.jar")


def find_jar() -> str:
    """The path of the jar: the one in the wheel; in a checkout, the newest that was built; where
    the package itself was loaded from the jar, that one.

    Raises ``EngineUnavailable`` (JAR_NOT_FOUND).
    """
    package = importlib.resources.files("pillarbox")
    if isinstance(package, zipfile.Path):
        return _around(package)
    if not isinstance(package, Path):
        raise error("JAR_NOT_FOUND", searched=f"{package}, which is neither a folder nor a jar")
    bundled, built = package / "jars", package.parents[2] / "target"
    jars = sorted(bundled.glob("pillarbox-*.jar")) or _built(built)
    if not jars:
        raise error("JAR_NOT_FOUND", searched=f"{bundled}, {built}")
    return str(jars[-1])


def is_ours(jar: str) -> bool:
    """Whether a path or URL is that of a Pillarbox jar, by its name."""
    return _NAME.fullmatch(re.split(r"[/\\]", jar)[-1]) is not None


def _around(package: zipfile.Path) -> str:
    """The archive that the package was loaded from, if it has the JVM's classes too."""
    archive = package.root
    if _BRIDGE not in archive.namelist():
        raise error("JAR_NOT_FOUND", searched=f"{archive.filename}, which has no classes")
    return str(Path(str(archive.filename)).absolute())


def _built(folder: Path) -> list[Path]:
    """Oldest first, of this version if there are such."""
    jars = sorted(folder.glob("pillarbox-*.jar"), key=lambda jar: jar.stat().st_mtime)
    return [jar for jar in jars if jar.stem == f"pillarbox-{__version__}"] or jars
