"""Finds the jar that belongs to this package."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

from ._version import __version__
from .errors import error


def find_jar() -> str:
    """The path of the one jar in the wheel, or, in a checkout, of the newest that was built.

    Raises ``EngineUnavailable`` (JAR_NOT_FOUND).
    """
    package = importlib.resources.files(__package__)
    if not isinstance(package, Path):
        raise error("JAR_NOT_FOUND", searched=f"{package}, which is not a folder")
    bundled, built = package / "jars", package.parents[2] / "target"
    jars = sorted(bundled.glob("pillarbox-*.jar")) or _built(built)
    if not jars:
        raise error("JAR_NOT_FOUND", searched=f"{bundled}, {built}")
    return str(jars[-1])


def _built(folder: Path) -> list[Path]:
    """Oldest first, of this version if there are such."""
    jars = sorted(folder.glob("pillarbox-*.jar"), key=lambda jar: jar.stat().st_mtime)
    return [jar for jar in jars if jar.stem == f"pillarbox-{__version__}"] or jars
