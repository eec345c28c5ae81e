"""State larger than its memory, in a process of its own that is watched from outside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from benchmarks.keyed import large  # noqa: E402

MB = 1_000_000


@pytest.mark.soak
@pytest.mark.parametrize("what", [large.VALUES, large.TIMERS])
def test_ten_million_keys_run_for_half_an_hour_at_a_steady_speed(what: str) -> None:
    """Ten gigabytes of values on four, or ten million timers in RocksDB."""
    size = large.Size(what, keys=10_000_000, heap="2g", rocksdb="1g", seconds=1_800)
    watched = large.watch(size)
    filled = watched.filled(size.keys)
    end = filled + size.seconds
    first, last = watched.rate(filled, filled + 600), watched.rate(end - 600, end)
    assert last >= 0.8 * first, f"{first:,.0f} rows a second at first, {last:,.0f} at last"
    assert watched.most(filled, end) < 4_000 * MB
