"""The latencies that every contestant meets, and the best that any could make of them."""

from __future__ import annotations

import heapq
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MEDIAN_SECONDS = 0.020
SIGMA = math.log(0.400 / MEDIAN_SECONDS) / 2.3263  # puts the 99th percentile at 400 ms
TASKS = 2


def latencies(rows: int, seed: int) -> np.ndarray:
    """Seconds of each call: log-normal, median 20 ms, p99 400 ms, mean about 46 ms."""
    return np.random.default_rng(seed).lognormal(math.log(MEDIAN_SECONDS), SIGMA, rows)


def partitions(rows: int) -> list[slice]:
    """The rows of each task: contiguous halves, for every contestant the same."""
    return [slice(rows * t // TASKS, rows * (t + 1) // TASKS) for t in range(TASKS)]


def write(folder: Path, seconds: np.ndarray) -> None:
    """One parquet file a task, columns id and seconds; the array itself for PyFlink."""
    folder.mkdir(parents=True)
    for number, part in enumerate(partitions(len(seconds))):
        ids = np.arange(part.start, part.stop)
        table = pa.table({"id": ids, "seconds": seconds[part]})
        pq.write_table(table, folder / f"part-{number}.parquet")
    np.save(folder / "seconds.npy", seconds)


def perfect_seconds(seconds: np.ndarray, capacity: int) -> float:
    """Time of the perfect first-come-first-served schedule: in each task the next call begins the
    moment a slot is free, at no cost at all; the slower task counts."""
    return max(_makespan(seconds[part], capacity) for part in partitions(len(seconds)))


def _makespan(seconds: np.ndarray, capacity: int) -> float:
    free_at = [0.0] * capacity
    for call in seconds:
        heapq.heapreplace(free_at, free_at[0] + float(call))
    return max(free_at)
