"""What a query finds in its checkpoint: another backend, damage, another format or operator."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import pillarbox as pb
from keyed.streams import settings
from spark_support import FILE_MANAGER, context_of_tests

cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "seq bigint, k string, ts timestamp"
RETURNS = "k string, what string, n bigint"
SETTINGS = {
    "spark.pillarbox.state.snapshotEvery": "2",
    # The only one that knows both formats.
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming."
    "state.RocksDBStateStoreProvider",
    "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
}


class Counts(pb.KeyedProcessFunction):
    """A count and a list a key; a timer tells the count 10 s after each row."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.value_state("count", "bigint")
        self.seen = ctx.list_state("seen", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(row.seq)
        ctx.timers.register_event_time(ctx.timestamp + 10_000)
        yield ctx.key, "row", self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.key, "timer", sum(self.seen.get())


def counted(rows: DataFrame, function: Any = None, **options: Any) -> DataFrame:
    return rows.withWatermark("ts", "0 seconds").transform(
        pb.process_keyed, function or Counts(), by="k", returns=RETURNS, order_by="seq", **options
    )


class Query:
    """A query over files, one a micro-batch, in runs of its own."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        (folder / "in").mkdir(exist_ok=True)

    def add(self, number: int, keys: str = "ab") -> None:
        rows = [
            {"seq": number * 10 + i, "k": k, "ts": f"2026-11-01T00:00:{number * 5:02}Z"}
            for i, k in enumerate(keys)
        ]
        path = self.folder / "in" / f"{number}.json"
        path.write_text("\n".join(map(json.dumps, rows)))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))

    def run(self, build: Callable[[DataFrame], DataFrame] = counted) -> list[Any]:
        """Processes what is there; all rows that ever came out."""
        out = self.folder / "out"

        def overwrite(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").json(str(out / str(number)))

        rows = self.spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1)
        query = (
            build(rows.json(str(self.folder / "in")))
            .writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
            .foreachBatch(overwrite)
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
            self.await_snapshots()
        found = self.spark.read.schema(RETURNS).option("recursiveFileLookup", True).json(str(out))
        return sorted(tuple(row) for row in found.collect())

    def fails(self, build: Callable[[DataFrame], DataFrame] = counted) -> str:
        with pytest.raises(Exception, match=r".") as caught:
            self.run(build)
        return str(caught.value)

    @property
    def operator(self) -> Path:
        return self.folder / "checkpoint" / "state" / "0"

    def files(self, pattern: str) -> list[Path]:
        """Of all partitions, the newest version last."""
        found = [path for path in self.operator.rglob(pattern) if not path.name.startswith(".")]
        return sorted(found, key=_version)

    def await_snapshots(self) -> None:
        """They follow in the background."""
        jvm: Any = context_of_tests()._jvm
        maintenance = getattr(jvm.io.pillarbox.spark.state, "StateMaintenance$")
        getattr(maintenance, "MODULE$").awaitDone()

    def forget_last_batch(self) -> list[Path]:
        """As if the query had died before it noted that batch; the deltas that it left."""
        commits = list((self.folder / "checkpoint" / "commits").iterdir())
        last = max(int(path.name) for path in commits if path.name.isdigit())
        for path in commits:
            if path.name in (str(last), f".{last}.crc"):
                path.unlink()
        return [path for path in self.files("*.delta") if _version(path) == last + 1]


def _version(path: Path) -> int:
    return int(re.split(r"[_.-]", path.name)[0])


def change(path: Path, content: bytes) -> None:
    """Without the file system's own checksum, as on most file systems."""
    path.write_bytes(content)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Any:
    with settings(spark, **SETTINGS):
        yield Query(spark, tmp_path)


@pytest.fixture(params=["1", "2"])
def either_format(query: Any, request: pytest.FixtureRequest) -> Any:
    """Both checkpoint formats of Spark, in turn."""
    name = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    query.spark.conf.set(name, request.param)
    yield
    query.spark.conf.unset(name)


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, list[Any]]:
    """What so many files give, up to five."""
    found = {}
    with settings(spark, **SETTINGS):
        query = Query(spark, tmp_path_factory.mktemp("undisturbed"))
        for number in range(5):
            query.add(number)
            found[number + 1] = query.run()
    return found


@pytest.mark.parametrize("first", ["rocksdb", pytest.param("heap", marks=pytest.mark.nightly)])
def test_another_backend_goes_on_with_the_state(query: Any, undisturbed: Any, first: str) -> None:
    other = {"rocksdb": "heap", "heap": "rocksdb"}[first]
    pairs = [(first, first), (other, other), (first, other), (other, first)]
    for number, (backend, timers) in enumerate(pairs):
        query.add(number)
        rows = query.run(
            lambda df, b=backend, t=timers: counted(df, backend=pb.Backend(b, timers=t))
        )
    assert rows == undisturbed[4]
    assert {row[1] for row in rows} == {"row", "timer"}


