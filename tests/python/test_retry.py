"""The retry policy and the exception that asks for a delay."""

import asyncio
import functools
import itertools
import json
import pickle
import types
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

import pytest

import pillarbox as pb
from pillarbox.retry import retry_after_s


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_attempts": 0}, "retry.max_attempts"),
        ({"max_attempts": -1}, "retry.max_attempts"),
        ({"max_attempts": 2.5}, "retry.max_attempts"),
        ({"max_attempts": True}, "retry.max_attempts"),
        ({"max_attempts": 10**9 + 1}, "retry.max_attempts"),
        ({"max_attempts": 2**31}, "retry.max_attempts"),
        ({"max_attempts": 2**32 + 1}, "retry.max_attempts"),
        ({"max_attempts": 3, "multiplier": float("inf")}, "retry.multiplier"),
        ({"max_attempts": 3, "multiplier": float("nan")}, "retry.multiplier"),
        ({"max_attempts": 3, "multiplier": 10**400}, "retry.multiplier"),
        ({"max_attempts": 3, "jitter": float("nan")}, "retry.jitter"),
        ({"max_attempts": 3, "backoff": "0ms"}, "retry.backoff"),
        ({"max_attempts": 3, "multiplier": 0.5}, "retry.multiplier"),
        ({"max_attempts": 3, "jitter": 1.5}, "retry.jitter"),
        ({"max_attempts": 3, "jitter": -0.1}, "retry.jitter"),
        (
            {"max_attempts": 3, "backoff": "1m"},
            "it is '30s'. Pass retry.max_backoff='1m'.",
        ),
        ({"max_attempts": 3, "on": "ValueError"}, "retry.on"),
        ({"max_attempts": 3, "on": int}, "retry.on"),
        ({"max_attempts": 3, "on": ()}, "retry.on"),
        ({"max_attempts": 3, "on": ("java.io.IOException", ValueError)}, "retry.on"),
        ({"max_attempts": 3, "on": "java.io."}, "retry.on"),
        ({"max_attempts": 3, "if_result": 5}, "retry.if_result"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_naming_the_option(options, named):
    with pytest.raises(pb.InvalidOption, match=named.replace(".", r"\.")):
        pb.Retry(**options)


def test_the_operator_gets_the_policy_in_ms():
    retry = pb.Retry(3, backoff="100ms", multiplier=3, max_backoff="1 minute", jitter=0)
    assert retry._to_spec() == {
        "max_attempts": 3,
        "backoff_ms": 100,
        "multiplier": 3.0,
        "max_backoff_ms": 60_000,
        "jitter": 0.0,
        "retry_on": [],
        "refuses_results": False,
    }


@pytest.mark.parametrize(
    ("retry_on", "classes"),
    [
        ("java.io.IOException", ["java.io.IOException"]),
        (("a.B", "a.C$D"), ["a.B", "a.C$D"]),
        (ValueError, []),
        ((ValueError, KeyError), []),
        (lambda problem: True, []),
    ],
)
def test_the_operator_gets_the_classes_of_the_jvm_that_are_retried(retry_on, classes):
    assert pb.Retry(3, on=retry_on)._to_spec()["retry_on"] == classes


def test_the_largest_number_of_attempts_is_told():
    with pytest.raises(pb.InvalidOption, match="a whole number from 1 to 1000000000, but it is 0"):
        pb.Retry(0)
    assert pb.Retry(10**9)._to_spec()["max_attempts"] == 10**9


def test_the_backoff_grows_by_the_multiplier_up_to_its_cap():
    retry = pb.Retry(9, backoff="100ms", multiplier=2, max_backoff="1s", jitter=0)
    assert [retry._backoff_s(n, 0.9) for n in (1, 2, 3, 4, 5, 5000)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.0,
        1.0,
    ]


async def says_later(value):
    return False


def says_by_and_by(value):
    yield False


class SaysLater:
    async def __call__(self, value):
        return False


@pytest.mark.parametrize("option", ["on", "if_result"])
@pytest.mark.parametrize(
    ("predicate", "told"),
    [
        (says_later, "a plain function"),
        (functools.partial(says_later), "a plain function"),
        (SaysLater(), "a plain function"),
        (says_by_and_by, "a plain function"),
        (lambda: True, r"one argument, and .*<lambda> has \(\)"),
        (lambda value, more: True, r"one argument, and .*<lambda> has \(value, more\)"),
    ],
)
def test_what_would_always_be_true_or_never_answer_is_no_predicate(option, predicate, told):
    with pytest.raises(pb.InvalidOption, match=rf"retry\.{option} must be .*{told}"):
        pb.Retry(3, **{option: predicate})


@pytest.mark.parametrize("predicate", [bool, functools.partial(lambda a, b: a, 1), {1: 2}.get])
def test_a_predicate_may_be_whatever_takes_one_value(predicate):
    assert pb.Retry(3, if_result=predicate).if_result is predicate


def test_jitter_moves_the_backoff_by_at_most_its_share_up_or_down():
    retry = pb.Retry(5, backoff="100ms", multiplier=2, max_backoff="1s", jitter=0.5)
    draws = (0.0, 0.25, 0.5, 0.75)
    assert [round(retry._backoff_s(1, draw), 6) for draw in draws] == [0.05, 0.075, 0.1, 0.125]
    assert round(retry._backoff_s(9, 0.75), 6) == 1.25


DATE = "Wed, 21 Oct 2065 07:28:00 GMT"


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        (2.5, 2.5),
        (0, 0),
        ("7", 7),
        (" 120 ", 120),
        ("1.5", 1.5),
        (" 0.25 ", 0.25),
        ("2 seconds", 2),
        ("100ms", 0.1),
        (timedelta(minutes=1), 60),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        # What a service says cannot be checked by whoever passes it on.
        *((odd, 1) for odd in (None, "soon", "", "-1.5", "1.", ".5", "1,5", "120, 120", "1e3")),
        *((odd, 1) for odd in ("9" * 400, "inf", "nan")),
    ],
)
def test_retry_after_takes_seconds_durations_and_the_text_of_the_header(delay, seconds):
    assert pb.RetryAfter(delay).delay_s == seconds


