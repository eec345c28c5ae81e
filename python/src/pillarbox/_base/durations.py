"""Durations as users write them (Spark's interval strings or ``timedelta``), in milliseconds.

Spark's own parser of intervals is in the JVM, which the harness and the Python engine may lack.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from fractions import Fraction

from ..errors import error, shown

_UNITS_MS: dict[str, Fraction] = {}
for _names, _factor in (
    ("us microsecond microseconds", Fraction(1, 1000)),
    ("ms millisecond milliseconds", Fraction(1)),
    ("s sec secs second seconds", Fraction(1000)),
    ("m min mins minute minutes", Fraction(60_000)),
    ("h hour hours", Fraction(3_600_000)),
    ("d day days", Fraction(86_400_000)),
    ("w week weeks", Fraction(604_800_000)),
):
    _UNITS_MS.update(dict.fromkeys(_names.split(), _factor))

# Digits are bounded, because Python refuses to read numbers of thousands of digits.
_PART = re.compile(r"\s*(\d{1,20}(?:\.\d{1,20})?)\s*([a-z]+)\s*")

LONGEST_MS = 100_000 * 86_400_000  # this fits into 64 bits in nanoseconds too


def milliseconds(value: object, option: str) -> int:
    """Return ``value`` in whole ms, rounded up. The error names ``option``.

    Raises ``InvalidOption`` (INVALID_DURATION) for anything that isn't a duration of 1 ms to
    100,000 days. A bare number is refused, because its unit would be a guess.
    """
    exact = _exact(value)
    if exact is None or not 1 <= exact <= LONGEST_MS:
        raise error("INVALID_DURATION", option=option, value=shown(value))
    return math.ceil(exact)


def _exact(value: object) -> Fraction | None:
    if isinstance(value, timedelta):
        return Fraction(value // timedelta(microseconds=1), 1000)
    if isinstance(value, str):
        return _parsed(value)
    return None


def _parsed(text: str) -> Fraction | None:
    rest = text.strip().lower().removeprefix("interval ")
    total = Fraction(0)
    while rest:
        part = _PART.match(rest)
        if part is None or part[2] not in _UNITS_MS:
            return None
        total += Fraction(part[1]) * _UNITS_MS[part[2]]
        rest = rest[part.end() :]
    return total
