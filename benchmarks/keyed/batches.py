"""What a micro-batch costs that has nothing to do, or next to nothing, a commit, a restart with
much state, and a key with many timers.

``python -m benchmarks.keyed.batches``. Each restart is its own process, so that no state is
left open from the run before. Micro-batches are those of a stream of small files, and files without
rows, behind a large one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb

from .. import report
from . import contestants, data, jvm_peer, stream, warm

TIMERS_OF_A_KEY = (10_000, 20_000, 40_000, 80_000)
FILES_OF_A_KIND, SMALL_ROWS, SKIPPED = 16, 10, 6
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
    return pb.scan(df, by="k", state={"last": ("payload", "payload")}, select=["k"])


class LastPayload(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.value_state("last", "string")

    def process(self, row: Any, ctx: Any) -> Any:
        self.last.update(row.payload)
        yield (ctx.key,)


class SetsTimers(pb.KeyedProcessFunction):
    """A row sets n timers, the last one first."""

    def process(self, row: Any, ctx: Any) -> None:
        for at in range(row.n, 0, -1):
            ctx.timers.register_processing_time(at)

    def on_timer(self, timestamp: int, ctx: Any) -> int:
        return timestamp


def last_by_row(df: DataFrame) -> DataFrame:
    return pb.process_keyed(df, LastPayload(), by="k", returns="k bigint")


RESTARTED: dict[str, Callable[[DataFrame], DataFrame]] = {
    contestants.SCAN: last_by_scan,
    contestants.ROW: last_by_row,
    contestants.TWS_JVM: jvm_peer.last_payload,
}


@dataclass(frozen=True)
class Batches:
    """Milliseconds: medians of a micro-batch without rows and of a small one; the large commit."""

    who: str
    empty: float
    small: float
    commit: float


@dataclass(frozen=True)
class Restart:
    """Seconds from start to end of a query that goes on; bytes of its checkpoint."""

    who: str
    seconds: float
    size: int


def main() -> None:
    options = arguments()
    if options.child:
        print(json.dumps(recover(Path(options.child), options.who)))
        return
    with tempfile.TemporaryDirectory(prefix="keyed-bench-") as name:
        folder = Path(name)
        small = small_batches(folder, options.keys, options.repeats)
        restarted = restarts(folder, options.megabytes)
    page = document(small, warm_batches(), restarted, hot_key(options.repeats), options)
    print(page)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "keyed-batches.md").write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed.batches", description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="of the first, large batch")
    parser.add_argument("--megabytes", type=int, default=1_000, help="of state at the restart")
    parser.add_argument("--output", type=Path, help="folder to write keyed-batches.md to")
    parser.add_argument("--repeats", type=int, default=2, help="of the micro-batches, one warms up")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--who", help=argparse.SUPPRESS)
    return parser.parse_args()


def small_batches(folder: Path, keys: int, repeats: int) -> list[Batches]:
    """Each way, over a large file and then small and empty ones; the last repeat counts."""
    rows = folder / "small"
    data.write(rows, 2 * keys, keys, files=1)
    for number in range(1, 2 * FILES_OF_A_KIND + 1):
        one = folder / f"one-{number}"
        many = SMALL_ROWS if number <= FILES_OF_A_KIND else 0
        data.write(one, many, keys, seed=number, files=1, hour=number)
        file = (one / "part-00000.parquet").rename(rows / f"part-{number:05d}.parquet")
        os.utime(file, (time.time() + number,) * 2)  # the order in which the stream reads them
    spark = stream.session()
    found = [
        one_way(spark, rows, 2 * keys, who, transform)
        for who, transform in [*SMALL.items()] * repeats
    ]
    spark.stop()
    return found[-len(SMALL) :]


def one_way(
    spark: SparkSession,
    rows: Path,
    large: int,
    who: str,
    transform: Callable[[DataFrame], DataFrame],
) -> Batches:
    ran = stream.run(transform(stream.read(spark, rows, files_a_batch=1)), no_data_batches=False)
    counts = [progress["numInputRows"] for progress in ran.progress]
    if counts != [large] + [SMALL_ROWS] * FILES_OF_A_KIND + [0] * FILES_OF_A_KIND:
        raise RuntimeError(f"{who} saw micro-batches of {counts} rows")
    dropped = sum(p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in ran.progress)
    if dropped:
        raise RuntimeError(f"{who} dropped {dropped} rows as late")
    times = [progress["durationMs"]["triggerExecution"] for progress in ran.progress[1:]]
    small, empty = times[SKIPPED:FILES_OF_A_KIND], times[FILES_OF_A_KIND + SKIPPED :]
    commit = ran.progress[0]["stateOperators"][0]["commitTimeMs"]
    one = Batches(who, statistics.median(empty), statistics.median(small), commit)
    print(f"  {one}", flush=True)
    return one


def warm_batches() -> str:
    spark = stream.session()
    try:
        return warm.table(spark, repeats=3)
    finally:
        spark.stop()


def restarts(folder: Path, megabytes: int) -> list[Restart]:
    """Of each way, in separate processes: the first builds the state, the second goes on."""
    return [restart(folder / str(n), who, megabytes) for n, who in enumerate(RESTARTED)]


def restart(folder: Path, who: str, megabytes: int) -> Restart:
    source = folder / "payloads"
    source.mkdir(parents=True)
    write_payloads(source / "part-00000.parquet", megabytes * 1_000_000 // PAYLOAD_BYTES)
    command = [sys.executable, "-m", __spec__.name, "--child", str(folder), "--who", who]
    for _ in range(2):
        answer = in_process(command)
    seconds, size = json.loads(answer.splitlines()[-1])
    shutil.rmtree(folder)
    print(f"  restart, {who}: {seconds:.1f} s", flush=True)
    return Restart(who, seconds, size)


def in_process(command: list[str]) -> str:
    """Runs a child, and gives what it printed.

    Its JVM is killed afterwards, since Spark's RocksDB can hang while the JVM ends.
    """
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, start_new_session=True)
        failed = child.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        if failed:
            raise subprocess.CalledProcessError(failed, command)
        out.seek(0)
        return out.read().strip()


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


def recover(folder: Path, who: str) -> tuple[float, int]:
    """Runs the query over what is new. The second time that is ten rows, on top of the state."""
    source, checkpoint = folder / "payloads", folder / "checkpoint"
    if checkpoint.exists():
        write_payloads(source / "part-00001.parquet", SMALL_ROWS, seed=8)
    spark = stream.session()
    spark.range(1).count()  # the session's own start is not what is measured
    frame = spark.readStream.schema(PAYLOADS).parquet(str(source))
    started = time.perf_counter()
    stream.run(RESTARTED[who](frame), checkpoint=checkpoint, no_data_batches=False)
    seconds = time.perf_counter() - started
    spark.stop()
    size = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
    return seconds, size


def hot_key(repeats: int) -> list[tuple[int, float]]:
    """Numbers of timers that one row sets, and the seconds until all have fired."""
    spark = stream.session()
    found = [(timers, fire(spark, timers)) for timers in TIMERS_OF_A_KEY * repeats]
    spark.stop()
    return found[-len(TIMERS_OF_A_KEY) :]


def fire(spark: SparkSession, timers: int) -> float:
    row = spark.createDataFrame([(timers,)], "n bigint").coalesce(1)
    started = time.perf_counter()
    fired = pb.process_keyed(row, SetsTimers(), by="n", returns="at bigint").count()
    seconds = time.perf_counter() - started
    if fired != timers:
        raise RuntimeError(f"{fired} of {timers} timers have fired")
    print(f"  {timers:,} timers of a key: {seconds:.2f} s", flush=True)
    return seconds


def document(
    small: list[Batches],
    warmed: str,
    restarted: list[Restart],
    timers: list[tuple[int, float]],
    options: argparse.Namespace,
) -> str:
    lines = [f"| {b.who} | {b.empty:,.0f} | {b.small:,.0f} | {b.commit:,.0f} |" for b in small]
    again = [f"| {r.who} | {r.seconds:.1f} | {r.size / 1e6:,.0f} |" for r in restarted]
    fired = [f"| {count:,} | {seconds:.2f} |" for count, seconds in timers]
    parts = [
        "| how | micro-batch without rows, ms | with ten | commit of the large one |\n"
        "|---|--:|--:|--:|\n" + "\n".join(lines),
        "## A warm micro-batch of a hundred rows",
        warmed,
        f"## Restart with {options.megabytes:,} MB of state",
        "| how | seconds | size of the checkpoint, MB |\n|---|--:|--:|\n" + "\n".join(again),
        "## Timers of one key",
        "| timers that one row sets | seconds until all have fired |\n|--:|--:|\n"
        + "\n".join(fired),
    ]
    conditions = [
        f"A first micro-batch with {options.keys:,} keys, then {FILES_OF_A_KIND} with "
        f"{SMALL_ROWS} rows and {FILES_OF_A_KIND} with none; two partitions, RocksDB, checkpoint "
        f"on the local disk. Medians (the first {SKIPPED} of a kind left out); the commit is that "
        "of the large one, over both partitions. State on a local disk is written without Hadoop's "
        "classes for it, which start a process for each question that a rename asks; on another "
        "file system that part of the difference does not exist.",
        warm.CONDITIONS,
        f"The restart: one micro-batch writes values of {PAYLOAD_BYTES:,} bytes that don't "
        f"compress; then a new process runs a micro-batch of {SMALL_ROWS} rows, from the start to "
        "the end of its query.",
    ]
    return report.page(
        "Micro-batches, commits and restarts",
        "What do a small micro-batch, a commit and a restart cost beside Spark's own operators?",
        parts,
        "\n\n".join(conditions),
        "python -m benchmarks.keyed.batches --output docs/benchmarks",
    )


if __name__ == "__main__":
    main()
