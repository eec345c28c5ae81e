"""Durations and rates as users write them."""

from datetime import timedelta

import pytest

import pillarbox as pb
from pillarbox._base.durations import milliseconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 seconds", 5000),
        ("100ms", 100),
        ("5s", 5000),
        ("1.5 s", 1500),
        ("2 days", 172_800_000),
        ("1 hour 30 minutes", 5_400_000),
        ("INTERVAL 2 Weeks", 1_209_600_000),
        ("1500us", 2),
        (timedelta(seconds=2, microseconds=1), 2001),
        ("100000 days", 8_640_000_000_000),
    ],
)
def test_a_duration_is_read_in_ms_rounded_up(text, expected):
    assert milliseconds(text, "timeout") == expected


@pytest.mark.parametrize(
    "value",
    ["", "0s", "-1s", "5", "five seconds", "5 parsecs", 5, 5.0, True, None, timedelta(0), "s",
     timedelta(seconds=-1), "100001 days", timedelta(days=100_001), "999us", "9" * 5000 + " s"],
)  # fmt: skip
def test_what_is_no_positive_duration_is_refused_with_the_option_and_the_value(value):
    with pytest.raises(
        pb.InvalidOption, match=r"timeout\.attempt must be a positive duration"
    ) as no:
        milliseconds(value, "timeout.attempt")
    assert repr(value)[:40] in str(no.value)
    assert no.value.condition == "INVALID_DURATION"
