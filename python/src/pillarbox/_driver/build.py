"""The build of this package: its version, and for a development build the commit."""

from __future__ import annotations

import importlib.resources
from functools import cache

from .._version import __version__


@cache
def build_version() -> str:
    """Return the version, with the commit behind ``+g`` if this is a wheel of a development build.

    A checkout and a package in a jar don't tell one.
    """
    commit = importlib.resources.files("pillarbox").joinpath("_commit.txt")
    return f"{__version__}+g{commit.read_text().strip()}" if commit.is_file() else __version__


def same_build(one: str, other: str) -> bool:
    """Return True if two versions are of one build, as far as both tell their commits."""
    (version, _, commit), (other_version, _, other_commit) = (
        text.partition("+g") for text in (one, other)
    )
    return version == other_version and (not commit or not other_commit or commit == other_commit)
