"""What a micro-batch costs that has next to nothing to do, a commit, and a restart with much state.

``python -m benchmarks.keyed.batches``. Each restart is a process of its own, so that no state is
left open from the run before. Micro-batches are those of a stream of small files behind a large
one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import pillarbox as pb

from .. import report
from . import contestants, data, jvm_peer, stream

SMALL_FILES, SMALL_ROWS, SKIPPED = 24, 10, 8
PAYLOAD_BYTES = 1_000
PAYLOADS = "k bigint, payload string"


def deduplicate(df: DataFrame) -> DataFrame:
    return df.dropDuplicates(["k"]).select("k")


SMALL: dict[str, Callable[[DataFrame], DataFrame]] = {
    contestants.SCAN: contestants.scan,
    contestants.ROW: contestants.keyed(contestants.ours.RunningCount),
    contestants.COLUMNS: contestants.keyed(contestants.ours.RunningCountColumns),
    contestants.AGGREGATE: contestants.aggregate,
    "dropDuplicates()": deduplicate,
    contestants.TWS_JVM: jvm_peer.running_count(False),
    contestants.TWS: contestants.with_state(contestants.theirs.RunningCount, "None"),
}


def last_by_scan(df: DataFrame) -> DataFrame:
    return pb.scan(df, by="k", state={"last": ("payload", "payload")}, emit=["k"])


def main() -> None:
    options = arguments()
    if options.child:
        print(json.dumps(recover(Path(options.child))))
        return
    with tempfile.TemporaryDirectory(prefix="keyed-bench-") as name:
        folder = Path(name)
        small = small_batches(folder, options.keys)
        restarted = restart(folder, options.megabytes)
    page = document(small, restarted, options)
    print(page)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "keyed-batches.md").write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed.batches", description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="of the first, large batch")
    parser.add_argument("--megabytes", type=int, default=1_000, help="of state at the restart")
    parser.add_argument("--output", type=Path, help="folder to write keyed-batches.md to")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def small_batches(folder: Path, keys: int) -> list[tuple[str, float, float, float]]:
    """Of each: ms of a small micro-batch (median, highest), ms of the commit of the large one."""
    rows = folder / "small"
    data.write(rows, 2 * keys, keys, files=1)
    for number in range(SMALL_FILES):
        one = folder / f"one-{number}"
        data.write(one, SMALL_ROWS, keys, seed=number, files=1)
        (one / "part-00000.parquet").rename(rows / f"part-{number + 1:05d}.parquet")
    spark = stream.session()
    found = []
    for who, transform in [*SMALL.items()] * 2:  # the first time is the warm-up
        ran = stream.run(
            transform(stream.read(spark, rows, files_a_batch=1)), no_data_batches=False
        )
        times = [p["durationMs"]["triggerExecution"] for p in ran.progress]
        commit = ran.progress[0]["stateOperators"][0]["commitTimeMs"]
        found.append((who, statistics.median(times[SKIPPED:]), max(times[SKIPPED:]), commit))
        print(f"  {found[-1]}", flush=True)
    spark.stop()
    return found[len(SMALL) :]


def restart(folder: Path, megabytes: int) -> tuple[float, int]:
    """Seconds of the first micro-batch of `pb.scan` after a restart, bytes of the checkpoint."""
    source = folder / "payloads"
    source.mkdir()
    write_payloads(source / "part-00000.parquet", megabytes * 1_000_000 // PAYLOAD_BYTES)
    command = [sys.executable, "-m", __spec__.name, "--child", str(folder)]
    for _ in range(2):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, size = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds, size


def write_payloads(path: Path, rows: int, seed: int = 7) -> None:
    """So many keys with text that does not compress, a row group at a time."""
    random = np.random.default_rng(seed)
    schema = pa.schema([("k", pa.int64()), ("payload", pa.string())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, 50_000):
            count = min(50_000, rows - start)
            letters = random.integers(33, 126, (count, PAYLOAD_BYTES), dtype=np.uint8)
            texts = [row.tobytes().decode() for row in letters]
            writer.write_table(
                pa.table({"k": np.arange(start, start + count), "payload": texts}, schema)
            )


def recover(folder: Path) -> tuple[float, int]:
    """Runs the query over what is new. The second time that is ten rows, on top of the state."""
    source, checkpoint = folder / "payloads", folder / "checkpoint"
    if checkpoint.exists():
        write_payloads(source / "part-00001.parquet", SMALL_ROWS, seed=8)
    spark = stream.session()
    spark.range(1).count()  # the session's own start is not what is measured
    frame = spark.readStream.schema(PAYLOADS).parquet(str(source))
    started = time.perf_counter()
    stream.run(last_by_scan(frame), checkpoint=checkpoint, no_data_batches=False)
    seconds = time.perf_counter() - started
    spark.stop()
    size = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
    return seconds, size


def document(
    small: list[tuple[str, float, float, float]],
    restarted: tuple[float, int],
    options: argparse.Namespace,
) -> str:
    lines = [
        f"| {who} | {middle:,.0f} | {most:,.0f} | {commit:,.0f} |"
        for who, middle, most, commit in small
    ]
    seconds, size = restarted
    return (
        "\n\n".join(
            [
                "# Micro-batches, commits and restarts",
                f"Made by `python -m benchmarks.keyed.batches` on {report.origin()}.",
                f"A first micro-batch with {options.keys:,} keys, then {SMALL_FILES} with "
                f"{SMALL_ROWS} rows, two partitions, RocksDB. Times of the small ones (the first "
                f"{SKIPPED} left out), and of the large one's commit, over all partitions; in ms.",
                "| how | a small micro-batch, median | highest | commit of the large one |\n"
                "|---|--:|--:|--:|\n" + "\n".join(lines),
                "## Restart",
                f"{options.megabytes:,} MB of state, values of {PAYLOAD_BYTES:,} bytes that don't "
                f"compress; then a new process runs a micro-batch of {SMALL_ROWS} rows: the time "
                "from start to end of the query, with the state loaded from the checkpoint.",
                "| how | seconds | size of the checkpoint, MB |\n|---|--:|--:|\n"
                f"| {contestants.SCAN}, RocksDB | {seconds:.1f} | {size / 1e6:,.0f} |",
            ]
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
