"""The retry policy and the exception that asks for a delay."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pillarbox as pb


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
            {"max_attempts": 3, "backoff": "1m", "max_backoff": "30s"},
            "retry.max_backoff",
        ),
        ({"max_attempts": 3, "retry_on": "ValueError"}, "retry.retry_on"),
        ({"max_attempts": 3, "retry_on": int}, "retry.retry_on"),
        ({"max_attempts": 3, "retry_on": ()}, "retry.retry_on"),
        ({"max_attempts": 3, "retry_on": ("java.io.IOException", ValueError)}, "retry.retry_on"),
        ({"max_attempts": 3, "retry_on": "java.io."}, "retry.retry_on"),
        ({"max_attempts": 3, "retry_if_result": 5}, "retry.retry_if_result"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_naming_the_option(options, named):
    with pytest.raises(pb.InvalidOption, match=named.replace(".", r"\.")):
        pb.Retry(**options)


def test_the_operator_gets_the_policy_in_ms():
    retry = pb.Retry(3, backoff="100ms", multiplier=3, max_backoff="1 minute", jitter=0)
    assert retry.to_spec() == {
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
    assert pb.Retry(3, retry_on=retry_on).to_spec()["retry_on"] == classes


def test_the_largest_number_of_attempts_is_told():
    with pytest.raises(pb.InvalidOption, match="a whole number from 1 to 1000000000, but it is 0"):
        pb.Retry(0)
    assert pb.Retry(10**9).to_spec()["max_attempts"] == 10**9


def test_the_backoff_grows_by_the_multiplier_up_to_its_cap():
    retry = pb.Retry(9, backoff="100ms", multiplier=2, max_backoff="1s", jitter=0)
    assert [retry.backoff_s(n) for n in (1, 2, 3, 4, 5, 5000)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.0,
        1.0,
    ]


@given(st.integers(1, 40), st.floats(0, 1), st.floats(1, 10))
def test_jitter_moves_the_backoff_by_at_most_its_share(n, jitter, multiplier):
    retry = pb.Retry(50, backoff="10ms", multiplier=multiplier, max_backoff="5s", jitter=jitter)
    steady = pb.Retry(50, backoff="10ms", multiplier=multiplier, max_backoff="5s", jitter=0)
    expected = steady.backoff_s(n)
    assert expected * (1 - jitter) * 0.999 <= retry.backoff_s(n) <= expected * (1 + jitter) * 1.001


@pytest.mark.parametrize("seconds", [-1, "5", None, True, float("nan")])
def test_retry_after_refuses_what_is_no_delay(seconds):
    with pytest.raises(pb.InvalidOption, match="seconds must be a number"):
        pb.RetryAfter(seconds)


def test_retry_after_keeps_its_delay_and_message_over_pickling():
    copy = pickle.loads(pickle.dumps(pb.RetryAfter(2.5, "busy")))
    assert (copy.seconds, copy.message, str(copy)) == (2.5, "busy", "busy")
    assert "2.5 s" in str(pb.RetryAfter(2.5))
