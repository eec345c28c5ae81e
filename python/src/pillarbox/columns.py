"""Helpers of the column form: counts, sums and picks by key over whole columns.

``index[i]`` is the position of row i's key, as in ``state.index``; rows keep their order within a
key. Columns are Arrow arrays, numpy arrays or lists; results are Arrow arrays. Sums equal the
addition of one value after the other, to the last bit. ``ArrowInvalid`` is raised for an integer
sum that overflows, columns of another length than the index, an index without integers or beyond
``start``, and sums of anything but numbers.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pyarrow as pa

_LARGE = 64


def running_count(index: Any, start: Any = None) -> pa.Array:
    """Count for each row the rows of its key up to it, on top of ``start`` (by key, null is 0)."""
    groups = _groups_of(_index(index))
    before = groups.firsts - 1
    if start is not None:
        begin = _numbers(start, "start")
        _check_start(begin, groups.keys)
        _refuse(_largest(begin) + len(groups.order) >= 2**63, "a count does not fit in int64")
        before = before - begin[groups.keys]
    places = np.arange(len(groups.order))
    return pa.array(groups.to_rows(places - groups.spread(before)), pa.int64())


def running_sum(values: Any, index: Any, start: Any = None) -> pa.Array:
    """Sum for each row its key's values up to it, on top of ``start`` (by key, null is 0).

    Nulls add nothing. Integers give int64, everything else double.
    """
    index = _index(index)
    added = _numbers(values, "values")
    _check_length(added, index)
    count = int(index.max()) + 1 if len(index) else 0
    begin = np.zeros(count, added.dtype) if start is None else _numbers(start, "start")
    _check_start(begin, index)
    if np.issubdtype(added.dtype, np.integer) and np.issubdtype(begin.dtype, np.integer):
        return _integer_sums(added.astype(np.int64), index, begin.astype(np.int64))
    return pa.array(_running_floats(added.astype(np.float64), index, begin.astype(np.float64)))


def group_count(index: Any, count: int | None = None) -> pa.Array:
    """Count the rows of each key. ``count`` is the number of keys, if some may have no rows."""
    return pa.array(np.bincount(_index(index), minlength=count or 0), pa.int64())


def group_sum(values: Any, index: Any, start: Any = None) -> pa.Array:
    """Sum the values of each key, on top of ``start``; equals the last of ``running_sum``."""
    return group_last(running_sum(values, index, start), index, start)


def group_first(values: Any, index: Any, start: Any = None) -> pa.Array:
    """Pick the first of each key's ``values``; without rows that of ``start``, or null."""
    index = _index(index)
    return _pick(values, index[::-1], np.arange(len(index))[::-1], start)


def group_last(values: Any, index: Any, start: Any = None) -> pa.Array:
    """Pick the last of each key's ``values``; without rows that of ``start``, or null."""
    index = _index(index)
    return _pick(values, index, np.arange(len(index)), start)


def _pick(values: Any, index: Any, rows: Any, start: Any) -> pa.Array:
    column = _array(values)
    _check_length(column, index)
    known = None if start is None else _array(start)
    if known is not None:
        _check_start(known, index)
        common = _common_type(column.type, known.type)
        column, known = column.cast(common), known.cast(common)
    largest = int(index.max()) + 1 if len(index) else 0
    chosen = np.full(largest if known is None else len(known), -1, np.int64)
    chosen[index] = rows  # of several rows of a key the last one assigned stays
    missing = chosen < 0
    picked = column.take(pa.array(np.where(missing, 0, chosen), mask=missing))
    if known is None or not missing.any():
        return picked
    return pa.compute.if_else(pa.array(missing), known, picked)


def _common_type(values: pa.DataType, start: pa.DataType) -> pa.DataType:
    """Return the type to which both can be cast without loss."""
    if pa.types.is_timestamp(values) and pa.types.is_timestamp(start):
        _refuse((values.tz is None) != (start.tz is None), f"values are {values}, start is {start}")
        start = pa.timestamp(start.unit, values.tz)
    schemas = [pa.schema([("x", one)]) for one in (values, start)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowException, TypeError):
        raise pa.ArrowInvalid(f"values are {values}, start is {start}") from None


def _by_key(index: Any) -> Any:
    """Return the rows sorted by their keys, stably.

    Sorts by 16 bits at a time, for which numpy has a radix sort: ten times as fast.
    """
    if not len(index) or index.min() < 0 or index.max() >= 1 << 32:
        return np.argsort(index, kind="stable")
    order = np.argsort(index.astype(np.uint16), kind="stable")
    if index.max() < 1 << 16:
        return order
    high = (index[order] >> 16).astype(np.uint16)
    return order[np.argsort(high, kind="stable")]


