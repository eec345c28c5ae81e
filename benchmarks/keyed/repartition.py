"""What the first micro-batch takes after a restart with another number of partitions.

``python -m benchmarks.keyed.repartition``. Each run goes on from a copy of one checkpoint with a
few rows that are new, in turn with a restart that keeps the number.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from .. import report
from . import contestants, data, stream

KEYS, FROM = 300_000, 4
# Of partitions: those that there were, and those of the restart.
CHANGES = ((FROM, FROM), (FROM, 2), (FROM, 8), (FROM, 3), (8, 8))
SETTINGS = {"spark.pillarbox.state.snapshotEvery": "1"}


@dataclass
class Restart:
    """Milliseconds of the first micro-batch of each run."""

    backend: str
    before: int
    after: int
    millis: list[float] = field(default_factory=list)


def main() -> None:
    options = arguments()
    spark = stream.session()
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    found = [
        Restart(backend, *change) for backend in options.backends.split(",") for change in CHANGES
    ]
    with tempfile.TemporaryDirectory(prefix="keyed-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        first = data.write(folder / "rows", options.keys, options.keys, files=1)
        for restart in found:
            base = folder / f"{restart.backend}-{restart.before}"
            if not base.exists():
                run(spark, first.folder, base, restart.backend, restart.before)
        add_rows(folder, options.keys)
        for repeat in range(-options.warm_up, options.repeats):
            for restart in found if repeat % 2 else found[::-1]:
                one_run(spark, folder, restart, counts=repeat >= 0)
        spark.stop()
    page = document(found, options)
    print(page)
    if options.output:
        (options.output / "keyed-repartition.md").write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed.repartition", description=__doc__)
    parser.add_argument("--keys", type=int, default=KEYS, help="with state")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds that don't count")
    parser.add_argument("--backends", default="rocksdb,heap", help="by commas")
    parser.add_argument("--output", type=Path, help="folder to write keyed-repartition.md to")
    return parser.parse_args()


def add_rows(folder: Path, keys: int) -> None:
    """A file of ten rows more, which the stream reads next."""
    data.write(folder / "more", 10, keys, seed=8, files=1, hour=1)
    file = (folder / "more" / "part-00000.parquet").rename(folder / "rows" / "part-00001.parquet")
    os.utime(file, (time.time() + 1,) * 2)


def run(
    spark: SparkSession, rows: Path, checkpoint: Path, backend: str, partitions: int
) -> dict[str, Any]:
    """Goes on to the end of what is there. Returns the progress of its first micro-batch."""
    spark.conf.set(stream.PARTITIONS, partitions)
    frame = contestants.scan(stream.read(spark, rows, files_a_batch=1), backend)
    ran = stream.run(frame, checkpoint=checkpoint, no_data_batches=False)
    maintenance = stream.maintenance(spark)
    maintenance.awaitDone()
    maintenance.unloadInactive()
    return ran.progress[0]


def one_run(spark: SparkSession, folder: Path, restart: Restart, counts: bool) -> None:
    base = folder / f"{restart.backend}-{restart.before}"
    # What is open in the process is known by the folder.
    checkpoint = Path(tempfile.mkdtemp(dir=folder)) / "checkpoint"
    shutil.copytree(base, checkpoint)
    progress = run(spark, folder / "rows", checkpoint, restart.backend, restart.after)
    if progress["numInputRows"] != 10:
        raise RuntimeError(f"10 rows expected, found {progress['numInputRows']}")
    if counts:
        restart.millis.append(progress["durationMs"]["triggerExecution"])
    state = progress["stateOperators"][0]
    print(
        f"  {restart.backend} {restart.before} -> {restart.after}: "
        f"{progress['durationMs']['triggerExecution']} ms, {state['numRowsTotal']} entries, "
        f"load {state['customMetrics'].get('stateLoadTimeMs')} ms of tasks",
        flush=True,
    )
    shutil.rmtree(checkpoint)


def document(found: list[Restart], options: argparse.Namespace) -> str:
    head = (
        "| backend | partitions | first micro-batch, ms | lowest - highest | of a plain restart "
        "| aim |\n|---|---|--:|--:|--:|--:|\n"
    )
    conditions = (
        f"A pb.scan with a value for each of {options.keys:,} keys goes on with ten rows; "
        f"local[{data.TASKS}], checkpoint on the local disk, where each partition has a snapshot. "
        "The time is that of the whole first micro-batch, in which each task opens its state, by "
        f"Spark's progress: {options.warm_up} rounds to warm up, the median of {options.repeats} "
        "that follow in one JVM, all in turn and both ways round. A plain restart keeps the number "
        f"of {FROM}; one with 8 has more tasks to run, whatever is in them. Where neither "
        "number is a multiple of the other each partition takes a part of the keys of several, so "
        "it copies those into a database of its own, key by key: there the time follows the size "
        "of the state."
    )
    return report.page(
        "Restarts with another number of partitions",
        "How long does the first micro-batch take when the number of partitions has changed?",
        [head + "\n".join(row(restart, found) for restart in found)],
        conditions,
        "python -m benchmarks.keyed.repartition --output docs/benchmarks",
    )


def row(restart: Restart, found: list[Restart]) -> str:
    plain = next(
        statistics.median(one.millis)
        for one in found
        if one.backend == restart.backend and one.before == one.after == FROM
    )
    median = statistics.median(restart.millis)
    aim = "" if restart.before == restart.after else report.aim_of(median / plain, 1.2)
    return (
        f"| {restart.backend} | {restart.before} → {restart.after} | {median:.0f} "
        f"| {min(restart.millis):.0f} - {max(restart.millis):.0f} | {median / plain:.2f} | {aim} |"
    )


if __name__ == "__main__":
    main()
