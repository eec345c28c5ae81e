"""A parser of Spark's type strings for Python workers and tests, which have no JVM.

It accepts the columns and types of Spark's own parser: ``bigint``, ``a string, b array<int>``,
``struct<a: int, b: string>``, ``decimal(10,2)``, ``a int NOT NULL COMMENT 'x'``, quoted names.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import types as t

from .._base.spark_versions import sql_type
from ..errors import PillarboxError, error, shown

_TOKEN = re.compile(
    r"`(?P<quoted>(?:[^`]|``)+)`"
    r"|(?P<literal>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<word>\w+)|(?P<symbol>\S)"
)

_ATOMIC: dict[str, Callable[[], t.DataType]] = {
    "boolean": t.BooleanType,
    "tinyint": t.ByteType,
    "byte": t.ByteType,
    "smallint": t.ShortType,
    "short": t.ShortType,
    "int": t.IntegerType,
    "integer": t.IntegerType,
    "bigint": t.LongType,
    "long": t.LongType,
    "float": t.FloatType,
    "real": t.FloatType,
    "double": t.DoubleType,
    "date": t.DateType,
    "timestamp": t.TimestampType,
    "timestamp_ltz": t.TimestampType,
    "timestamp_ntz": t.TimestampNTZType,
    "string": t.StringType,
    "binary": t.BinaryType,
    "variant": t.VariantType,
    "void": t.NullType,
}
_UNITS = {"day": 0, "hour": 1, "minute": 2, "second": 3}


class _Malformed(Exception):
    """The reason why a type string can't be parsed."""


def invalid_type(option: str, value: object, reason: str) -> PillarboxError:
    """Return INVALID_TYPE, the error for the type of a state, and for a harness's ``schema``."""
    return error("INVALID_TYPE", option=option, value=shown(value), reason=reason)


# Makes the error for an option with a value that is no type, for a reason.
Refusal = Callable[[str, object, str], PillarboxError]


def parse_columns(ddl: str | t.DataType, option: str) -> t.StructType:
    """Parse a schema such as ``"a string, b bigint"``; a ``StructType`` is returned itself.

    Raises ``InvalidSchema`` (INVALID_TYPE) naming ``option``.
    """
    parsed = parse_type(ddl, option)
    if isinstance(parsed, t.StructType):
        return parsed
    raise invalid_type(option, ddl, "it is a bare type without column names")


def parse_type(ddl: str | t.DataType, option: str, refusal: Refusal = invalid_type) -> t.DataType:
    """Parse a type such as ``"bigint"``, or columns such as ``"a string, b bigint"`` as a struct.

    A ``DataType`` is returned itself. Raises the error of ``refusal`` naming ``option``.
    """
    if isinstance(ddl, t.DataType):
        return ddl
    if not isinstance(ddl, str):
        raise refusal(option, ddl, "it is neither a string nor a DataType")
    try:
        return _Parser(ddl).read()
    except (_Malformed, ValueError) as problem:
        raise refusal(option, ddl, str(problem)) from None


