"""What the tests on Spark share: a log that calls write to, and looks at threads and workers."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext, cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession

import pillarbox as pb
from pillarbox._base.spark_versions import installed

LIMIT_S = 30.0

# Of checkpoints: Spark's other manager starts a process for every rename of a local file.
FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming."
    + ("" if installed() == "4.0" else "checkpointing.")
    + "FileSystemBasedCheckpointFileManager"
)


def by_value(module: str) -> None:
    """Lets functions of a test module travel to workers, which can't import it."""
    cloudpickle.register_pickle_by_value(sys.modules[module])


by_value(__name__)


def process_of(function: object) -> Callable[..., DataFrame]:
    """The keyed operator that takes functions of this form."""
    if isinstance(function, pb.AsyncKeyedProcessFunction):
        return pb.process_keyed_async
    is_arrow = isinstance(function, pb.ArrowKeyedProcessFunction)
    return pb.process_keyed_arrow if is_arrow else pb.process_keyed


@dataclass(frozen=True)
class CallLog:
    """A file to which calls in any worker write when they start and end, in one total order."""

    path: str

    def write(self, event: str, **fields: Any) -> None:
        record = {"event": event, "pid": os.getpid(), "at": time.monotonic(), **fields}
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (json.dumps(record) + "\n").encode())
        finally:
            os.close(file)

    @asynccontextmanager
    async def call(self, key: Any) -> AsyncIterator[None]:
        """Around a call: logs its start, and whether it ended or was cancelled."""
        self.write("start", key=key, call_id=pb.call_id())
        try:
            yield
        except asyncio.CancelledError:
            self.write("cancelled", key=key)
            raise
        self.write("end", key=key)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        if not os.path.exists(self.path):
            return []
        text = Path(self.path).read_text()
        # The last line may still be on its way.
        lines = text[: text.rfind("\n") + 1].splitlines()
        records = [json.loads(line) for line in lines]
        return [record for record in records if not kinds or record["event"] in kinds]

    def starts(self) -> list[float]:
        """Return the times at which calls have begun."""
        return sorted(record["at"] for record in self.events("start"))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """As ``resource``: logs that a task is open. No call of it gets a permit before."""
        self.write("opened")
        yield

    def since_open(self, key: Any = None) -> list[float]:
        """Return when calls have begun, or those of a key, in seconds after the first "opened".

        A busy machine makes calls late and never early, so limits on these are lower ones.
        """
        opened = self.events("opened")[0]["at"]
        starts = [r["at"] for r in self.events("start") if key is None or r["key"] == key]
        return sorted(at - opened for at in starts)

    def in_flight(self) -> int:
        return len(self.events("start")) - len(self.events("end", "cancelled"))

    def most_in_flight(self) -> int:
        now = most = 0
        for record in self.events("start", "end", "cancelled"):
            now += 1 if record["event"] == "start" else -1
            most = max(most, now)
        return most

    def pids(self) -> set[int]:
        return {record["pid"] for record in self.events()}


def using(log: CallLog, amount: int) -> Callable[[Any], Any]:
    """Return a function that answers with the row's id, and reports so many tokens."""

    async def call(row: Any, resource: None = None) -> int:
        async with log.call(row.id):
            await asyncio.sleep(0.01)
            pb.current_call().report_usage(tokens=amount)
        return int(row.id)

    return call


@dataclass(frozen=True)
class Kept:
    """Keeps what each micro-batch puts out, for ``foreachBatch``. In files: on Spark Connect the
    function runs in a process of the server's."""

    folder: str
    #: What is done with a micro-batch of some number; gives rows.
    look: Callable[[DataFrame, int], Any] = lambda batch, number: batch.collect()

    def __call__(self, batch: DataFrame, number: int) -> None:
        rows = [tuple(row) for row in self.look(batch, number)]
        Path(self.folder).mkdir(exist_ok=True)
        unfinished = Path(self.folder, f".{number}")
        unfinished.write_bytes(cloudpickle.dumps(rows))
        unfinished.rename(Path(self.folder, str(number)))

    def batches(self) -> dict[int, list[Any]]:
        """By their numbers, in order."""
        files = Path(self.folder).glob("[0-9]*")
        numbers = sorted(int(file.name) for file in files)
        return {n: cloudpickle.loads(Path(self.folder, str(n)).read_bytes()) for n in numbers}

    def rows(self) -> list[Any]:
        return [row for rows in self.batches().values() for row in rows]


