"""What a commit costs on S3 and on HDFS, beside Spark's own state stores in one run.

``python -m benchmarks.stores``, after ``make test-stores`` has fetched Hadoop's jars. Counts and
sums by key, the same for all: a stream whose first file has all keys, and small files after it. The
stores are processes on this machine, so requests take a few milliseconds: those of a cloud's S3
take ten times that, and their number is what counts there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb

from . import report
from .measure import SETTINGS

sys.path.insert(0, str(report.ROOT / "tests" / "python"))

from java_jars import listed_jars
from stores import S3, Hdfs, running

KEYS, SMALL, PARTITIONS, SKIPPED = 20_000, 500, 2, 3
STATE = "spark.sql.streaming.stateStore."
PROVIDERS = "org.apache.spark.sql.execution.streaming.state."


def scan(df: DataFrame, backend: str) -> DataFrame:
    state = {"n": ("0L", "n + 1"), "total": ("0L", "total + v")}
    return pb.scan(df, by="k", state=state, select=["k", "n", "total"], backend=backend)


def aggregate(df: DataFrame) -> DataFrame:
    return df.groupBy("k").agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("total"))


@dataclass(frozen=True)
class Contestant:
    who: str
    build: Callable[[DataFrame], DataFrame]
    mode: str
    peer: str
    conf: dict[str, str] = field(default_factory=dict)


HEAP, ROCKSDB = "on the heap", "in RocksDB"
CONTESTANTS = [
    Contestant("`pb.scan`, heap", partial(scan, backend="heap"), "append", HEAP),
    Contestant(
        "aggregation, Spark's HDFS-backed store", aggregate, "update", HEAP,
        {"providerClass": PROVIDERS + "HDFSBackedStateStoreProvider"},
    ),
    Contestant("`pb.scan`, RocksDB", partial(scan, backend="rocksdb"), "append", ROCKSDB),
    Contestant(
        "aggregation, Spark's RocksDB store with changelog", aggregate, "update", ROCKSDB,
        {
            "providerClass": PROVIDERS + "RocksDBStateStoreProvider",
            "rocksdb.changelogCheckpointing.enabled": "true",
        },
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """Medians over micro-batches, in ms; requests of one micro-batch by their kind."""

    commit: float
    batch: float
    requests: dict[str, float]


def write_input(folder: Path, files: int) -> None:
    folder.mkdir()
    random = np.random.default_rng(5)
    for number in range(files + 1):
        keys = np.arange(KEYS) if number == 0 else random.integers(0, KEYS, SMALL)
        path = folder / f"{number:04}.parquet"
        pq.write_table(pa.table({"k": keys, "v": random.integers(0, 99, len(keys))}), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def session(conf: dict[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("pillarbox stores")
    own = {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        # Only the first session of a process has its jars loaded.
        "spark.jars": ",".join(listed_jars("s3a")),
    }
    for key, value in {**SETTINGS, **own, **conf}.items():
        builder = builder.config(key, value)
    spark: SparkSession = pb.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(spark: SparkSession, one: Contestant, given: Path, checkpoint: str, store: Any) -> Ran:
    for key in ("providerClass", "rocksdb.changelogCheckpointing.enabled"):
        spark.conf.unset(STATE + key)
    for key, value in one.conf.items():
        spark.conf.set(STATE + key, value)
    rows = spark.readStream.schema("k bigint, v bigint").option("maxFilesPerTrigger", 1)
    before = store.requests() if isinstance(store, S3) else {}
    query = (
        one.build(rows.parquet(str(given)))
        .writeStream.format("noop")
        .outputMode(one.mode)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = [json.loads(p.json) for p in query.recentProgress]
    after = store.requests() if isinstance(store, S3) else {}
    assert progress[-1]["stateOperators"][0]["numRowsTotal"] >= KEYS
    counted = progress[SKIPPED:]
    return Ran(
        statistics.median(p["stateOperators"][0]["commitTimeMs"] / PARTITIONS for p in counted),
        statistics.median(p["durationMs"]["triggerExecution"] for p in counted),
        {
            kind: (count - before.get(kind, 0)) / len(progress)
            for kind, count in after.items()
            if kind != "failed"
        },
    )


def ratios(runs: list[Ran], peers: list[Ran], what: Callable[[Ran], float]) -> str:
    """Of the peer's time in the same round: the median, and the least and greatest."""
    found = [what(one) / what(peer) for one, peer in zip(runs, peers, strict=True)]
    return f"**{statistics.median(found):.2f}** ({min(found):.2f} - {max(found):.2f})"


