"""The rows of the streaming benchmarks: (k, v, t) in parquet files, the same for everyone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TASKS = 2
SCHEMA = "k bigint, v bigint, t timestamp"
START_MS = 1_767_225_600_000  # the first row's event time: 2026-01-01 UTC
SPAN_MS = 3_600_000  # event times go over an hour


@dataclass(frozen=True)
class Rows:
    """A written data set, and what a running count over it must come to."""

    folder: Path
    rows: int
    keys: int
    sum_of_counts: int


def write(
    folder: Path, rows: int, keys: int, seed: int = 7, files: int = TASKS, hour: int = 0
) -> Rows:
    """Random keys in random order, event times ascending over an hour, cut into `files` files."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    k = random.integers(0, keys, rows)
    v = random.integers(0, 1_000, rows)
    t = START_MS + hour * SPAN_MS + np.arange(rows, dtype="int64") * SPAN_MS // max(rows, 1)
    for number, part in enumerate(np.array_split(np.arange(rows), files)):
        stamps = pa.array(t[part] * 1_000, pa.timestamp("us", "UTC"))
        table = pa.table({"k": k[part], "v": v[part], "t": stamps})
        pq.write_table(table, folder / f"part-{number:05d}.parquet")
    counts = np.bincount(k, minlength=keys).astype("int64")
    return Rows(folder, rows, keys, int((counts * (counts + 1) // 2).sum()))
