"""A query that is started again with another number of partitions goes on with its state."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.chaos import SOURCES
from keyed.java_functions import add_counting
from keyed.streams import settings
from keyed.test_checkpoints_spark import RETURNS, Counts, Query, counted
from keyed.test_checkpoints_spark import SETTINGS as OF_CHECKPOINTS
from spark_support import eventually
from stored_queries import FORMAT, SETTINGS, STEPS, Case, outcome, run_step

PARTITIONS = "spark.sql.shuffle.partitions"
# Of the runs of a query: more, fewer, a multiple, and back.
NUMBERS = (2, 5, 3, 6)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    with settings(spark, **SETTINGS, **{"spark.sql.session.timeZone": "UTC", FORMAT: "1"}):
        yield spark


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, list[str]]]:
    """What a query gives and holds in the end that always had two partitions."""

    @cache
    def ran(what: str) -> dict[str, list[str]]:
        folder, case = tmp_path_factory.mktemp(what), Case(what, "heap", "1")
        with settings(spark, **SETTINGS, **{"spark.sql.session.timeZone": "UTC", FORMAT: "1"}):
            for step in range(STEPS):
                run_step(spark, folder, case, step, step == STEPS - 1)
            return outcome(spark, folder, case)

    return ran


def whole(*values: Any) -> Any:
    return pytest.param(Case(*values), marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    "case",
    [
        Case("keyed", "rocksdb", "2"),
        Case("keyed", "heap", "1"),
        Case("scan", "heap", "2"),
        whole("keyed", "rocksdb", "1"),
        whole("keyed", "heap", "2"),
        whole("scan", "rocksdb", "1"),
        whole("jvm", "rocksdb", "2"),
        whole("jvm", "heap", "1"),
    ],
    ids=str,
)
def test_rows_and_state_are_those_of_one_number(
    case: Case, session: SparkSession, undisturbed: Any, tmp_path: Path
) -> None:
    if case.what == "jvm":
        add_counting(session, tmp_path)
    for step, number in enumerate(NUMBERS):
        session.conf.set(PARTITIONS, str(number))
        run_step(session, tmp_path, case, step, step == STEPS - 1)
    assert outcome(session, tmp_path, case) == undisturbed(case.what)
    assert note_of(tmp_path / "checkpoint" / "state" / "0")["partitions"] == NUMBERS[-1]


def test_calls_in_flight_stay_in_their_slots(
    session: SparkSession, undisturbed: Any, tmp_path: Path
) -> None:
    """Their number is that of `slots`, whatever the shuffles have."""
    case = Case("carry", "", "1")
    for step, number in enumerate(NUMBERS):
        session.conf.set(PARTITIONS, str(number))
        run_step(session, tmp_path, case, step, step == STEPS - 1)
    assert outcome(session, tmp_path, case) == undisturbed(case.what)


def note_of(operator: Path) -> dict[str, Any]:
    return json.loads((operator / "_pillarbox" / "operator.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture(params=["1", pytest.param("2", marks=pytest.mark.nightly)])
def query(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    with settings(spark, **OF_CHECKPOINTS, **{FORMAT: request.param, PARTITIONS: "2"}):
        yield Query(spark, tmp_path)


def run(query: Query, number: int, file: int | None = None, keys: str = "abcdefgh") -> list[Any]:
    """Processes one more file, if any, with so many partitions."""
    if file is not None:
        query.add(file, keys)
    query.spark.conf.set(PARTITIONS, str(number))
    return query.run()


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Any]]:
    """What so many files give, up to eight."""
    found = {}
    query = Query(spark, tmp_path_factory.mktemp("expected"))
    for number in range(8):
        found[number + 1] = run(query, 2, number)
    return found


def test_a_restart_is_checked_where_micro_batches_without_data_are_disabled(
    query: Query, expected: Any
) -> None:
    """Nothing is asked before its first micro-batch, which makes all checks."""
    with settings(query.spark, **{"spark.sql.streaming.noDataMicroBatches.enabled": "false"}):
        for number, partitions in enumerate((4, 2, 3)):
            rows = run(query, partitions, number)
            assert note_of(query.operator)["partitions"] == partitions
    assert [row for row in rows if row[1] == "row"] == [
        row for row in expected[3] if row[1] == "row"
    ]


# By day in test_exactly_once, whose second driver has other partitions.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("second", "third"),
    [(4, 3), (3, 6), (1, 4), (4, 8)],
)
def test_a_driver_that_is_killed_in_the_micro_batch_of_the_change_changes_nothing(
    query: Query, expected: Any, second: int, third: int
) -> None:
    """Some of its tasks have committed, and one is in the middle of its rows."""
    run(query, 2, 0)
    run(query, 2, 1)
    query.add(2, "abcdefgh")
    before = query.files("*.delta")
    app = waiting_app(query, second)
    try:
        waits = query.folder / "waits"

        def is_in_the_middle() -> bool:
            committed = second == 1 or len(query.files("*.delta")) > len(before)
            return app.poll() is not None or (waits.exists() and committed)

        eventually(is_in_the_middle, "a task has committed and another one waits", 120)
        assert app.poll() is None, (query.folder / "log").read_text()[-4000:]
    finally:
        os.killpg(app.pid, signal.SIGKILL)
        app.wait()
    assert note_of(query.operator)["partitions"] == second
    assert run(query, third) == expected[3]
    assert run(query, third, 3) == expected[4]
    checkpoint = str(query.folder / "checkpoint")
    keys = "abcdefgh"
    counts = [(k, 4) for k in keys]
    seen = [(k, number * 10 + i) for i, k in enumerate(keys) for number in range(4)]
    for name, rows in {"count": counts, "seen": seen}.items():
        state = pb.read_state(query.spark, checkpoint, 0, name).select("key.k", "value")
        assert sorted(map(tuple, state.collect())) == sorted(rows)


def waiting_app(query: Query, partitions: int) -> Any:
    """Starts the query in a driver of its own."""
    chosen = {**OF_CHECKPOINTS, PARTITIONS: str(partitions), FORMAT: query.spark.conf.get(FORMAT)}
    script = Path(__file__).with_name("partitions_app.py")
    paths = os.pathsep.join([SOURCES, str(script.parents[1])])
    with open(query.folder / "log", "w") as log:
        return subprocess.Popen(
            [sys.executable, str(script), str(query.folder), json.dumps(chosen)],
            stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable},
        )  # fmt: skip


@pytest.mark.parametrize("third", [3, 2, 7])
def test_a_run_that_dies_in_the_micro_batch_of_the_change_is_followed_by_any_number(
    query: Query, expected: Any, third: int
) -> None:
    run(query, 2, 0)
    run(query, 2, 1)
    run(query, 3, 2)
    assert query.forget_last_batch()
    assert run(query, third) == expected[3]
    assert run(query, 4, 3) == expected[4]


def test_a_run_that_died_in_the_change_still_reads_the_files_that_it_began_with(
    query: Query, expected: Any
) -> None:
    """Its note says which: another attempt's file of that version does not count."""
    run(query, 2, 0)
    run(query, 3, 1)
    for delta in query.forget_last_batch():
        delta.unlink()
    bases = note_of(query.operator)["bases"]
    for first in list((query.operator / "0").glob("1_*.delta")):
        name = "1_r9999t9-0f0f.delta" if "_r" in first.name else "1_0f0f.delta"
        first.with_name(name).write_bytes(b"of an attempt that nobody waited for")
    assert run(query, 5) == expected[2]
    assert note_of(query.operator)["bases"] == bases


