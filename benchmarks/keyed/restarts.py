"""What a restart costs with much state: a first process builds it, others go on from it.

``python -m benchmarks.keyed.restarts``. Each way is restarted after the snapshot that follows its
large micro-batch in the background, and Pillarbox also from the changes alone, as if the first
process had been killed before that snapshot. ``--versions`` measures a long log of small changes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
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
from . import contestants, jvm_peer, stream

NEW_ROWS = 10
PAYLOADS = "k bigint, payload string"
SNAPSHOT, LOG = "a snapshot", "changes alone"


def last_by_scan(df: DataFrame) -> DataFrame:
    return pb.scan(df, by="k", state={"last": ("payload", "payload")}, select=["k"])


class LastPayload(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.value_state("last", "string")

    def process(self, row: Any, ctx: Any) -> Any:
        self.last.update(row.payload)
        yield (ctx.key,)


def last_by_row(df: DataFrame) -> DataFrame:
    return pb.process_keyed(df, LastPayload(), by="k", returns="k bigint")


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    contestants.SCAN: last_by_scan,
    contestants.ROW: last_by_row,
    contestants.TWS_JVM: jvm_peer.last_payload,
}


@dataclass(frozen=True)
class Restart:
    """Seconds from start to end of a query that goes on; bytes of its checkpoint."""

    who: str
    start: str
    keys: int
    seconds: list[float]
    size: int


def main() -> None:
    options = arguments()
    if options.child:
        print(json.dumps(run(Path(options.child), options)))
        return
    found: list[Restart] = []
    for payload in map(int, options.payloads.split(",")):
        for who in WAYS:
            if options.who in who:
                found += restarts(who, payload, options)
    page = document(found, options)
    print(page)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        name = "keyed-restarts.md" if options.versions == 1 else "keyed-log.md"
        (options.output / name).write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed.restarts", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_000, help="of state")
    parser.add_argument("--payloads", default="1000,100", help="bytes of a value, for each table")
    parser.add_argument("--versions", type=int, default=1, help="micro-batches that build it")
    parser.add_argument("--repeats", type=int, default=2, help="restarts of one state")
    parser.add_argument("--who", default="", help="part of the name of a way, all by default")
    parser.add_argument("--output", type=Path, help="folder to write the page to")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--every", help=argparse.SUPPRESS)
    return parser.parse_args()


def restarts(who: str, payload: int, options: argparse.Namespace) -> list[Restart]:
    """Of one way: builds the state once, and goes on from it again and again."""
    keys = options.megabytes * 1_000_000 // payload
    with tempfile.TemporaryDirectory(prefix="keyed-bench-") as name:
        folder = Path(name)
        write_payloads(folder / "payloads", keys, payload, options.versions)
        child(folder, who, options)
        starts = [SNAPSHOT] if who == contestants.TWS_JVM else [SNAPSHOT, LOG]
        return [again(folder, who, start, keys, options) for start in starts]


def again(folder: Path, who: str, start: str, keys: int, options: argparse.Namespace) -> Restart:
    seconds = []
    for repeat in range(options.repeats):
        if start == LOG:
            forget_snapshots(folder / "checkpoint")
        name = f"new-{start[0]}{repeat}"
        write_payloads(folder / "payloads", NEW_ROWS, 100, 1, seed=8, name=name)
        took, size = child(folder, who, options)
        seconds.append(took)
    found = Restart(who, start, keys, seconds, size)
    print(f"  {found}", flush=True)
    return found


def forget_snapshots(checkpoint: Path) -> None:
    for path in (checkpoint / "state").rglob("*.database"):
        path.unlink()
    for path in (checkpoint / "state").rglob("tables"):
        shutil.rmtree(path)


def child(folder: Path, who: str, options: argparse.Namespace) -> tuple[float, int]:
    """Runs the query over what is new, in a process of its own."""
    every = str(10 * options.versions)
    command = [sys.executable, "-m", __spec__.name, "--child", str(folder), "--who", who]
    seconds, size = json.loads(in_process([*command, "--every", every]).splitlines()[-1])
    return seconds, size


def in_process(command: list[str]) -> str:
    """Runs a child, and gives what it printed.

    Its JVM is killed afterwards, since Spark's RocksDB can hang while the JVM ends.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryDirectory() as local:
        environment = {**os.environ, "SPARK_LOCAL_DIRS": local}
        process = subprocess.Popen(command, stdout=out, start_new_session=True, env=environment)
        failed = process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if failed:
            raise subprocess.CalledProcessError(failed, command)
        out.seek(0)
        return out.read().strip()


