"""Values of every kind of Python object, most of which fit no column; and a fitting one a type."""

from __future__ import annotations

import array
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import uuid
from collections import namedtuple
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Row
from pyspark.sql import types as t

from spark_support import by_value

by_value(__name__)

UTC = dt.timezone.utc
NOON = dt.datetime(2024, 6, 1, 12, 30, 15, 123456)


class Variant(t.VariantVal):
    """A variant with an equality, which PySpark's own has not."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, t.VariantVal) and bytes(other.value) == self.value


# By the type's DDL: a value that comes back as it is.
FITTING: dict[str, Any] = {
    "boolean": True,
    "tinyint": 7,
    "smallint": 7,
    "int": 7,
    "bigint": 2**62,
    "float": 1.5,
    "double": 0.1,
    "decimal(5,2)": Decimal("1.25"),
    "decimal(38,18)": Decimal("1.000000000000000001"),
    "string": "żółw",
    "binary": bytearray(b"ab"),
    "date": NOON.date(),
    "timestamp": NOON,
    "timestamp_ntz": NOON,
    "interval day to second": dt.timedelta(days=1, microseconds=1),
    "time": dt.time(1, 2, 3),
    "variant": Variant(b"\x0c\x07", b"\x01\x00\x00"),
    "void": None,
    "array<int>": [1, None],
    "array<timestamp>": [NOON],
    "map<string,int>": {"a": 1},
    "map<int,array<double>>": {1: [0.5]},
    "struct<>": Row(),
    "struct<a:int,b:string>": Row(a=1, b="x"),
    "struct<a:array<struct<b:decimal(4,1)>>>": Row(a=[Row(b=Decimal("1.5"))]),
}


class RaisingZone(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta | None:
        raise RuntimeError("no zone today")


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __str__(self) -> str:
        raise GeneratorExit

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    def __hash__(self) -> int:
        return 1


class RaisingInt(int):
    def __index__(self) -> int:
        raise RuntimeError("no index")

    def __int__(self) -> int:
        raise RuntimeError("no int")

    def __le__(self, other: object) -> bool:
        raise RuntimeError("no order")


class RaisingStr(str):
    __slots__ = ()

    def encode(self, *how: Any) -> bytes:
        raise RuntimeError("no bytes")

    def __str__(self) -> str:
        raise RuntimeError("no str")


class RaisingTuple(tuple):  # type: ignore[type-arg]
    __slots__ = ()

    def __iter__(self) -> Any:
        raise RuntimeError("no items")


class ShortTuple(tuple):  # type: ignore[type-arg]
    """Has fewer items than it says."""

    __slots__ = ()

    def __iter__(self) -> Any:
        return iter(())


class RaisingDict(dict):  # type: ignore[type-arg]
    def __getitem__(self, key: Any) -> Any:
        raise RuntimeError("no item")

    def get(self, key: Any, default: Any = None) -> Any:
        raise RuntimeError("no item")

    def items(self) -> Any:
        raise RuntimeError("no items")


class RaisingList(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise GeneratorExit


class Numpyish:
    """Looks like one of numpy's."""

    def tolist(self) -> Any:
        raise MemoryError("too much")


Numpyish.__module__ = "numpy"


@dataclasses.dataclass
class Data:
    a: int
    b: str


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


Pair = namedtuple("Pair", "a b")


def liar() -> Any:
    """Raises whatever is asked of it, its class too."""

    def raises(*_: object) -> Any:
        raise OSError("who?")

    return type("Liar", (), {"__class__": property(raises), "__getattr__": raises})()


def unset() -> Any:
    return Data.__new__(Data)


def endless() -> list[Any]:
    own: list[Any] = []
    own.append(own)
    return own


def endless_dict() -> dict[str, Any]:
    own: dict[str, Any] = {}
    own["a"] = own
    return own


def deep() -> Any:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    return value


def odd_values() -> list[Any]:
    """Made anew, as some of them can't be copied or sent."""
    scalars = [
        True, 0, -1, 127, 128, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**400,
        1.5, -0.0, float("nan"), float("inf"), 1e300, 5e-324, 1 + 2j, RaisingInt(5), Level.LOW,
        Decimal("1.005"), Decimal("1234.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"),
        Decimal("1E+999999"), Decimal("1E-999999"), Decimal(10) ** 38, fractions.Fraction(1, 3),
        "", "x", "\ud800", "a\0b", "x" * 100_000, RaisingStr("x"), np.str_("x"),
        b"", b"\xff", bytearray(b"x"), memoryview(b"x"), memoryview(b"xyz")[::2],
    ]  # fmt: skip
    times = [
        NOON, NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=RaisingZone()), NOON.replace(fold=1),
        dt.datetime.min, dt.datetime.max, dt.datetime.min.replace(tzinfo=UTC),
        dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-23))),
        dt.date.min, dt.date.max, dt.time(1, 2), dt.time(1, 2, tzinfo=UTC),
        dt.time(1, 2, tzinfo=RaisingZone()), dt.timedelta.min, dt.timedelta.max, dt.timedelta(1),
        pd.NaT, pd.NA, pd.Timestamp("2024-06-01T12:00:00.123456789"), pd.Timestamp.max,
        pd.Timedelta(1, "ns"), pd.Timedelta.max, pd.Period("2024-06"), pd.Interval(0, 1),
        np.datetime64("NaT"), np.datetime64("2024-06-01"), np.datetime64(2**62, "s"),
        np.timedelta64(5, "D"), np.timedelta64("NaT"),
    ]  # fmt: skip
    numbers = [
        np.bool_(True), np.int8(1), np.uint64(2**63), np.float16(1), np.float32(1e38),
        np.longdouble(1), np.complex64(1), np.void(b"x"), np.array(5), np.array([1, 2]),
        np.array([[1], [2]]), np.array(["a", None], dtype=object), np.array(Mute(), dtype=object),
        np.ma.masked, Numpyish(), array.array("q", [1, 2]), array.array("d", [0.5]),
    ]  # fmt: skip
    containers = [
        [], [1, None], [None], ["a"], [[1]], [NOON], [2**40], [Mute()], (), (1,), (1, "x"),
        ("x", 1), (1, 2, 3), RaisingTuple((1, "x")), ShortTuple((1, "x")), RaisingList([1, 2]),
        {}, {"a": 1}, {"a": 1, "b": "x"}, {"a": "x", "b": 1}, {"c": 1}, {1: [0.5]}, {None: 1},
        {1: 1, 1.5: 2}, {Mute(): 1}, {"a": Mute(), "b": Mute()}, RaisingDict(a=1, b="x"),
        Row(1, "x"), Row(a=1, b="x"), Row(b="x"), Row(a=Row(a=1)), Pair(1, "x"), Data(1, "x"),
        Data(Mute(), Mute()), unset(), Data, endless(), endless_dict(), deep(), {1, 2},
        frozenset(), range(3), iter([1]), (one for one in [1]), pd.Series([1]), pd.DataFrame(),
    ]  # fmt: skip
    others = [
        object(), Mute(), liar(), ..., NotImplemented, int, len, odd_values, ValueError("x"),
        Color.RED, uuid.UUID(int=1), pathlib.Path("x"), decimal.Context(), t.LongType(),
        t.VariantVal(b"\xff\xff", b"\xff"), t.VariantVal(b"", b""), t.VariantVal("x", None),
    ]  # fmt: skip
    return [*scalars, *times, *numbers, *containers, *others]
