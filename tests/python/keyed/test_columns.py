"""Column helpers against loops over rows."""

import datetime as dt
from decimal import Decimal

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
    for values, start in (
        (pa.array([2**62, 2**62]), None),
        (pa.array([-(2**62), -(2**62) - 1]), None),
        (pa.array([1, -1]), pa.array([2**63 - 1])),
        (pa.array([2**63, 0], pa.uint64()), None),
        (np.array([0, 2**63], np.uint64), None),
        (pa.array([0, 0]), pa.array([2**63], pa.uint64())),
    ):
        for add in (columns.running_sum, columns.group_sum):
            with pytest.raises(pa.ArrowInvalid):
                add(values, index, start)
    with pytest.raises(pa.ArrowInvalid):
        columns.running_count(index, pa.array([2**63 - 2]))
    assert columns.running_count(index, pa.array([2**63 - 3])).to_pylist() == [2**63 - 2, 2**63 - 1]


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


TYPED = [
    pa.array([1, 2, 3], pa.int8()),
    pa.array([1.5, 2.5, 3.5]),
    pa.array([True, False, True]),
    pa.array(["a", "b", "c"]),
    pa.array([b"a", b"b", b"c"]),
    pa.array([Decimal("1.50"), Decimal("2.50"), Decimal("3.50")]),
    pa.array([dt.date(2024, 1, day) for day in (1, 2, 3)]),
    pa.array([dt.datetime(2024, 1, day) for day in (1, 2, 3)], pa.timestamp("us", "UTC")),
    pa.array([dt.timedelta(day) for day in (1, 2, 3)]),
    pa.array([[1], [2], None]),
    pa.array([{"a": 1}, {"a": 2}, None]),
    pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize("start", TYPED, ids=lambda column: str(column.type))
@pytest.mark.parametrize("pick", [columns.group_first, columns.group_last])
def test_nulls_are_values_of_any_type(pick, start):
    index = np.array([1, 1], np.int32)
    for nulls in (pa.nulls(2), [None, None], pa.nulls(2, start.type)):
        found = pick(nulls, index, start)
        assert found.type == start.type
        assert found.to_pylist() == [start[0].as_py(), None, start[2].as_py()]
    found = pick(start.take(pa.array([0, 1])), index, pa.nulls(3))
    assert found.type == start.type
    assert found.to_pylist()[::2] == [None, None]
    assert pick(pa.nulls(2), index).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("values", "start", "wanted"),
    [
        (pa.array([1], pa.int32()), pa.array([5, 2**40]), pa.int64()),
        (pa.array([1]), pa.array([5.5, 6.5]), pa.float64()),
        (pa.array([1.5]), pa.array([5, 6]), pa.float64()),
        (pa.array([Decimal("1.5")]), pa.array([Decimal("5.25")] * 2), pa.decimal128(3, 2)),
        (pa.array(["a"]).dictionary_encode(), pa.array(["b", "c"]), pa.string()),
    ],
)
def test_values_and_start_become_the_type_that_holds_both(values, start, wanted):
    index = np.array([0], np.int32)
    for pick in (columns.group_first, columns.group_last):
        found = pick(values, index, start)
        assert found.type == wanted
        assert found.to_pylist() == [values[0].as_py(), start[1].as_py()]
        assert pick(values, index, start.slice(0, 1)).type == wanted


@pytest.mark.parametrize(
    ("values", "start"),
    [
        (pa.array([1]), pa.array(["5", "6"])),
        (pa.array(["a"]), pa.array([5, 6])),
        (pa.array([True]), pa.array([5, 6])),
        (pa.array([dt.datetime(2024, 1, 1)]), pa.nulls(2, pa.timestamp("us", "UTC"))),
    ],
)
def test_values_and_start_of_different_kinds_are_refused(values, start):
    with pytest.raises(pa.ArrowInvalid, match=r"values are .*, start is"):
        columns.group_last(values, np.array([0], np.int32), start)


def test_nothing_makes_nothing():
    for index in ([], np.array([], np.int32), np.array([])):
        assert columns.running_count(index).to_pylist() == []
        assert columns.group_count(index).to_pylist() == []
        assert columns.group_count(index, 2).to_pylist() == [0, 0]
        for function in (columns.running_sum, columns.group_sum, columns.group_first):
            assert function([], index).to_pylist() == []
        for function in (columns.group_sum, columns.group_first, columns.group_last):
            assert function([], index, [1, None]).to_pylist() == [1, None]


@pytest.mark.parametrize(
    "values",
    [["1", "2"], [dt.date(2024, 1, 1)] * 2, [dt.timedelta(1)] * 2, [[1], [2]], [b"1", b"2"]],
)
def test_only_numbers_are_added(values):
    for add in (columns.running_sum, columns.group_sum):
        with pytest.raises(pa.ArrowInvalid, match="which is no number"):
            add(values, [0, 0])
        with pytest.raises(pa.ArrowInvalid, match="start are"):
            add([1, 2], [0, 1], values)


@pytest.mark.parametrize(
    ("values", "index", "start", "reason"),
    [
        ([1, 2], [0, 0, 0], None, "2 values for an index of 3 rows"),
        ([1, 2, 3], [0, 0], None, "3 values for an index of 2 rows"),
        ([1, 2], [0, 5], [1, 2], "start has 2 values, and the index names 5"),
        ([1, 2], [0, -1], None, "the index is below 0"),
        ([1, 2], [0.0, 1.0], None, "float64 instead of integers"),
        ([1, 2], pa.array([0, None]), None, "instead of integers"),
    ],
)
def test_what_does_not_belong_together_is_refused(values, index, start, reason):
    for function in (
        columns.running_sum,
        columns.group_sum,
        columns.group_first,
        columns.group_last,
    ):
        with pytest.raises(pa.ArrowInvalid, match=reason):
            function(values, index, start)
    if "values for" not in reason:
        with pytest.raises(pa.ArrowInvalid, match=reason):
            columns.running_count(index, start)
