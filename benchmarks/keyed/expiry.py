"""What micro-batches take while as many keys expire in each as come: is there one that stalls?

``python -m benchmarks.keyed.expiry``. Every micro-batch has keys that no other has; their state
expires, by event time, some micro-batches later, and nobody asks for it again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb

from .. import report
from . import stream

FIRST_MS = 1_700_000_000_000


class Seen(pb.KeyedProcessFunction):
    """A value a key, written by its only row."""

    def __init__(self, lives: int) -> None:
        self.ttl = pb.StateTtl(f"{lives} seconds", time_domain="event_time")

    def open(self, ctx: Any) -> None:
        self.seen = ctx.value_state("seen", "bigint", ttl=self.ttl)

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        if self.seen.value() is None:
            self.seen.update(row.v)
            yield (row.k,)


@dataclass(frozen=True)
class Expiry:
    """Of one backend: the seconds of each micro-batch, and the entries of its state after it."""

    backend: str
    seconds: list[float]
    entries: list[int]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        return float(np.percentile(self.seconds, 99, method="higher"))


def main() -> None:
    options = arguments()
    found = [measure(stream.session(), backend, options) for backend in ("heap", "rocksdb")]
    page = document(found, options)
    print(page)
    if options.output:
        (options.output / "keyed-expiry.md").write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed.expiry", description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="of a micro-batch")
    parser.add_argument(
        "--batches", type=int, default=60, help="micro-batches in which keys expire"
    )
    parser.add_argument(
        "--lives", type=int, default=5, help="micro-batches that a key's state lives"
    )
    parser.add_argument("--output", type=Path, help="folder to write keyed-expiry.md to")
    return parser.parse_args()


def measure(spark: SparkSession, backend: str, options: argparse.Namespace) -> Expiry:
    """Run all micro-batches; those before the first expiry, which warm up, don't count."""
    warm = 2 * options.lives
    spark.conf.set(
        "spark.sql.streaming.numRecentProgressUpdates", str(2 * (warm + options.batches))
    )
    with tempfile.TemporaryDirectory(prefix="keyed-bench-") as name:
        folder = Path(name)
        write(folder / "rows", options.keys, warm + options.batches)
        frame = keyed(stream.read(spark, folder / "rows", files_a_batch=1), backend, options.lives)
        ran = stream.run(frame, checkpoint=folder / "checkpoint", no_data_batches=False)
    stream.check(ran, options.keys * (warm + options.batches), None)
    progress = ran.progress[warm:]
    return Expiry(
        backend,
        [one["durationMs"]["triggerExecution"] / 1_000 for one in progress],
        [one["stateOperators"][0]["numRowsTotal"] for one in progress],
    )


def keyed(rows: DataFrame, backend: str, lives: int) -> DataFrame:
    return pb.process_keyed(rows, Seen(lives), by="k", returns="k bigint", backend=backend)


def write(folder: Path, keys: int, files: int) -> None:
    """A file for each micro-batch, a second of event time after the other, with keys of its own."""
    folder.mkdir()
    random = np.random.default_rng(7)
    for number in range(files):
        k = number * keys + random.permutation(keys)
        t = np.full(keys, (FIRST_MS + number * 1_000) * 1_000).astype("datetime64[us]")
        columns = {
            "k": pa.array(k),
            "v": pa.array(k),
            "t": pa.array(t).cast(pa.timestamp("us", "UTC")),
        }
        path = folder / f"part-{number:05d}.parquet"
        pq.write_table(pa.table({name: columns[name] for name in ("k", "v", "t")}), path)
        at = time.time() + number
        os.utime(path, (at, at))  # the order in which the stream reads them


def document(found: list[Expiry], options: argparse.Namespace) -> str:
    rows = [
        f"| {one.backend} | {one.median:.2f} | {one.p99:.2f} | {one.p99 / one.median:.1f} "
        f"| {one.entries[0]:,} to {max(one.entries):,} |"
        for one in found
    ]
    head = "| backend | median, s | p99, s | p99 / median | entries of the state |"
    return report.page(
        "Expiry",
        "Does a micro-batch stall in which many keys expire?",
        [head + "\n|---|--:|--:|--:|---|\n" + "\n".join(rows)],
        f"{options.batches} micro-batches of {options.keys:,} rows, each with keys of its own, "
        f"whose value state expires {options.lives} micro-batches later by event time, so that as "
        "many keys expire in each micro-batch as come. The row form from Python, two partitions, "
        "each with a snapshot after ten micro-batches, checkpoint on the local disk. The first "
        f"{2 * options.lives} micro-batches do not count. Of so few, p99 is the slowest one. "
        "The slow micro-batches on RocksDB wait for the first step of a partition's snapshot, in "
        "which what the cache holds is written, or for such a write half-way to it.",
        "python -m benchmarks.keyed.expiry --output docs/benchmarks",
    )


if __name__ == "__main__":
    main()