def table(runs: dict[str, list[Ran]]) -> str:
    """Each of ours before the peer that keeps its state likewise."""
    lines = [
        "| who | commit of a partition | of the peer's | micro-batch | of the peer's |",
        "|---|--:|--:|--:|--:|",
    ]
    for one in CONTESTANTS:
        mine = runs[one.who]
        peer = next(c for c in CONTESTANTS if c.peer == one.peer and c.conf)
        commit, batch = (statistics.median(what(ran) for ran in mine) for what in (_commit, _batch))
        against = (
            ["", ""]
            if peer is one
            else [ratios(mine, runs[peer.who], what) for what in (_commit, _batch)]
        )
        lines.append(
            f"| {one.who} | {commit:.0f} ms | {against[0]} | {batch:.0f} ms | {against[1]} |"
        )
    return "\n".join(lines)


def _commit(ran: Ran) -> float:
    return max(ran.commit, 0.5)


def _batch(ran: Ran) -> float:
    return ran.batch


def requests(runs: dict[str, list[Ran]]) -> str:
    kinds = ["PUT", "COPY", "GET", "HEAD", "LIST", "DELETE", "POST"]
    lines = [f"| who | {' | '.join(kinds)} | all |", "|---|" + "--:|" * (len(kinds) + 1)]
    for one in CONTESTANTS:
        seen = runs[one.who][-1].requests
        counts = [f"{seen.get(kind, 0):.1f}" for kind in kinds]
        lines.append(f"| {one.who} | {' | '.join(counts)} | **{sum(seen.values()):.1f}** |")
    return "\n".join(lines)


def measured(name: str, options: argparse.Namespace, folder: Path) -> dict[str, list[Ran]]:
    """All contestants in turn, again and again, in one session."""
    runs: dict[str, list[Ran]] = {one.who: [] for one in CONTESTANTS}
    with ExitStack() as stack:
        store: Any = None
        if name != "disk":
            kind: Any = S3 if name == "s3" else Hdfs
            store = stack.enter_context(running(kind, folder / name))
        spark = session({} if store is None else store.conf)
        stack.callback(spark.stop)
        base = f"file://{folder}/disk" if store is None else store.url
        for repeat in range(options.repeats + 1):
            for number, one in enumerate(CONTESTANTS):
                at = f"{base}/{repeat}-{number}"
                ran = run(spark, one, folder / "in", at, store)
                if repeat:  # the first round warms up
                    runs[one.who].append(ran)
    return runs


TITLES = {"disk": "Local disk", "hdfs": "HDFS", "s3": "S3"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.stores", description=__doc__)
    parser.add_argument("--files", type=int, default=30, help="small ones, a micro-batch each")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="the folder of the page")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        write_input(folder / "in", options.files)
        found = {name: measured(name, options, folder) for name in TITLES}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    conditions = (
        f"Counts and sums of {KEYS:,} keys in {PARTITIONS} partitions; micro-batches of {SMALL} "
        f"rows, {options.files} a run, {options.repeats} runs of each in turn. S3 is moto behind "
        "Hadoop's S3A, HDFS a NameNode and a DataNode, all processes of this machine: a cloud's S3 "
        "answers ten times slower, so there the number of requests decides. Medians; ratios are to "
        "the peer of the same round, with the least and greatest in brackets. Spark's stores write "
        "through its default checkpoint file manager."
    )
    parts: list[str] = []
    for name, runs in found.items():
        parts += [f"## {TITLES[name]}", table(runs)]
        if name == "s3":
            parts += [
                "Requests of a micro-batch, with those of Spark's own logs (the same for all) and "
                "of background work:",
                requests(runs),
            ]
    text = report.page(
        "Commits on S3 and HDFS",
        "What does a commit cost on an object store and on HDFS, beside Spark's own state stores?",
        parts,
        conditions,
        "python -m benchmarks.stores --output docs/benchmarks",
    )
    print(text)
    if options.output:
        (options.output / "stores.md").write_text(text)


if __name__ == "__main__":
    main()
