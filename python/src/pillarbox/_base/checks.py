"""Checks of options, one for each kind of value. All raise ``InvalidOption``.

The error names the option, its allowed values and an example.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from os import PathLike, fspath
from typing import Any, TypeGuard, get_args

from ..errors import PillarboxError, error, shown

_WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
MOST = 1_000_000_000  # well below 2^31, so that the operator can add to it without overflow


def invalid(option: str, expected: str, value: object, example: object) -> PillarboxError:
    """Return the error for an option with another value than ``expected``."""
    return error(
        "INVALID_OPTION", option=option, expected=expected, value=shown(value), example=example
    )


def needs_other(option: str, value: object, condition: str, advice: str) -> PillarboxError:
    """Return the error for an option that has no meaning under ``condition``."""
    return error(
        "OPTION_NEEDS_OTHER", option=option, value=shown(value), condition=condition, advice=advice
    )


def check(fits: bool, option: str, expected: str, value: object, example: object) -> None:
    """Raise the error of ``option`` unless its value ``fits``."""
    if not fits:
        raise invalid(option, expected, value, example)


def check_count(option: str, value: object, example: object = 100) -> None:
    """Accept a whole number from 1 to ``MOST``."""
    check(
        is_number(value, int) and 1 <= value <= MOST,  # type: ignore[operator]
        *(option, f"a whole number from 1 to {MOST}", value, example),
    )


def check_between(option: str, value: object, low: int, high: int) -> None:
    """Accept a number from ``low`` to ``high``."""
    check(
        is_number(value, int, float) and low <= value <= high,  # type: ignore[operator]
        *(option, f"a number from {low} to {high}", value, float(low)),
    )


def is_number(value: object, *kinds: type) -> bool:
    """Return True for an instance of ``kinds`` that is no bool."""
    return isinstance(value, kinds) and not isinstance(value, bool)


def is_amount(value: object) -> bool:
    """Return True for a number from 0 to the largest float, of whatever class."""
    if not is_number(value, int, float, Decimal, Real):
        return False
    try:
        # Numbers of numpy are compared as floats: their own types can't hold the bound.
        exact: Any = value if isinstance(value, (int, Decimal)) else float(value)  # type: ignore[arg-type]
        is_nan = not isinstance(exact, int) and math.isnan(exact)
        return not is_nan and bool(0 <= exact <= sys.float_info.max)
    except (ArithmeticError, ValueError):  # a fraction beyond a float, or a decimal that signals
        return False


def check_choice(option: str, value: object, choices: Any) -> None:
    """Accept one of the texts of the ``Literal`` type ``choices``."""
    quoted = [f'"{choice}"' for choice in get_args(choices)]
    is_one = isinstance(value, str) and value in get_args(choices)
    check(is_one, option, f"one of {', '.join(quoted)}", value, quoted[0])


def check_flag(option: str, value: object) -> None:
    check(isinstance(value, bool), option, "True or False", value, True)


def check_frame(value: object, option: str = "df") -> None:
    """Accept a DataFrame of Spark."""
    from pyspark.sql import DataFrame

    is_one = isinstance(value, DataFrame)
    check(is_one, option, "a DataFrame of Spark", value, 'spark.table("items")')


def check_name(option: str, value: object, example: str, expected: str = "a name") -> None:
    """Accept a text that isn't empty, and that can travel."""
    check(isinstance(value, str) and bool(value), option, expected, value, f'"{example}"')
    check_text(option, value, f'"{example}"')  # type: ignore[arg-type]


def check_text(option: str, value: str, example: object) -> None:
    """Accept valid Unicode without a NUL, as paths, column names and services need it."""
    expected = "text without lone surrogates and NUL characters"
    check("\0" not in value and is_unicode(value), option, expected, value, example)


def path_text(
    option: str, value: object, example: str, expected: str = "the path of a folder"
) -> str:
    """Return a path as a text. Accepts a text, or a ``PathLike`` of a path without a scheme.

    ``pathlib.Path("s3a://bucket/a")`` is ``s3a:/bucket/a``, which is another path.
    """
    path = fspath(value) if isinstance(value, (str, PathLike)) else None
    check(isinstance(path, str) and bool(path), option, expected, value, f'"{example}"')
    assert isinstance(path, str)
    if not isinstance(value, str) and _WITH_SCHEME.match(path):
        expected = "a str where the path has a scheme: pathlib joins its slashes"
        raise invalid(option, expected, value, f'"{example}"')
    check_text(option, path, f'"{example}"')
    return path


def is_unicode(text: str) -> bool:
    """Return True for a text without lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def column_names(option: str, value: object) -> tuple[str, ...]:
    """Return the names as a tuple. Accepts one name, or a list or tuple of different names."""
    names = (value,) if isinstance(value, str) else value
    if _are_names(names) and len(set(names)) == len(names):
        return tuple(names)
    raise not_columns(option, value)


def some_columns(option: str, value: object) -> tuple[str, ...] | None:
    """Return the names as ``column_names`` does; None for None."""
    return None if value is None else column_names(option, value)


def not_columns(option: str, value: object) -> PillarboxError:
    """Return the error for what is neither a name nor several of different columns."""
    return invalid(option, "the name of a column, or several different ones", value, '"key"')


def _are_names(value: object) -> TypeGuard[Sequence[str]]:
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(name, str) for name in value)
    )