class _Parser:
    """A recursive-descent parser of one string."""

    def __init__(self, text: str) -> None:
        # The kind and text of each token.
        self._tokens = [(one.lastgroup, one[one.lastgroup or 0]) for one in _TOKEN.finditer(text)]
        self._next = 0

    def read(self) -> t.DataType:
        if not self._tokens:
            raise _Malformed("it is empty")
        parsed = self._columns("") if self._starts_with_column() else self._type()
        if self._next < len(self._tokens):
            raise _Malformed(f"{self._text()!r} was not expected")
        return parsed

    def _starts_with_column(self) -> bool:
        """Return True for a name and a type; a type alone is one word, or continues in brackets."""
        if self._tokens[0][0] == "quoted":
            return True
        if len(self._tokens) < 2 or self._word_at(0) == "interval":
            return len(self._tokens) > 1 and self._word_at(1) in _ATOMIC
        if self._word_at(1) == "collate":
            return False
        return self._word_at(1) is not None or self._tokens[1] == ("symbol", ":")

    def _columns(self, end: str) -> t.StructType:
        fields = [self._column()]
        while self._take(","):
            fields.append(self._column())
        if end and not self._take(end):
            raise _Malformed(f"{end!r} is missing")
        return t.StructType(fields)

    def _column(self) -> t.StructField:
        name = self._name()
        self._take(":")
        kind, nullable = self._type(), True
        if self._take("not"):
            if not self._take("null"):
                raise _Malformed("NOT must be followed by NULL")
            nullable = False
        metadata = {}
        if self._take("comment"):
            metadata["comment"] = self._literal()
        return t.StructField(name, kind, nullable, metadata)

    def _type(self) -> t.DataType:
        word = self._word()
        if word in _ATOMIC:
            return self._string_or(_ATOMIC[word]())
        if word in ("decimal", "dec", "numeric"):
            return t.DecimalType(*(self._numbers() or (10, 0)))
        if word == "time" and issubclass(sql_type("TimeType"), t.DataType):
            time: t.DataType = sql_type("TimeType")(*(self._numbers() or (6,)))
            return time
        if word in ("char", "character", "varchar"):
            (length,) = self._numbers() or (0,)
            return t.VarcharType(length) if word == "varchar" else t.CharType(length)
        if word == "interval":
            return self._interval()
        return self._nested(word)

    def _string_or(self, kind: t.DataType) -> t.DataType:
        if isinstance(kind, t.StringType) and self._take("collate"):
            return t.StringType(self._name())
        return kind

    def _nested(self, word: str) -> t.DataType:
        if word not in ("array", "map", "struct"):
            raise _Malformed(f"{word!r} is not a type")
        if not self._take("<"):
            raise _Malformed(f"{word} must be followed by '<'")
        if word == "struct":
            return t.StructType([]) if self._take(">") else self._columns(">")
        first = self._type()
        second = self._type() if word == "map" and self._take(",") else None
        if not self._take(">"):
            raise _Malformed("'>' is missing")
        if word == "array":
            return t.ArrayType(first)
        if second is None:
            raise _Malformed("a map has a key and a value type")
        return t.MapType(first, second)

    def _interval(self) -> t.DataType:
        start = self._word()
        if start not in _UNITS:
            raise _Malformed(f"intervals of {start} are not supported")
        end = self._word() if self._take("to") else start
        return t.DayTimeIntervalType(_UNITS[start], _UNITS.get(end, 3))

    def _numbers(self) -> tuple[int, ...]:
        if not self._take("("):
            return ()
        numbers = [int(self._word())]
        while self._take(","):
            numbers.append(int(self._word()))
        if not self._take(")"):
            raise _Malformed("')' is missing")
        return tuple(numbers)

    def _token(self) -> tuple[str | None, str]:
        if self._next == len(self._tokens):
            raise _Malformed("it ends too early")
        self._next += 1
        return self._tokens[self._next - 1]

    def _name(self) -> str:
        kind, text = self._token()
        if kind not in ("quoted", "word"):
            raise _Malformed(f"{text!r} is not a name")
        return text.replace("``", "`")

    def _literal(self) -> str:
        kind, text = self._token()
        if kind != "literal":
            raise _Malformed("COMMENT must be followed by a quoted text")
        return text[1:-1]

    def _word(self) -> str:
        word = self._word_at(self._next)
        if word is None:
            raise _Malformed(f"{self._text()!r} is where a type should be")
        self._next += 1
        return word

    def _word_at(self, index: int) -> str | None:
        kind, text = self._tokens[index] if index < len(self._tokens) else (None, "")
        return text.lower() if kind == "word" else None

    def _take(self, wanted: str) -> bool:
        """Take the next token if it is the symbol or the word that is ``wanted``."""
        kind, text = self._tokens[self._next] if self._next < len(self._tokens) else (None, "")
        taken = kind in ("symbol", "word") and text.lower() == wanted
        self._next += taken
        return taken

    def _text(self) -> str:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else "the end"