def write_payloads(
    folder: Path, keys: int, payload: int, files: int, seed: int = 7, name: str = "part"
) -> None:
    """So many keys with text that does not compress, over some files, a row group at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    schema = pa.schema([("k", pa.int64()), ("payload", pa.string())])
    for number in range(files):
        path = folder / f"{name}-{number:05d}.parquet"
        with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
            first, end = keys * number // files, keys * (number + 1) // files
            for start in range(first, end, 50_000):
                count = min(50_000, end - start)
                letters = random.integers(33, 126, count * payload, dtype=np.uint8)
                offsets = np.arange(0, (count + 1) * payload, payload, dtype=np.int32)
                texts = pa.StringArray.from_buffers(
                    count, pa.py_buffer(offsets), pa.py_buffer(letters)
                )
                numbers = pa.array(np.arange(start, start + count))
                writer.write_table(pa.Table.from_arrays([numbers, texts], schema=schema))
        at = time.time() + number
        os.utime(path, (at, at))  # the order in which the stream reads them


def run(folder: Path, options: argparse.Namespace) -> tuple[float, int]:
    """Runs the query to the end of what there is, after a small one that warms the JVM up."""
    spark = stream.session()
    spark.conf.set("spark.pillarbox.state.snapshotEvery", options.every)
    with tempfile.TemporaryDirectory(prefix="keyed-bench-") as name:
        write_payloads(Path(name) / "payloads", NEW_ROWS, 100, 1)
        once(spark, Path(name), options.who)
    seconds = once(spark, folder, options.who)
    stream.maintenance(spark).awaitDone()
    spark.stop()
    paths = (folder / "checkpoint").rglob("*")
    return seconds, sum(path.stat().st_size for path in paths if path.is_file())


def once(spark: SparkSession, folder: Path, who: str) -> float:
    reader = spark.readStream.schema(PAYLOADS).option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(folder / "payloads"))
    started = time.perf_counter()
    stream.run(WAYS[who](frame), checkpoint=folder / "checkpoint", no_data_batches=False)
    return time.perf_counter() - started


def aim(mine: Restart, found: list[Restart]) -> str:
    """Half of what `transformWithState` takes with as many keys, by the least of each."""
    peers = [r for r in found if r.who == contestants.TWS_JVM and r.keys == mine.keys]
    if mine in peers or not peers:
        return ""
    return report.aim_of(min(mine.seconds), min(peers[0].seconds) / 2, unit=" s")


MEANING = (
    "A snapshot's tables are linked and read when a row asks for them, so that a restart takes no "
    "longer with ten times the keys. Changes alone are written into a new database first, entry by "
    "entry: only a kill before the first snapshot leaves them so."
)


LONG_LOG = (
    "The files of a log are read one after the other. By default a snapshot is made after ten "
    "micro-batches; here it was not asked for before ten thousand."
)


def document(found: list[Restart], options: argparse.Namespace) -> str:
    rows = [
        f"| {r.who} | {r.keys:,} | {r.start} | {min(r.seconds):.1f} | {max(r.seconds):.1f} "
        f"| {r.size / 1e6:,.0f} | {aim(r, found)} |"
        for r in found
    ]
    head = "| how | keys | read from | least seconds | most | size of the checkpoint, MB | aim |"
    title, command = f"Restarts with {options.megabytes:,} MB of state", ""
    versions, meaning = "one micro-batch writes", MEANING
    if options.versions > 1:
        title = f"Restarts from a log of {options.versions:,} versions"
        versions, meaning = f"{options.versions:,} micro-batches write", LONG_LOG
        command = f" --megabytes {options.megabytes} --payloads {options.payloads}"
        command += f" --versions {options.versions}"
    return report.page(
        title,
        "What does a restart cost with much state, beside transformWithState?",
        [head + "\n|---|--:|---|--:|--:|--:|--:|\n" + "\n".join(rows), meaning],
        f"First {versions} values that don't compress, {options.megabytes:,} MB in all. Then a new "
        "process runs a query of ten rows "
        f"without state, which warms it up, and a micro-batch of {NEW_ROWS} rows on the state; the "
        "seconds are those of the latter, from the start to the end of its query. Two partitions, "
        "RocksDB, checkpoint on the local disk and in its cache. `transformWithState` writes a log "
        "of changes and a snapshot with the first micro-batch; with Pillarbox a snapshot follows "
        "a large one at once, in the background. For *changes alone* it was deleted.",
        f"python -m benchmarks.keyed.restarts{command} --output docs/benchmarks",
    )


if __name__ == "__main__":
    main()