class _Groups:
    """The rows of an index in the order of their keys, with one run of places a key.

    ``order`` has the row at each place; ``keys``, ``firsts`` and ``sizes`` have each run's key,
    first place and length.
    """

    __slots__ = ("firsts", "keys", "order", "sizes")

    def __init__(self, index: Any) -> None:
        self.order = _by_key(index)
        ordered = index[self.order]
        is_first = np.ones(len(index), bool)
        np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
        self.firsts = is_first.nonzero()[0]
        self.sizes = np.diff(self.firsts, append=len(index))
        self.keys = ordered[self.firsts]

    def spread(self, values: Any) -> Any:
        """Repeat ``values``, one a run, at each place of the run."""
        return np.repeat(values, self.sizes)

    def to_rows(self, values: Any) -> Any:
        """Bring ``values``, one a place, into the order of the rows."""
        result = np.empty_like(values)
        result[self.order] = values
        return result


_last: tuple[weakref.ref[Any], _Groups] | None = None


def _groups_of(index: Any) -> _Groups:
    """Return the groups of an index. Those of the last read-only index are cached."""
    global _last
    last = _last
    if last is not None and last[0]() is index:
        return last[1]
    groups = _Groups(index)
    if not index.flags.writeable:
        _last = weakref.ref(index, _forget), groups
    return groups


def _forget(reference: weakref.ref[Any]) -> None:
    global _last
    if _last is not None and _last[0] is reference:
        _last = None


def _integer_sums(values: Any, index: Any, begin: Any) -> pa.Array:
    """Subtract the sum before each key from one sum over all rows; wrapping cancels out."""
    groups = _groups_of(index)
    _refuse_overflow(values, index, begin, groups)
    ordered = values[groups.order]
    with np.errstate(over="ignore"):
        total = np.cumsum(ordered)
        before = total[groups.firsts] - ordered[groups.firsts] - begin[groups.keys]
        sums = total - groups.spread(before)
    return pa.array(groups.to_rows(sums))


def _refuse_overflow(values: Any, index: Any, begin: Any, groups: _Groups) -> None:
    """Raise for an overflow. A bound on all sums makes the exact check rare."""
    if _largest(values) * int(groups.sizes.max(initial=0)) + _largest(begin) < 2**63:
        return
    sizes = np.abs(values.astype(np.float64))
    bound = np.bincount(index, sizes, len(begin)) + np.abs(begin.astype(np.float64))
    for key in (bound >= 2.0**62).nonzero()[0].tolist():
        total = int(begin[key])
        for value in values[index == key].tolist():
            total += value
            _refuse(not -(2**63) <= total < 2**63, f"the sum {total} does not fit in int64")


def _largest(values: Any) -> int:
    """Return the greatest absolute value; 0 if there are no values."""
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def _running_floats(values: Any, index: Any, begin: Any) -> Any:
    """Add one value after the other: large keys one by one, the n-th rows of small keys at once."""
    groups = _groups_of(index)
    ordered, keys = values[groups.order], groups.spread(groups.keys)
    ranks = np.arange(len(keys)) - groups.spread(groups.firsts)
    sums = np.empty(len(keys), np.float64)
    sizes = np.bincount(keys, minlength=len(begin))
    is_large = sizes[keys] > _LARGE
    for start in (is_large & (ranks == 0)).nonzero()[0].tolist():
        key = keys[start]
        run = np.concatenate(([begin[key]], ordered[start : start + sizes[key]]))
        sums[start : start + sizes[key]] = np.add.accumulate(run)[1:]
    totals = begin.copy()
    for places in _by_rank(ranks, ~is_large):
        totals[keys[places]] += ordered[places]
        sums[places] = totals[keys[places]]
    return groups.to_rows(sums)


def _by_rank(ranks: Any, which: Any) -> list[Any]:
    """Return the places of all first rows, of all second rows, and so on."""
    places = which.nonzero()[0]
    order = places[np.argsort(ranks[places], kind="stable")]
    if not len(places):
        return []
    return list(np.split(order, np.cumsum(np.bincount(ranks[places]))[:-1]))


def _index(index: Any) -> Any:
    """Return the index as a numpy array; an array of integers is returned itself."""
    index = np.asarray(index)
    if not len(index):
        return index if index.dtype.kind in "iu" else index.astype(np.int64)
    _refuse(index.dtype.kind not in "iu", f"the index has {index.dtype} instead of integers")
    _refuse(index.min() < 0, "the index is below 0")
    return index


def _check_length(column: Any, index: Any) -> None:
    _refuse(len(column) != len(index), f"{len(column)} values for an index of {len(index)} rows")


def _check_start(start: Any, index: Any) -> None:
    largest = int(index.max()) if len(index) else -1
    _refuse(largest >= len(start), f"start has {len(start)} values, and the index names {largest}")


def _refuse(is_wrong: bool, reason: str) -> None:
    if is_wrong:
        raise pa.ArrowInvalid(reason)


def _array(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    column = values if isinstance(values, pa.Array) else pa.array(values)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _numbers(values: Any, name: str) -> Any:
    """Return the values as a numpy array, with 0 for null; integers as int64."""
    column = _array(values)
    kind = column.type
    if pa.types.is_null(kind) or pa.types.is_boolean(kind) or pa.types.is_unsigned_integer(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_signed_integer(kind) or pa.types.is_floating(kind)):
        raise pa.ArrowInvalid(f"{name} are {kind}, which is no number: cast them first")
    filled = column.fill_null(0) if column.null_count else column
    return filled.to_numpy(zero_copy_only=False)