def test_a_query_is_taken_back_behind_the_change(query: Query, expected: Any) -> None:
    run(query, 2, 0)
    run(query, 2, 1)
    run(query, 4, 2)
    run(query, 4, 3)
    for log in ("offsets", "commits"):
        for number in (2, 3):
            (query.folder / "checkpoint" / log / str(number)).unlink()
            (query.folder / "checkpoint" / log / f".{number}.crc").unlink(missing_ok=True)
    assert run(query, 2) == expected[4]
    assert run(query, 3, 4) == expected[5]


# By day in PartitionsSuite.
@pytest.mark.nightly
@pytest.mark.parametrize("second", [1, 4])
def test_files_of_earlier_partitions_go_once_no_version_needs_them(
    query: Query, expected: Any, second: int
) -> None:
    with settings(query.spark, **{"spark.sql.streaming.minBatchesToRetain": "2"}):
        for number in range(8):
            rows = run(query, 2 if number < 2 else second, number)
    assert rows == expected[8]
    left = {int(path.parent.name) for path in query.files("*_*.*")}
    assert left == set(range(second))
    since = note_of(query.operator)["since"]
    assert min(int(path.name.split("_")[0]) for path in query.files("*_*.*")) > since > 0
    checkpoint = str(query.folder / "checkpoint")
    counts = pb.read_state(query.spark, checkpoint, 0, "count").select("key.k", "value").collect()
    assert sorted(map(tuple, counts)) == [(k, 8) for k in "abcdefgh"]


