"""Column helpers against loops over rows."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox import columns

KEYS = 5
INDEX = st.lists(st.integers(0, KEYS - 1), max_size=200)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)


def running(values, index, start, add):
    now, out = list(start), []
    for value, key in zip(values, index, strict=True):
        now[key] = add(now[key], value)
        out.append(now[key])
    return out, now


@given(INDEX, st.lists(st.none() | st.integers(0, 9), min_size=KEYS, max_size=KEYS))
def test_running_count(index, start):
    expected, _ = running(index, index, [n or 0 for n in start], lambda n, _: n + 1)
    index = np.array(index, np.int32)
    found = columns.running_count(index, pa.array(start, pa.int64()))
    assert found.to_pylist() == expected
    assert found.type == pa.int64()


@given(st.lists(st.sampled_from([0, 1, 65535, 65536, 65537, 131072, 2**31 - 1]), max_size=60))
def test_running_count_of_any_number_of_keys(index):
    seen = {}
    expected = [seen.setdefault(key, []).append(0) or len(seen[key]) for key in index]
    assert columns.running_count(np.array(index, np.int32)).to_pylist() == expected
    assert columns.running_count(np.array(index, np.int64)).to_pylist() == expected


@given(st.data(), INDEX)
def test_running_sum_of_doubles_is_that_of_adding_in_order(data, index):
    values = data.draw(st.lists(st.none() | FLOATS, min_size=len(index), max_size=len(index)))
    start = data.draw(st.lists(FLOATS, min_size=KEYS, max_size=KEYS))
    expected, last = running(values, index, start, lambda total, v: total + (v or 0.0))
    position = np.array(index, np.int32)
    column = pa.array(values, pa.float64())
    assert columns.running_sum(column, position, start).to_pylist() == expected
    assert columns.group_sum(column, position, pa.array(start)).to_pylist() == last


def test_a_large_key_is_summed_in_order_too():
    values = [0.1 * n for n in range(1000)]
    index = np.zeros(1000, np.int32)
    expected, _ = running(values, index, [0.3], lambda a, b: a + b)
    assert columns.running_sum(values, index, [0.3]).to_pylist() == expected


@given(st.data(), INDEX)
def test_running_sum_of_integers(data, index):
    number = st.integers(-(2**50), 2**50)
    values = data.draw(st.lists(number, min_size=len(index), max_size=len(index)))
    expected, _ = running(values, index, [0] * KEYS, lambda a, b: a + b)
    column = pa.array(values, pa.int64())
    assert columns.running_sum(column, np.array(index, np.int32)).to_pylist() == expected


def test_a_sum_that_does_not_fit_is_refused_and_one_that_nearly_does_is_exact():
    index = np.zeros(2, np.int32)
    nearly = pa.array([2**62, 2**62 - 1])
    assert columns.running_sum(nearly, index).to_pylist() == [2**62, 2**63 - 1]
    with pytest.raises((pa.ArrowInvalid, OverflowError)):
        columns.running_sum(pa.array([2**62, 2**62]), index)


@given(st.data(), st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=60))
def test_first_and_last_by_key(data, index):
    values = data.draw(st.lists(st.text(max_size=3), min_size=len(index), max_size=len(index)))
    position = np.array(index, np.int32)
    start = [f"start {key}" for key in range(KEYS)]
    last = dict(zip(index, values, strict=True))
    first = dict(zip(index[::-1], values[::-1], strict=True))
    for function, expected in (
        (columns.group_last, last),
        (columns.group_first, first),
    ):
        found = function(values, position, pa.array(start)).to_pylist()
        assert found == [expected.get(key, start[key]) for key in range(KEYS)]
        bare = function(values, position).to_pylist()
        assert bare == [expected.get(key) for key in range(max(index) + 1)]


@given(INDEX)
def test_group_count(index):
    found = columns.group_count(np.array(index, np.int32), KEYS).to_pylist()
    assert found == [index.count(key) for key in range(KEYS)]


@given(INDEX, INDEX)
def test_what_is_remembered_of_an_index_is_of_that_index(first, second):
    for index in (first, second, first):
        frozen = np.array(index, np.int32)
        frozen.flags.writeable = False
        for _ in range(2):
            assert columns.running_count(frozen).to_pylist() == counts(index)


def test_an_index_that_can_be_written_to_is_looked_at_each_time():
    index = np.zeros(3, np.int32)
    assert columns.running_count(index).to_pylist() == [1, 2, 3]
    index[1] = 4
    assert columns.running_count(index).to_pylist() == [1, 1, 2]


def test_nothing_is_remembered_of_an_index_that_is_gone():
    index = np.zeros(3, np.int32)
    index.flags.writeable = False
    columns.running_count(index)
    assert columns._last is not None
    del index
    assert columns._last is None


def counts(index):
    return running([1] * len(index), index, [0] * KEYS, lambda n, one: n + one)[0]
