"""Which values become which: one table of cases for every form in which a function gives them out.

A case is a Spark type, a value as the function has it, and what the column then holds, or REFUSED.
Timestamps are expected with their zone; ``ZONE`` is that of the worker.
"""

from __future__ import annotations

import array
import datetime as dt
import enum
import re
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from pyspark.sql import Row

ZONE = "Asia/Kolkata"
UTC = dt.timezone.utc


class _Refused:
    def __repr__(self) -> str:
        return "REFUSED"


REFUSED = _Refused()


class Case(NamedTuple):
    type: str
    value: Any
    becomes: Any

    def __str__(self) -> str:
        # The address of an object differs from process to process.
        return re.sub(" at 0x[0-9a-f]+", "", f"{self.value!r} as {self.type}")


class Word(str, enum.Enum):
    """Its ``str()`` is not its text."""

    YES = "yes"


NOON = dt.datetime(2024, 6, 1, 12, 30, 15, 123456)
LOCAL = NOON.replace(tzinfo=ZoneInfo(ZONE)).astimezone(UTC)
AWARE = NOON.replace(tzinfo=UTC)
LARGEST_FLOAT = 3.4028234663852886e38
SINGLE = 0.10000000149011612  # what is nearest to 0.1 in four bytes

CASES = [
    Case("tinyint", -128, -128),
    Case("tinyint", 128, REFUSED),
    Case("smallint", 32767, 32767),
    Case("smallint", 32768, REFUSED),
    Case("int", -(2**31), -(2**31)),
    Case("int", 2**31, REFUSED),
    Case("bigint", 2**63 - 1, 2**63 - 1),
    Case("bigint", 2**63, REFUSED),
    Case("bigint", np.int32(5), 5),
    Case("bigint", np.uint64(2**63), REFUSED),
    Case("bigint", 1.0, REFUSED),
    Case("bigint", True, REFUSED),
    Case("bigint", "12", REFUSED),
    Case("bigint", Decimal(5), REFUSED),
    Case("bigint", NOON, REFUSED),
    Case("bigint", np.datetime64("2024-06-01T12:30:15.123456789"), REFUSED),
    Case("bigint", np.timedelta64(3, "M"), REFUSED),
    Case("bigint", np.timedelta64(3, "ns"), REFUSED),
    Case("float", 1.5, 1.5),
    Case("float", 0.1, SINGLE),
    Case("float", 3, 3.0),
    Case("float", 2**24 + 1, float(2**24)),
    Case("float", LARGEST_FLOAT, LARGEST_FLOAT),
    Case("float", 1e300, REFUSED),
    Case("float", -1e39, REFUSED),
    Case("float", np.float64(1e300), REFUSED),
    Case("float", 10**39, REFUSED),
    Case("float", float("inf"), float("inf")),
    Case("float", "1.5", REFUSED),
    Case("float", True, REFUSED),
    Case("double", 2**60 + 1, float(2**60 + 1)),
    Case("double", 10**400, REFUSED),
    Case("double", np.float32(1.5), 1.5),
    Case("double", float("-inf"), float("-inf")),
    Case("double", True, REFUSED),
    Case("double", "1.5", REFUSED),
    Case("double", Decimal("1.5"), REFUSED),
    Case("boolean", True, True),
    Case("boolean", np.bool_(False), False),
    Case("boolean", 1, REFUSED),
    Case("boolean", 2, REFUSED),
    Case("boolean", "true", REFUSED),
    Case("string", "żółw", "żółw"),
    Case("string", Word.YES, "yes"),
    Case("string", np.str_("ab"), "ab"),
    Case("string", 5, REFUSED),
    Case("string", True, REFUSED),
    Case("string", b"a", REFUSED),
    Case("string", NOON.date(), REFUSED),
    Case("string", "\ud800", REFUSED),
    Case("binary", b"ab", b"ab"),
    Case("binary", bytearray(b"ab"), b"ab"),
    Case("binary", memoryview(b"ab"), b"ab"),
    Case("binary", "a", REFUSED),
    Case("date", NOON.date(), NOON.date()),
    Case("date", np.datetime64("2024-06-01"), NOON.date()),
    Case("date", NOON, REFUSED),
    Case("date", 19875, REFUSED),
    Case("date", "2024-06-01", REFUSED),
    Case("timestamp", AWARE, AWARE),
    Case("timestamp", AWARE.astimezone(ZoneInfo("America/New_York")), AWARE),
    Case("timestamp", NOON, LOCAL),
    Case("timestamp", pd.Timestamp(AWARE), AWARE),
    Case("timestamp", pd.Timestamp("2024-06-01T12:30:15.123456789", tz="UTC"), AWARE),
    Case("timestamp", pd.NaT, REFUSED),
    Case("timestamp", NOON.date(), REFUSED),
    Case("timestamp", 1717245015, REFUSED),
    Case("timestamp", 1717245015.5, REFUSED),
    Case("timestamp", "2024-06-01", REFUSED),
    Case("timestamp_ntz", NOON, NOON),
    Case("timestamp_ntz", np.datetime64("2024-06-01T12:30:15.123456789"), NOON),
    Case("timestamp_ntz", pd.Timestamp(NOON), NOON),
    Case("timestamp_ntz", AWARE, REFUSED),
    Case("timestamp_ntz", 1717245015, REFUSED),
    Case("timestamp_ntz", NOON.date(), REFUSED),
    Case("interval day to second", dt.timedelta(days=-1), dt.timedelta(days=-1)),
    Case("interval day to second", np.timedelta64(1500, "ns"), dt.timedelta(microseconds=1)),
    Case("interval day to second", pd.Timedelta(days=1), dt.timedelta(days=1)),
    Case("interval day to second", dt.timedelta.max, REFUSED),
    Case("interval day to second", 5, REFUSED),
    Case("time", dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
    Case("time", dt.time(1, 2, tzinfo=UTC), REFUSED),
    Case("time", 5, REFUSED),
    Case("time", NOON, REFUSED),
    Case("decimal(5,2)", Decimal("1.5"), Decimal("1.50")),
    Case("decimal(5,2)", Decimal("1.005"), Decimal("1.01")),
    Case("decimal(5,2)", Decimal("1.015"), Decimal("1.02")),
    Case("decimal(5,2)", Decimal("-1.005"), Decimal("-1.01")),
    Case("decimal(5,2)", Decimal("1.0049999999"), Decimal("1.00")),
    Case("decimal(5,2)", Decimal("999.994"), Decimal("999.99")),
    Case("decimal(5,2)", Decimal("999.995"), REFUSED),
    Case("decimal(5,2)", Decimal("1234.5"), REFUSED),
    Case("decimal(5,2)", Decimal("NaN"), REFUSED),
    Case("decimal(5,2)", Decimal("Infinity"), REFUSED),
    Case("decimal(5,2)", 7, Decimal("7.00")),
    Case("decimal(5,2)", 1000, REFUSED),
    Case("decimal(5,2)", 1.5, REFUSED),
    Case("decimal(5,2)", True, REFUSED),
    Case("decimal(5,2)", "1.5", REFUSED),
    Case(
        "decimal(38,18)",
        Decimal("-12345678901234567890.5"),
        Decimal("-12345678901234567890.500000000000000000"),
    ),
    Case("decimal(38,0)", Decimal("99999999999999999999999999999999999999"), Decimal(10**38 - 1)),
    Case("decimal(38,38)", Decimal("0." + "9" * 38), Decimal("0." + "9" * 38)),
    Case("array<bigint>", [1, None], [1, None]),
    Case("array<bigint>", np.array([1, 2]), [1, 2]),
    Case("array<bigint>", array.array("q", [1, 2]), [1, 2]),
    Case("array<bigint>", ["1"], REFUSED),
    Case("array<bigint>", [1.0], REFUSED),
    Case("array<bigint>", "ab", REFUSED),
    Case("array<bigint>", {1: 2}, REFUSED),
    Case("array<timestamp>", [1], REFUSED),
    Case("array<float>", [1e300], REFUSED),
    Case("array<string>", [True], REFUSED),
    Case("array<decimal(5,2)>", [Decimal("1.005")], [Decimal("1.01")]),
    Case("map<string,bigint>", {"a": 1, "b": None}, [("a", 1), ("b", None)]),
    Case("map<string,bigint>", {"a": "1"}, REFUSED),
    Case("map<string,bigint>", [("a", 1)], REFUSED),
    Case("map<decimal(3,2),int>", {Decimal("1.001"): 1, Decimal("1.004"): 2}, REFUSED),
    Case("map<double,int>", {2**53: 1, 2**53 + 1: 2}, REFUSED),
    Case("map<string,int>", {UUID(int=7): 1, str(UUID(int=7)): 2}, REFUSED),
    Case("struct<a:bigint,b:string>", {"b": "x", "a": 1}, {"a": 1, "b": "x"}),
    Case("struct<a:bigint,b:string>", Row(b="x", a=1), {"a": 1, "b": "x"}),
    Case("struct<a:bigint,b:string>", (1, "x"), {"a": 1, "b": "x"}),
    Case("struct<a:string,b:string>", {"b": "y", "a": "x"}, {"a": "x", "b": "y"}),
    Case("struct<a:bigint,b:string>", {"a": True, "b": "x"}, REFUSED),
    Case("struct<a:bigint,b:string>", {"a": 1, "b": 2}, REFUSED),
    Case("struct<a:bigint,b:string>", "ab", REFUSED),
    Case("struct<a:string,b:string>", "ab", REFUSED),
    Case("struct<a:string,b:string>", ["x", "y"], REFUSED),
    Case("struct<a:bigint,b:string>", (1,), REFUSED),
    Case("struct<a:timestamp>", {"a": 1}, REFUSED),
    Case("struct<a:timestamp>", {"a": AWARE}, {"a": AWARE}),
    Case("array<struct<a:string>>", [{"a": "x"}, None], [{"a": "x"}, None]),
]
