"""State larger than its memory, in a process of its own that is watched from outside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from benchmarks.keyed import large  # noqa: E402

MB = 1_000_000


@pytest.mark.nightly
def test_a_gigabyte_of_values_takes_little_more_memory_and_time_than_a_tenth_of_it() -> None:
    """The least heap that Spark takes, and 128 MB for RocksDB. Two minutes."""
    size = large.Size(large.VALUES, keys=1_000_000, heap="512m", rocksdb="128m", seconds=60)
    watched = large.watch(size)
    tenth, filled = watched.filled(size.keys // 10), watched.filled(size.keys)
    grown = watched.most(filled, filled + size.seconds) - watched.most(0, tenth)
    assert grown < 400 * MB, f"{grown / MB:,.0f} MB more than with a tenth of the state"
    assert watched.found > 0
    first, last = (watched.rate(filled + at, filled + at + 30) for at in (0, 30))
    assert last >= 0.5 * first, f"{first:,.0f} rows a second at first, {last:,.0f} at last"


@pytest.mark.soak
@pytest.mark.parametrize("what", [large.VALUES, large.TIMERS])
def test_ten_million_keys_run_for_half_an_hour_at_a_steady_speed(what: str) -> None:
    """Ten gigabytes of values on four, or ten million timers in RocksDB."""
    size = large.Size(what, keys=10_000_000, heap="1g", rocksdb="1g", seconds=1_800)
    watched = large.watch(size)
    filled = watched.filled(size.keys)
    end = filled + size.seconds
    first, last = watched.rate(filled, filled + 600), watched.rate(end - 600, end)
    assert last >= 0.8 * first, f"{first:,.0f} rows a second at first, {last:,.0f} at last"
    assert watched.most(filled, end) < 4_000 * MB
