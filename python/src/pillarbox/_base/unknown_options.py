"""Errors for unknown keywords of functions and option objects, which name the right keyword."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import error
from .names import is_nearly, nearest
from .words import WORDS

F = TypeVar("F", bound=Callable[..., Any])


def answers_unknown(made: F) -> F:
    """Make a function or class raise ``InvalidOption`` (UNKNOWN_OPTION) for an unknown keyword.

    Type checkers see the unchanged signature. The message has the answer of :data:`WORDS`, or else
    the nearest name.
    """
    taker: Any = made.__init__ if isinstance(made, type) else made  # type: ignore[misc]
    names = list(inspect.signature(made).parameters)
    known = frozenset(names)

    @functools.wraps(taker)
    def checked(*args: Any, **options: Any) -> Any:
        if not known.issuperset(options):
            found = next(name for name in options if name not in known)
            raise unknown(made, found, names)
        return taker(*args, **options)

    if not isinstance(made, type):
        return checked  # type: ignore[return-value]
    made.__init__ = checked  # type: ignore[misc]
    return made


def unknown(made: Any, option: str, names: list[str]) -> Exception:
    """Return the error for an ``option`` that ``made``, which takes those of ``names``, has not."""
    meant = WORDS.get(made.__name__, {}).get(option)
    if meant is None:
        near = nearest(option, names)
        is_near = near is not None and is_nearly(option, near, len(near) // 2)
        meant = f"The nearest that it has is {near}." if is_near else f"It has {', '.join(names)}."
    where = "pb.testing" if "testing" in made.__module__.split(".") else "pb"
    function = f"{where}.{made.__name__}"
    return error("UNKNOWN_OPTION", function=function, option=option, meant=meant)