def run_stream(df: DataFrame, folder: object, sink: Any = "noop", mode: str = "append") -> Any:
    """The query that has processed all that is there, from the folder's checkpoint on.

    ``sink`` is a format, whose files are in ``out`` of the folder, or is for ``foreachBatch``.
    """
    writer = df.writeStream.outputMode(mode).option("checkpointLocation", f"{folder}/checkpoint")
    if callable(sink):
        writer = writer.foreachBatch(sink)
    else:
        writer = writer.format(sink).option("path", f"{folder}/out")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    return query


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect; its server is in this process."""
    return not hasattr(spark, "_jsparkSession")


def created(spark: SparkSession, rows: Any, schema: Any) -> DataFrame:
    """A DataFrame whose values nobody checks beforehand (Spark Connect never does)."""
    unchecked = {} if is_connect(spark) else {"verifySchema": False}
    return spark.createDataFrame(rows, schema, **unchecked)


def context_of_tests() -> Any:
    """The SparkContext of this process."""
    return SparkContext._active_spark_context


def explained(df: DataFrame) -> str:
    """The physical plan."""
    text = io.StringIO()
    with redirect_stdout(text):
        df.explain()
    return text.getvalue()


def add_jar(spark: SparkSession, jar: Path) -> None:
    """To the executors of the session."""
    if is_connect(spark):
        spark.addArtifacts(str(jar))
    else:
        context_of_tests()._jsc.addJar(str(jar))


@dataclass(frozen=True)
class Latch:
    """Holds calls in workers until the test opens it."""

    path: str

    def open(self) -> None:
        Path(self.path).touch()

    async def wait(self) -> None:
        while not os.path.exists(self.path):
            await asyncio.sleep(0.005)


def as_dict(row: Any) -> dict[str, Any]:
    """Of a row as `observedMetrics` has it, in which Spark Connect gives values and schema."""
    if "schema" not in row:
        return dict(row.asDict())
    return dict(zip((field["name"] for field in row.schema["fields"]), row["values"], strict=True))


def eventually(condition: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Waits for a condition; fails with ``what`` was waited for if it does not come true."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {limit_s} s for: {what}"
        time.sleep(0.02)


# The thread that looks after keyed state is one a process, and stays; those that create files of
# checkpoints stay for a minute.
_KEPT = ("pillarbox state maintenance", "pillarbox checkpoint")
# On Spark 4.0 and 4.1 it asks whether tasks were killed, and ends a second after the last one.
KILL_WATCH = "pillarbox kill watch"


def channel_threads(spark: SparkSession) -> list[str]:
    """Our threads in the JVM that belong to a task (the one timer of the JVM is for ever)."""
    jvm: Any = context_of_tests()._jvm
    names = jvm.io.pillarbox.files.ThreadNames.lines().splitlines()
    return [name for name in names if name.startswith("pillarbox ") and name not in _KEPT]


def threads_are_gone(spark: SparkSession, but: str = "") -> None:
    def left() -> list[str]:
        return [name for name in channel_threads(spark) if name != but]

    eventually(lambda: not left(), f"the end of {left()}")


@contextmanager
def own_pool(spark: SparkSession) -> Iterator[None]:
    """Operators that are made inside get workers of their own: Spark keeps a pool an environment.

    Otherwise Spark hands out any idle worker, those of earlier tests in turn.
    """
    if is_connect(spark):
        pytest.skip("the environment of a Spark Connect session is that of its server")
    environment: dict[str, str] = spark.sparkContext.environment
    environment["PILLARBOX_TEST_POOL"] = str(time.monotonic())
    try:
        yield
    finally:
        del environment["PILLARBOX_TEST_POOL"]


def is_running(pid: int) -> bool:
    """Whether the process is there and not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def collect_within(df: DataFrame, limit_s: float) -> list[Row]:
    """The rows of ``df``. Fails, and cancels the job, if that takes longer."""
    results: list[list[Row]] = []
    problems: list[BaseException] = []
    group = f"within-{time.monotonic()}"

    def run() -> None:
        df.sparkSession.addTag(group)
        try:
            results.append(df.collect())
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        df.sparkSession.interruptTag(group)
        thread.join(LIMIT_S)
        raise AssertionError(f"the rows did not come within {limit_s} s")
    if problems:
        raise problems[0]
    return results[0]