def versions_of(query: Query, second: int) -> list[set[int]]:
    """The counts in each micro-batch, from the second run on in other partitions."""
    for number in range(5):
        run(query, 2 if number == 0 else second, number)
    checkpoint, counts = str(query.folder / "checkpoint"), []
    for batch in range(len(list((query.folder / "checkpoint" / "offsets").glob("[0-9]*")))):
        state = pb.read_state(query.spark, checkpoint, 0, "count", batch_id=batch).collect()
        assert len(state) == 8
        counts.append({row.value for row in state})
    return counts


@pytest.mark.parametrize("second", [3, 4, 1])
def test_state_of_before_the_change_can_be_read(query: Query, second: int) -> None:
    """Also once the partitions have snapshots of their own."""
    found = versions_of(query, second)
    # Some micro-batches have only timers.
    assert all(len(counts) == 1 for counts in found)
    numbers = [n for counts in found for n in counts]
    assert numbers == sorted(numbers)
    assert set(numbers) == {1, 2, 3, 4, 5}


def test_the_number_of_the_operator_goes_before_that_of_the_session(
    query: Query, expected: Any
) -> None:
    def of(number: int) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: counted(rows, partitions=number)

    query.add(0, "abcdefgh")
    query.run(of(3))
    assert note_of(query.operator)["partitions"] == 3
    query.add(1, "abcdefgh")
    assert query.run(of(4)) == expected[2]
    assert note_of(query.operator)["partitions"] == 4


def test_a_number_that_nobody_has_set_moves_nothing(query: Query, expected: Any) -> None:
    run(query, 3, 0)
    query.add(1, "abcdefgh")
    query.spark.conf.unset(PARTITIONS)
    try:
        assert query.run() == expected[2]
    finally:
        query.spark.conf.set(PARTITIONS, "2")
    assert note_of(query.operator)["partitions"] == 3


def beside_spark(rows: DataFrame) -> DataFrame:
    once = rows.withWatermark("ts", "0 seconds").dropDuplicatesWithinWatermark(["seq"])
    return once.transform(pb.process_keyed, Counts(), by="k", returns=RETURNS, order_by="seq")


def test_beside_operators_of_spark_another_number_is_refused(query: Query) -> None:
    query.add(0)
    first = query.run(beside_spark)
    query.add(1)
    query.spark.conf.set(PARTITIONS, "3")
    message = query.fails(beside_spark)
    assert "PARTITIONS_FIXED" in message
    assert "in 2 partitions and spark.sql.shuffle.partitions asks for 3" in message
    query.spark.conf.set(PARTITIONS, "2")
    assert len(query.run(beside_spark)) > len(first)


def beside_a_table(rows: DataFrame) -> DataFrame:
    """Joins a table, which keeps no state."""
    known = rows.sparkSession.createDataFrame([(k,) for k in "abcdefgh"], "k string")
    return counted(rows.join(known, "k"))


def test_beside_a_join_with_a_table_the_number_changes(query: Query) -> None:
    query.add(0)
    first = query.run(beside_a_table)
    query.add(1)
    query.spark.conf.set(PARTITIONS, "3")
    assert len(query.run(beside_a_table)) > len(first)
    assert note_of(query.operator)["partitions"] == 3


def test_timers_that_are_due_wake_a_query_with_other_partitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Before a micro-batch runs, they are in the old partitions."""

    class Rings(pb.KeyedProcessFunction):
        def process(self, row: Any, ctx: Any) -> None:
            ctx.timers.register_processing_time(ctx.processing_time + 1)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.key, "rang", 1

    def rings(rows: DataFrame) -> DataFrame:
        returns = "k string, what string, n bigint"
        return rows.transform(pb.process_keyed, Rings(), by="k", returns=returns)

    with settings(spark, **OF_CHECKPOINTS, **{PARTITIONS: "2"}):
        query = Query(spark, tmp_path)
        query.add(0, "abcdefgh")
        before = run_first_batch(query, rings)
        spark.conf.set(PARTITIONS, "3")
        rows = query.run(rings)
    assert before == []
    assert [row[0] for row in rows] == list("abcdefgh")


def run_first_batch(query: Query, build: Callable[[DataFrame], DataFrame]) -> list[Any]:
    """Only the batch with the rows: the timers that it sets are left to the next run."""
    rows = query.spark.readStream.schema("seq bigint, k string, ts timestamp")
    out: list[Any] = []
    started = (
        build(rows.json(str(query.folder / "in")))
        .writeStream.option("checkpointLocation", str(query.folder / "checkpoint"))
        .foreachBatch(lambda batch, number: out.extend(batch.collect()))
        .trigger(once=True)
        .start()
    )
    assert started.awaitTermination(120)
    return out
