"""State larger than the memory that it may use: does memory stay, and does throughput?

``python -m benchmarks.keyed.large --keys 10000000 --heap 2g --rocksdb 1g --seconds 1800``. A
process of its own runs the query; this one watches it and all its descendants from outside.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb

from . import stream

PAYLOAD = 1_000  # bytes of a value, random, so that nothing compresses
RETAINED = 20  # micro-batches, since each keeps tables that were compacted since
FAR_MS = 10**14  # no timer is due while this runs
VALUES, TIMERS = "values", "timers"
ROOT = Path(__file__).resolve().parents[2]


class LastPayload(pb.KeyedProcessFunction):
    """Reads the value of a key, and puts another one in its place."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.value_state("last", "binary")

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        known = self.last.value()
        if known is not None and int.from_bytes(known[:8], "big") != row.k:
            raise ValueError(f"the value of {row.k} is that of another key")
        self.last.update(row.k.to_bytes(8, "big") + os.urandom(PAYLOAD - 8))
        yield (int(known is not None),)


class PutsOff(pb.KeyedProcessFunction):
    """Puts the only timer of a key off."""

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        ctx.timers.delete_processing_time(FAR_MS + row.n - 1)
        ctx.timers.register_processing_time(FAR_MS + row.n)
        yield (0,)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        raise ValueError(f"the timer of {ctx.key} fired at {timestamp}")


FUNCTIONS = {VALUES: LastPayload(), TIMERS: PutsOff()}


@dataclass(frozen=True)
class Size:
    """What is measured: one key has a value of a thousand bytes, or a timer.

    ``seconds`` begin when all keys have theirs, which may take ten times as long.
    """

    what: str
    keys: int
    heap: str
    rocksdb: str
    seconds: int
    rows: int = 20_000  # of a micro-batch


@dataclass
class Watched:
    """Micro-batches, as (end, rows), and resident bytes of the whole tree, as (time, bytes).

    Times are seconds since the start.
    """

    batches: list[tuple[float, int]] = field(default_factory=list)
    resident: list[tuple[float, int]] = field(default_factory=list)
    found: int = 0

    def rate(self, start: float, end: float) -> float:
        """Rows a second of the micro-batches that end within a time."""
        return sum(rows for at, rows in self.batches if start <= at < end) / (end - start)

    def most(self, start: float, end: float) -> int:
        """The peak of the bytes within a time."""
        return max(size for at, size in self.resident if start <= at < end)

    def filled(self, keys: int) -> float:
        """The time at which all keys had their state."""
        total = 0
        for at, rows in self.batches:
            total += rows
            if total >= keys:
                return at
        raise RuntimeError(f"{total:,} of {keys:,} keys in {self.batches[-1][0]:.0f} s")


def watch(size: Size) -> Watched:
    """Run the query in a process of its own, and watch it until its time is over."""
    watched, started = Watched(), time.monotonic()
    folder = tempfile.mkdtemp(prefix="keyed-large-")
    command = [sys.executable, "-m", "benchmarks.keyed.large", "--child", folder]
    for name, value in vars(size).items():
        command += [f"--{name}", str(value)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    done = threading.Event()

    def sample() -> None:
        while not done.wait(1):
            watched.resident.append((time.monotonic() - started, tree_bytes(child.pid)))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("{"):
                told = json.loads(line)
                watched.batches.append((time.monotonic() - started, told["rows"]))
                watched.found += told["found"]
        if child.wait():
            raise subprocess.CalledProcessError(child.returncode, command)
    finally:
        done.set()
        sampler.join()
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        shutil.rmtree(folder, ignore_errors=True)
    return watched


def tree_bytes(root: int) -> int:
    """The proportional set size of a process and all its descendants: shared pages count once.

    A child of the JVM that is no Python is left out: at first it has the JVM's memory, not its own.
    """
    parents, others = {}, set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, stat = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.split()[1])
            if not name.partition("(")[2].startswith("python"):
                others.add(int(entry.name))
    family = {root}
    while new := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= new
    spawned = {pid for pid in family & others if parents.get(pid) in others}
    return sum(map(_proportional, family - spawned))


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) * 1_024 for line in lines if line.startswith("Pss:"))


def run(folder: Path, size: Size) -> None:
    """Run the query until the time is over, and print a line for each micro-batch."""
    os.environ["MALLOC_ARENA_MAX"] = "2"
    stream.SETTINGS["spark.driver.memory"] = size.heap
    stream.SETTINGS["spark.pillarbox.state.rocksdb.memory"] = size.rocksdb
    stream.SETTINGS["spark.sql.streaming.minBatchesToRetain"] = str(RETAINED)
    # The heap has its whole size from the start, so that what grows is something else.
    spark = stream.session(extraJavaOptions=f"-Xms{size.heap} -XX:+AlwaysPreTouch")
    query = stream_of(spark, size).writeStream.format("noop").outputMode("update")
    running = query.option("checkpointLocation", str(folder / "checkpoint")).start()
    end, told, rows = time.monotonic() + 10 * size.seconds, -1, 0
    while time.monotonic() < end:
        running.awaitTermination(1)
        for progress in running.recentProgress:
            if progress["batchId"] > told:
                told = progress["batchId"]
                if rows < size.keys <= rows + progress["numInputRows"]:
                    end = time.monotonic() + size.seconds
                rows += progress["numInputRows"]
                seen = progress["observedMetrics"].get("seen")
                found = seen["found"] if seen else 0
                print(json.dumps({"rows": progress["numInputRows"], "found": found}), flush=True)
    running.stop()
    spark.stop()


def stream_of(spark: SparkSession, size: Size) -> DataFrame:
    """Each key once, in order, and then keys at random; n says how often a key has come."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", size.rows)
    value, keys = F.col("value"), F.lit(size.keys)
    # Multiplied by a prime, the numbers of a round are all keys in another order.
    k = F.when(value < keys, value).otherwise((value % keys) * 1_000_003 % keys)
    frame = rows.option("numPartitions", 2).load().select(
        k.alias("k"), F.floor(value / keys).alias("n")
    )  # fmt: skip
    function = FUNCTIONS[size.what]
    out = frame.transform(pb.process_keyed, function, by="k", returns="found int")  # type: ignore[arg-type]
    return out.observe("seen", F.sum("found").alias("found"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed.large", description=__doc__)
    parser.add_argument("--what", choices=[VALUES, TIMERS], default=VALUES)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument(
        "--heap", default="512m", help="the JVM's, which has no other memory to fill"
    )
    parser.add_argument("--rocksdb", default="128m", help="block cache and write buffers")
    parser.add_argument("--seconds", type=int, default=60, help="with all keys there")
    parser.add_argument("--rows", type=int, default=20_000, help="of a micro-batch")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = vars(parser.parse_args())
    child = options.pop("child")
    size = Size(**options)
    if child:
        run(Path(child), size)
        return
    watched = watch(size)
    step = max(10, size.seconds // 18)
    for start in range(0, int(watched.batches[-1][0]), step):
        end = start + step
        bytes_ = max((b for at, b in watched.resident if start <= at < end), default=0)
        print(f"{start:6} s  {watched.rate(start, end):9,.0f} rows/s  {bytes_ / 1e6:8,.0f} MB")
    print(f"filled after {watched.filled(size.keys):.0f} s, {watched.found:,} values found again")


if __name__ == "__main__":
    main()
