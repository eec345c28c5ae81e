"""Values of data in the texts of errors: shown, or hidden as two settings of Spark say.

One hides all of them, the other those of columns, fields and entries of maps whose names it finds,
as Spark's own redaction does. A task sets both when it begins, and a text is made when there is an
error. `PythonText.scala` has the same rules; ``tests/golden/rows.json`` has cases for both.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import shown

SHOW_VALUES = "spark.pillarbox.errors.showValues"
REDACTION = "spark.redaction.regex"
HIDDEN = "*********(redacted)"  # as Spark shows it
LONGEST_ROW = 200  # characters
_WHOLE = 10_000
Names = Iterable[str]


@dataclass(frozen=True)
class Values:
    """The rule for the values that are shown; the default of ``redaction`` is Spark's."""

    show: bool = True
    redaction: str = "(?i)secret|password|token|access[.]?key"

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        try:
            return re.compile(self.redaction)
        except re.error:  # it is written for Java, whose syntax has more
            return None

    def hides(self, name: object) -> bool:
        """Return True if values of this name are hidden: all are if the pattern can't be read."""
        return not self.show or self._pattern is None or bool(self._pattern.search(str(name)))


_values = Values()


def use(values: Values) -> None:
    """Set what the errors of this process show from now on. Main thread, when a task begins."""
    global _values
    _values = values


def hides(names: Names) -> bool:
    """Return True if a value of one of these columns or fields is hidden."""
    return not _values.show or any(map(_values.hides, names))


def shown_value(value: object, names: Names = (), limit: int = 100) -> str:
    """Return ``repr(value)`` for a message, at most ``limit`` characters. Never raises.

    ``names`` are those of the columns that the value is for. If one of them is hidden, so is all of
    it: what doesn't fit need not have names. Otherwise parts with hidden names are.
    """
    return HIDDEN if hides(names) else shown(value, limit, _masked)


def shown_reason(reason: str, names: Names) -> str:
    """Return what others say of a value of ``names``, which may quote it."""
    return HIDDEN if hides(names) else reason


def shown_cause(cause: BaseException, names: Names) -> BaseException | None:
    """Return the cause of an error about a value of ``names``, unless its text may quote it."""
    return None if hides(names) else cause


def row_text(row: object) -> str:
    """Return ``column=value, ...``, at most 200 characters."""
    text = shown_value(row, limit=_WHOLE)
    if text.startswith("Row(") and text.endswith(")"):
        text = text[4:-1]
    return text if len(text) <= LONGEST_ROW else text[: LONGEST_ROW - 1] + "…"


def key_text(key: object, names: Sequence[str]) -> str:
    """Return a key: the value of a single column, else a ``Row``."""
    return shown_value(key, names if len(names) == 1 else ())


class Masked:
    """An object whose repr hides by itself what is hidden."""

    __slots__ = ()


_PLAIN = (Masked, str, bytes, int, float, type(None), decimal.Decimal,
          datetime.date, datetime.time, datetime.timedelta)  # fmt: skip


def _masked(value: object) -> str:
    mask = _Mask()
    text = mask.text(value)
    return text if mask.found else repr(value)


class _Mask:
    """Writes a value without its hidden parts; ``found`` tells whether it has any."""

    def __init__(self) -> None:
        self.found = False

    def text(self, value: Any) -> str:
        if isinstance(value, tuple):
            names = getattr(value, "__fields__", None) or getattr(type(value), "_fields", None)
            if names is not None:
                parts = zip(names, tuple(value), strict=False)
                inside = ", ".join(f"{name}={self._part(name, one)}" for name, one in parts)
                return f"{type(value).__name__}({inside})"
            return f"({', '.join(map(self.text, value))})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, dict):
            entries = value.items()
            inside = ", ".join(f"{self.text(k)}: {self._part(k, one)}" for k, one in entries)
            return f"{{{inside}}}"
        return repr(value) if isinstance(value, _PLAIN) else self._object(value)

    def _part(self, name: object, value: object) -> str:
        if isinstance(name, str) and _values.hides(name):
            self.found = True
            return HIDDEN
        return self.text(value)

    def _object(self, value: Any) -> str:
        """Hide an object whole that has a hidden name among its attributes or in its repr."""
        text = repr(value)
        fields = getattr(type(value), "__dataclass_fields__", ())
        if any(map(_values.hides, (text, *fields, *getattr(value, "__dict__", ())))):
            self.found = True
            return HIDDEN
        return text
