"""The package's own sources, sent to executors that don't have them installed."""

from __future__ import annotations

import importlib.resources
import io
import zipfile
from typing import TYPE_CHECKING

from .._version import __version__
from .client import client_of

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from pyspark.sql import SparkSession


def ship_package(spark: SparkSession) -> None:
    """Add the package to the Python files of the session, or of its SparkContext.

    So driver and executors run the same version, and executors need no installation.
    """
    client_of(spark).add_python_file(f"pillarbox-{__version__}.zip", _zipped)


def _zipped() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, importlib.resources.files("pillarbox"), "pillarbox")
    return target.getvalue()


def _add(archive: zipfile.ZipFile, source: Traversable, name: str) -> None:
    for entry in sorted(source.iterdir(), key=lambda entry: entry.name):
        path = f"{name}/{entry.name}"
        if entry.is_dir() and entry.name not in ("__pycache__", "jars"):
            _add(archive, entry, path)
        elif entry.name.endswith((".py", ".json")):
            # The bytes are always the same, since a server refuses others under a known name.
            file = zipfile.ZipInfo(path)
            archive.writestr(file, entry.read_bytes(), zipfile.ZIP_DEFLATED)
