"""The name that a misspelt one is meant for."""

from __future__ import annotations

import functools
from collections.abc import Iterable

_TWO_LETTERS_FROM = 6


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of ``names`` with the fewest edits; None if there are no names."""
    return min(names, key=lambda one: _distance(name.lower(), one.lower()), default=None)


@functools.lru_cache(4096)
def is_nearly(name: str, meant: str, allowed: int | None = None) -> bool:
    """Return True if ``name`` is ``meant`` in another case or with a typing error.

    One letter may differ; two in a name of six letters or more, none in one of two or less; or as
    many as are ``allowed``.
    """
    if allowed is None:
        allowed = 2 if len(meant) >= _TWO_LETTERS_FROM else len(meant) > 2
    if abs(len(name) - len(meant)) > allowed:
        return False
    return _distance(name.lower(), meant.lower()) <= allowed


def _distance(left: str, right: str) -> int:
    """Count letters changed, added, dropped or swapped with a neighbour (optimal alignment)."""
    before: list[int] = []
    last = list(range(len(right) + 1))
    for row, letter in enumerate(left, 1):
        now = [row]
        for column, other in enumerate(right, 1):
            cost = min(last[column] + 1, now[column - 1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            now.append(cost)
        before, last = last, now
    return last[-1]
