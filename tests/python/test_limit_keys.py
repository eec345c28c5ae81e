"""Limits that each value of a column has by itself: what is refused, and calls in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

import pillarbox as pb
from pillarbox._metered.limit_keys import KeyReader, LimitKeys
from pillarbox.testing import AsyncHarness

TENANTS: dict[str, Any] = {"schema": "id bigint, tenant string, region string", "returns": "x long"}


def starts_of(rows: list[tuple[Any, ...]], seconds: float = 0.0, **options: Any) -> dict[Any, Any]:
    """Run a call of so many seconds for each row, and return when each has begun."""
    begun: dict[Any, Any] = {}

    async def call(row):
        begun[row.id] = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        return row.id

    out = AsyncHarness(call, **TENANTS, **options).run(rows)
    assert sorted(row.x for row in out) == sorted(row[0] for row in rows)
    return begun


def test_each_value_of_a_key_has_its_limit_and_null_is_one():
    rows = [(n, "abc"[n % 3] if n % 4 else None, "x") for n in range(24)]
    begun = starts_of(rows, limit=pb.Limit(per_second=2, key="tenant"))
    for tenant in ("a", "b", "c", None):
        times = [begun[row[0]] for row in rows if row[1] == tenant]
        assert times == pytest.approx([n / 2 for n in range(6)])


def test_rows_at_their_limit_leave_room_for_others():
    rows = [(n, "a", "x") for n in range(300)] + [(300 + n, "b", "x") for n in range(10)]
    limit = pb.Limit(concurrency=1, key="tenant")
    begun = starts_of(rows, 1.0, limit=limit, capacity=2, ordered=False)
    assert [begun[300 + n] for n in range(10)] == list(range(10))
    assert [begun[n] for n in range(300)] == list(range(300))


def test_calls_under_way_keep_to_the_capacity_as_values_take_turns():
    rows = [(n, "abcdefgh"[n % 8], "x") for n in range(80)]
    limits = [pb.Limit(concurrency=2, key="tenant"), pb.Limit(concurrency=5)]
    begun = starts_of(rows, 1.0, limit=limits, capacity=4, ordered=False)
    for second in range(20):
        assert sum(at == second for at in begun.values()) == 4
        first = [row[1] for row in rows if begun[row[0]] < 4]
        assert len(set(first)) == 8, "none starves"


def test_limits_of_several_keys_hold_together():
    rows = [(n, "ab"[n % 2], "xyz"[n % 3]) for n in range(60)]
    limits = [
        pb.Limit(concurrency=1, key="tenant"),
        pb.Limit(per_second=1, key="region"),
        pb.Limit(per_second=20, scope="task"),
    ]
    begun = starts_of(rows, 0.25, limit=limits, ordered=False)
    for place, gap in ((1, 0.25), (2, 1.0)):
        for value in {row[place] for row in rows}:
            times = sorted(begun[row[0]] for row in rows if row[place] == value)
            assert min(b - a for a, b in itertools.pairwise(times)) >= gap - 1e-6


def test_a_pause_is_of_the_rows_own_value():
    told = []
    begun = []

    async def call(row):
        now = asyncio.get_running_loop().time()
        if row.id == 0 and not told:
            told.append(now)
            raise pb.RetryAfter(5, all=True)
        begun.append((row.tenant, now))
        return row.id

    limit = pb.Limit(per_second=2, key="tenant")
    rows = [(n, "ab"[n % 2], "x") for n in range(8)]
    AsyncHarness(call, **TENANTS, limit=limit, ordered=False).run(rows)
    assert min(at for tenant, at in begun if tenant == "a") == 5
    assert max(at for tenant, at in begun if tenant == "b") == 1.5


@pytest.mark.parametrize(
    "own",
    [pb.Limit(concurrency=2, key="tenant"), pb.Limit(per_minute=1000, unit="tokens", key="tenant")],
)
def test_a_word_on_calls_is_of_the_common_rate_where_no_limit_of_the_value_hears_it(own):
    begun = []

    async def call(row):
        begun.append(asyncio.get_running_loop().time())
        if row.n == 2:
            pb.limit_from({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "5"})
        return row.n

    rows = [(str(n % 2), n) for n in range(6)]
    options = {"schema": "tenant string, n long", "returns": "m long", "usage": "tokens"}
    AsyncHarness(call, **options, limit=[own, pb.Limit(per_second=20)]).run(rows)
    assert begun == pytest.approx([0, 0.05, 0.1, 5.1, 5.15, 5.2])


def test_values_of_a_key_are_equal_as_in_spark():
    begun = []

    async def call(row):
        begun.append(asyncio.get_running_loop().time())
        return 1

    schema = "id bigint, k struct<a: double, b: array<binary>>"
    nan = float("nan")
    rows = [(0, (nan, [b"x"])), (1, (nan, [b"x"])), (2, (0.0, None)), (3, (-0.0, None))]
    limit = pb.Limit(per_second=1, key="k")
    AsyncHarness(call, schema=schema, returns="x long", inputs="id", limit=limit).run(rows)
    assert begun == [0, 0, 1, 1]


def test_a_key_that_cannot_be_one_is_refused():
    async def call(row):
        return 1

    for key, schema, problem in (
        ("tenants", "tenant string", r"UNKNOWN_COLUMN.*limit\.key.*tenants.*tenant"),
        (
            "st.a",
            "st struct<a: int>",
            r"UNKNOWN_COLUMN.*st\.a.*a field of a struct is none: make it",
        ),
        ("`st.a`", "`st.a` int", r"UNKNOWN_COLUMN.*as they are, without backticks"),
        ("m", "m map<string, int>", r"NOT_COMPARABLE.*limit\.key.*m"),
    ):
        with pytest.raises(pb.PillarboxError, match=problem):
            AsyncHarness(
                call, schema=schema, returns="x long", limit=pb.Limit(per_second=1, key=key)
            )
    with pytest.raises(pb.InvalidOption, match=r"limit.key='tenant'.*with batch_size"):
        AsyncHarness(call, **TENANTS, batch_size=2, limit=pb.Limit(per_second=1, key="tenant"))


def test_values_that_cannot_be_read_are_one_and_fail_nothing():
    at = t.TimestampType()
    reader = KeyReader(LimitKeys((1, 0), t.StructType().add("at", at).add("n", "long")))
    stamps = pa.array([0, 2**60, 2**61], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), stamps], ["0", "1"])
    first, second, third = reader.read(batch)
    assert first[1] == 1
    assert second == third != first