def test_retry_after_takes_the_date_of_the_header():
    left = parsedate_to_datetime(DATE) - datetime.now(timezone.utc)
    assert pb.RetryAfter(DATE).delay_s == pytest.approx(left.total_seconds(), abs=60)


@pytest.mark.parametrize(
    "delay",
    [-1, True, float("nan"), float("inf"), 10**400, timedelta(-1), b"2"],
)
def test_retry_after_refuses_what_is_no_delay(delay):
    with pytest.raises(pb.InvalidOption, match="delay must be seconds"):
        pb.RetryAfter(delay)


def test_retry_after_keeps_its_delay_and_message_over_pickling():
    copy = pickle.loads(pickle.dumps(pb.RetryAfter(2.5, "busy")))
    assert (copy.delay_s, copy.message, str(copy)) == (2.5, "busy", "busy")
    assert "2.5 s" in str(pb.RetryAfter(2.5))


class WithStatus(Exception):
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("problem", "is_worth_it"),
    [
        (ConnectionError(), True),
        (TimeoutError(), True),
        (OSError(), True),
        (RuntimeError(), True),
        (json.JSONDecodeError("cut", "", 0), True),
        (pb.RetryAfter(1), True),
        (TypeError(), False),
        (KeyError("k"), False),
        (IndexError(), False),
        (AttributeError(), False),
        (NameError(), False),
        (ZeroDivisionError(), False),
        (AssertionError(), False),
        (KeyboardInterrupt(), False),
        *((WithStatus(status=status), True) for status in (408, 425, 429, 500, 503, 599)),
        *((WithStatus(status=status), False) for status in (400, 401, 404, 422)),
        (WithStatus(status_code=503), True),
        (WithStatus(response=types.SimpleNamespace(status_code=404)), False),
        (WithStatus(response=types.SimpleNamespace(status_code=502)), True),
        (WithStatus(status="429"), True),  # no status: its class decides
        (WithStatus(status=5), True),
    ],
)
def test_what_is_worth_another_attempt_by_default(problem, is_worth_it):
    assert pb.transient(problem) is is_worth_it


@pytest.mark.parametrize(
    ("problem", "seconds"),
    [
        (WithStatus(headers={"Retry-After": "7"}), 7),
        (WithStatus(headers={"retry-after": " 7 "}), 7),
        (WithStatus(response=types.SimpleNamespace(headers={"Retry-After": "7"})), 7),
        (urllib.error.HTTPError("http://s", 429, "", {"Retry-After": "0"}, None), 0),
        (WithStatus(headers={"Retry-After": "1.5"}), 1.5),
        (WithStatus(headers={"Retry-After": "soon"}), None),
        (WithStatus(headers=None, response=None), None),
        (WithStatus(headers=7), None),
        (ValueError(), None),
    ],
)
def test_the_header_of_an_exceptions_response(problem, seconds):
    assert retry_after_s(problem) == seconds


@pytest.mark.parametrize("client", ["urllib", "aiohttp"])
def test_clients_name_the_header_so(served_busy, client):
    asks = {"urllib": _by_urllib, "aiohttp": _by_aiohttp}
    problem = _problem_of(asks[client], served_busy)
    assert (retry_after_s(problem), pb.transient(problem)) == (7, True)


@pytest.fixture
def served_busy():
    busy = itertools.repeat(pb.RetryAfter(7))
    with pb.testing.FakeService(script=busy).serve() as url:
        yield url


def _problem_of(ask, url):
    try:
        return ask(url)
    except Exception as problem:
        return problem


def _by_urllib(url):
    try:
        urllib.request.urlopen(url)
    except urllib.error.HTTPError as problem:
        problem.close()  # it holds the socket
        raise


def _by_aiohttp(url):
    aiohttp = pytest.importorskip("aiohttp")

    async def ask():
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            answer.raise_for_status()

    asyncio.run(ask())


def test_a_property_that_raises_is_no_status():
    class Odd(Exception):
        @property
        def status(self):
            raise ValueError

    assert pb.transient(Odd())