@pytest.mark.usefixtures("either_format")
@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
def test_a_snapshot_that_is_damaged_is_passed_over(
    query: Any, undisturbed: Any, backend: str
) -> None:
    full = {"rocksdb": "*.database", "heap": "*.snapshot"}[backend]
    for number in range(4):
        query.add(number)
        rows = query.run(lambda df: counted(df, backend=backend))
        for path in [*query.files(full), *query.files("*.sst")]:
            change(path, path.read_bytes()[:-5])
    assert query.files(full)
    assert rows == undisturbed[4]


@pytest.mark.usefixtures("either_format")
@pytest.mark.parametrize(
    ("what", "backend"),
    [("cut", "rocksdb"), ("empty", "heap"), ("gone", "rocksdb"), ("flipped", "heap")],
)
def test_a_delta_that_is_damaged_is_named(query: Any, what: str, backend: str) -> None:
    def build(df: DataFrame) -> DataFrame:
        return counted(df, backend=backend)

    query.add(0)
    before = query.run(build)
    for delta in query.files("*.delta"):
        damage(delta, what)
    query.add(1)
    message = query.fails(build)
    assert re.search(r"state/0/\d/1(_[0-9a-z-]+)?\.delta", message), message
    assert ("STATE_FILE_MISSING" if what == "gone" else "STATE_FILE_CORRUPT") in message
    assert before == [("a", "row", 1), ("b", "row", 1)]


@pytest.mark.usefixtures("either_format")
@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
def test_a_delta_that_is_damaged_before_its_batch_is_committed_is_written_again(
    query: Any, undisturbed: Any, backend: str
) -> None:
    """A machine that dies while it writes, on a file system that does not rename atomically."""
    damages = ["cut", "empty", "gone", "flipped", ""]
    for number, what in enumerate(damages):
        query.add(number)
        rows = query.run(lambda df: counted(df, backend=backend))
        if what:
            deltas = query.forget_last_batch()
            assert len(deltas) == 2
            for delta in deltas:
                damage(delta, what)
    assert rows == undisturbed[5]


def damage(path: Path, what: str) -> None:
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(flipped) // 2] ^= 4
    if what == "gone":
        path.unlink()
    else:
        change(path, {"cut": content[:-3], "empty": b"", "flipped": bytes(flipped)}[what])


def refused(query: Any, build: Callable[[DataFrame], DataFrame]) -> str:
    """The error; afterwards the query runs on as it was. Only the run's number may be new."""

    def contents() -> dict[Path, bytes]:
        files = [path for path in query.operator.rglob("*") if path.is_file()]
        return {path: path.read_bytes() for path in files if ".run" not in path.name}

    query.add(1)
    before = contents()
    message: str = query.fails(build)
    assert contents() == before
    return message


def test_another_operator_is_refused(query: Any) -> None:
    query.add(0)
    query.run()

    def scanned(rows: DataFrame) -> DataFrame:
        return rows.transform(
            pb.scan, by="k", state={"n": ("0L", "n + 1")}, select=["k", "'scan' what", "n"]
        )

    message = refused(query, scanned)
    assert "CHECKPOINT_MISMATCH" in message
    assert "the form row, the query now has scan" in message
    assert [row[2] for row in query.run()] == [1, 2, 1, 2]


KEYS = {"keys": StructType().add("key", "long").jsonValue()}


def note(query: Any, **changed: Any) -> None:
    path = query.operator / "_pillarbox" / "operator.json"
    change(path, json.dumps({**json.loads(path.read_text()), **changed}).encode())


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"partitions": 7}, "State in 2 partitions needs .*/2/1.delta, which is not there"),
        (
            {"version": 99},
            "CHECKPOINT_FORMAT.* has format 99, and this version of Pillarbox reads 3",
        ),
        ({"columns": KEYS}, "CHECKPOINT_MISMATCH.* keys of type BIGINT, the query now has STRING"),
    ],
)
def test_what_another_release_or_layout_wrote_is_refused(
    query: Any, changed: dict[str, Any], told: str
) -> None:
    query.add(0)
    query.run()
    note(query, **changed)
    assert re.search(told, refused(query, counted))


def test_a_delta_of_another_format_is_refused(query: Any) -> None:
    query.add(0)
    query.run()
    for delta in query.files("*.delta"):
        content = delta.read_bytes()
        change(delta, content[:8] + struct.pack(">H", 9) + content[10:])
    message = refused(query, counted)
    assert "STATE_FORMAT_UNKNOWN" in message
    assert re.search(r"/1_[0-9a-z-]+\.delta has format version 9", message), message


def test_a_copy_of_the_checkpoint_goes_on_by_itself(query: Any, undisturbed: Any) -> None:
    """Nothing in it names where it is."""
    for number in range(2):
        query.add(number)
        query.run()
    moved = query.folder / "moved"
    shutil.move(query.folder / "checkpoint", moved)
    shutil.copytree(moved, query.folder / "checkpoint")
    query.add(2)
    assert query.run() == undisturbed[3]
