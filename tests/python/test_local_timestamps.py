"""Timestamps come as naive local datetimes, whatever the zone and however many at once."""

import datetime as dt
import time

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pillarbox._arrow.readers import local_timestamps

ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Africa/Monrovia", "Asia/Kathmandu"]
MINUTE = 60_000_000
SUMMER_ENDS = 1_729_990_800 * 1_000_000  # 2024-10-27 01:00 UTC, when Berlin's 02:00 comes again
ST_JOHNS_MINUTE_PAST = 1_143_948_660 * 1_000_000  # 2006-04-02 03:31 UTC: 00:01 in Newfoundland


@pytest.fixture(params=ZONES)
def zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def expected(value):
    if value is None:
        return None
    seconds, micros = divmod(value, 1_000_000)
    return dt.datetime.fromtimestamp(seconds).replace(microsecond=micros)


def check(values):
    """As they are and as a long column, which is read in another way."""
    wanted = [expected(value) for value in values]
    compare(values, wanted)
    compare(values * 50, wanted * 50)


def compare(values, wanted):
    found = local_timestamps(pa.array(values, pa.timestamp("us", "UTC")))
    assert found == wanted
    assert [one and one.fold for one in found] == [one and one.fold for one in wanted]


def test_any_times_and_nulls(zone):
    years = st.integers(-(10**16), 10**16)
    lately = st.integers(94_694_400_000_000, 4_102_444_799_999_999)

    @given(st.one_of(st.lists(st.none() | lately), st.lists(st.none() | years)))
    @example([])
    @example([None])
    def holds(values):
        check(values)

    holds()


@pytest.mark.parametrize("moment", [SUMMER_ENDS, ST_JOHNS_MINUTE_PAST])
def test_around_a_change_of_the_clocks(zone, moment):
    steps = [0, 1, -1, 59_999_999, *(MINUTE * k for k in (-121, -61, -60, -59, -1, 1, 30, 60, 61))]
    for step in steps:
        check([moment + step])
    check([moment + step for step in steps] + [None])
