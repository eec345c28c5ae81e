"""What headers of answers say of limits."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime, formatdate
from random import Random

import pytest

import pillarbox as pb
from pillarbox._metered.calls import OF_CALLS, PAUSE, Feedback
from pillarbox._metered.limit_headers import told_by
from pillarbox.testing import AsyncHarness

UNITS = ("usd", "tokens", "input_tokens")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            [Feedback(OF_CALLS, 59, 1), Feedback(1, 149984, 360)],
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"},
         [Feedback(1, 0, 0.12)]),
        ({"ratelimit-remaining": "3", "ratelimit-reset": "50"}, [Feedback(OF_CALLS, 3, 50)]),
        ({"ratelimit": "limit=100, remaining=5, reset=7"}, [Feedback(OF_CALLS, 5, 7)]),
        ({"ratelimit": '"default";r=5;t=7'}, [Feedback(OF_CALLS, 5, 7)]),
        ({"x-ratelimit-remaining": "5"}, [Feedback(OF_CALLS, 5, math.inf)]),
        ({"retry-after": "20"}, [Feedback(PAUSE, 0, 20)]),
        ({"retry-after": "20", "retry-after-ms": "1500"}, [Feedback(PAUSE, 0, 1.5)]),
        ({"x-ratelimit-remaining-audio": "5", "x-ratelimit-remaining-requests": "many"}, []),
        ({"retry-after": "soon", "x-request-id": "3"}, []),
    ],
)  # fmt: skip
def test_headers_say_what_is_left_and_until_when(headers, expected):
    assert told_by(headers, UNITS) == expected


def test_times_are_those_until_a_reset():
    at = datetime.now(timezone.utc) + timedelta(seconds=30)
    for reset in (at.isoformat().replace("+00:00", "Z"), format_datetime(at, usegmt=True),
                  str(time.time() + 30), str(int(1000 * (time.time() + 30))), "30"):  # fmt: skip
        headers = {
            "anthropic-ratelimit-input-tokens-remaining": "8",
            "anthropic-ratelimit-input-tokens-reset": reset,
            "anthropic-ratelimit-requests-remaining": "2",
        }
        of_tokens, of_calls = told_by(headers, UNITS)
        assert (of_tokens.unit, of_tokens.remaining) == (2, 8)
        assert 28 < of_tokens.reset_s <= 30
        assert of_calls == Feedback(OF_CALLS, 2, math.inf)


def test_limit_from_is_for_the_current_call_and_takes_headers():
    with pytest.raises(pb.NoCurrentCall, match="limit_from"):
        pb.limit_from({})
    for odd in (5, None, "text", [1]):
        with pb.testing.call(), pytest.warns(UserWarning, match="must be headers by name"):
            pb.limit_from(odd)
    with pb.testing.call():
        pb.limit_from({"Retry-After": "3"})
        pb.limit_from([("Retry-After", "3")])


class _Broken(dict):
    def items(self):
        raise RuntimeError("closed")


@pytest.mark.filterwarnings("ignore:.*INVALID_LIMIT_HEADERS")
@pytest.mark.parametrize("odd", [_Broken(), {"ratelimit": 5}, [("a", "b", "c")]])
def test_headers_that_cannot_be_read_fail_no_call(odd):
    async def call(row):
        pb.limit_from(odd)
        pb.limit_from({"ratelimit": "r=" + "9" * 400, "ratelimit-reset": "9" * 400})
        return row.x

    options = {"schema": "x long", "returns": "y long", "limit": pb.Limit(per_second=9)}
    assert [row.y for row in AsyncHarness(call, **options).run([(1,), (2,)])] == [1, 2]


@pytest.mark.filterwarnings("ignore:.*INVALID_LIMIT_HEADERS")
@pytest.mark.parametrize(
    ("reset", "second"),
    [
        (lambda now: str(now + 5), 5), (lambda now: str(int(1000 * (now + 5))), 5),
        (lambda now: formatdate(now + 5, usegmt=True), 5),
        (lambda _: "1d", 86_400), (lambda _: "86401", 60), (lambda _: "2d", 60),
        (lambda now: str(int(1e6 * now)), 60), (lambda _: "1e300", 60),
        (lambda _: "9" * 400 + "h", 60), (lambda _: "2999-01-01T00:00:00Z", 60),
        (lambda _: "Tue, 01 Jan 2999 00:00:00 GMT", 60),
    ],
)  # fmt: skip
def test_a_reset_in_more_than_a_day_counts_as_none(reset, second):
    begun = []
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset(time.time())}

    async def call(row):
        begun.append(asyncio.get_running_loop().time())
        pb.limit_from(headers)
        return row.x

    limit = pb.Limit(per_minute=60)
    options = {"schema": "x long", "returns": "y long", "limit": limit}
    AsyncHarness(call, **options).run([(1,), (2,)])
    assert begun == pytest.approx([0, second], abs=1.5)


def test_a_reset_in_more_than_a_day_is_told():
    with pb.testing.call(), pytest.warns(UserWarning, match="a reset within a day, but .* 90000 s"):
        pb.limit_from({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "90000"})


def test_retry_after_for_all_travels():
    import pickle

    problem = pickle.loads(pickle.dumps(pb.RetryAfter("2s", "wait", all=True)))
    assert (problem.delay_s, problem.message, problem.all) == (2, "wait", True)
    with pytest.raises(pb.InvalidOption, match="all must be True or False"):
        pb.RetryAfter(1, all="yes")


@pytest.mark.parametrize(
    ("limit", "begins"),
    [(None, [0, 0]), (pb.Limit(concurrency=1), [0, 0]), (pb.Limit(per_minute=60), [0, 60]),
     ([pb.Limit(concurrency=1), pb.Limit(per_second=9)], [0, 1])],
)  # fmt: skip
def test_a_task_waits_no_longer_than_its_rate_takes_though_nothing_is_left(limit, begins):
    begun = []

    async def call(row):
        begun.append(asyncio.get_running_loop().time())
        pb.limit_from({"ratelimit-remaining": "0"})
        return row.x

    AsyncHarness(call, schema="x long", returns="y long", limit=limit).run([(1,), (2,)])
    assert begun == begins


@pytest.mark.parametrize("seed", range(10))
def test_no_more_calls_begin_than_the_service_says_are_left(seed):
    random = Random(seed)
    begun, said = [], []

    async def call(row):
        loop = asyncio.get_running_loop()
        begun.append(loop.time())
        await asyncio.sleep(random.random())
        if random.random() < 0.2:
            left, reset_s = random.choice([0, 0, 3, 30]), random.choice([0.5, 2, 5])
            said.append((loop.time(), loop.time() + reset_s, left))
            pb.limit_from({"ratelimit-remaining": str(left), "ratelimit-reset": str(reset_s)})
        return row.x

    rows = [(x,) for x in range(300)]
    AsyncHarness(call, schema="x long", returns="y long", limit=pb.Limit(per_second=20)).run(rows)
    assert len(begun) == 300
    assert said
    for start, end, left in said:
        assert sum(start < at < end for at in begun) <= left


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [({"per_second": 0.5}, 2), ({"per_minute": 1.5}, 40), ({"per_day": 0.1}, 864_000)],
)
def test_a_rate_may_be_a_fraction(limit, seconds):
    begun = []

    async def call(row):
        begun.append(asyncio.get_running_loop().time())
        return row.x

    options = {"schema": "x long", "returns": "y long", "limit": pb.Limit(**limit)}
    AsyncHarness(call, **options).run([(1,), (2,), (3,)])
    assert begun == pytest.approx([0, seconds, 2 * seconds])


def test_retry_after_in_headers_is_for_limits_alone():
    begun = []

    async def call(row):
        begun.append(asyncio.get_running_loop().time())
        pb.limit_from({"retry-after": "3600"})
        return row.x

    for limit in (None, pb.Limit(concurrency=1)):
        AsyncHarness(call, schema="x long", returns="y long", limit=limit).run([(1,), (2,)])
    assert begun == [0, 0, 0, 3600]
