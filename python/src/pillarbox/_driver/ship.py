"""Brings the package's own sources to executors that don't have them installed."""

from __future__ import annotations

import importlib.resources
import io
import os
import tempfile
import weakref
import zipfile
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from .._version import __version__
from .jvm import is_classic

if TYPE_CHECKING:
    from importlib.abc import Traversable

_shipped: weakref.WeakSet[Any] = weakref.WeakSet()


def ship_package(spark: Any) -> None:
    """Adds the package to the session's Python files, once a session (classic: a SparkContext).

    Driver and executors thereby run the same version, and nothing need be installed there.
    """
    classic = is_classic(spark)
    owner = spark.sparkContext if classic else spark
    if owner in _shipped:
        return
    # Executors fetch it as long as the context lives, and no longer. A server gets it at once.
    with tempfile.TemporaryDirectory() if not classic else nullcontext(owner._temp_dir) as at:
        path = os.path.join(at, f"pillarbox-{__version__}.zip")
        with open(path, "wb") as file:
            file.write(_zipped())
        if classic:
            owner.addPyFile(path)
        else:
            owner.addArtifacts(path, pyfile=True)
    _shipped.add(owner)


def forget_broadcasts(spark: Any) -> None:
    """Drops what pickling for a check registered; the real plan registers its own."""
    if is_classic(spark):
        spark.sparkContext._pickled_broadcast_vars.clear()


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
            # The same bytes at any time: a server refuses others under a name that it has.
            file = zipfile.ZipInfo(path)
            archive.writestr(file, entry.read_bytes(), zipfile.ZIP_DEFLATED)
