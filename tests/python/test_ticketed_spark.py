"""``pb.Ticketed``: calls that are submitted, and collected hours later."""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from batch_interface import BatchInterface
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from spark_apps import SOURCES, Job, environment
from spark_support import Kept, by_value, collect_within, eventually, explained

by_value(__name__)


@pytest.fixture
def jobs(tmp_path: Path) -> BatchInterface:
    return BatchInterface(str(tmp_path / "jobs"))


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


def asked(df: DataFrame, halves: Any, journal: Any, **more: Any) -> DataFrame:
    if isinstance(halves, BatchInterface):
        halves = pb.Ticketed(halves.submit, halves.collect, poll="50ms")
    more = {"returns": "twice long", "name": "twice", "engine": "jvm", **more}
    return df.transform(pb.async_io, halves, journal=journal, **more)


def leaving(jobs: BatchInterface) -> pb.Ticketed:
    return pb.Ticketed(jobs.submit, jobs.collect, poll="50ms", on_pending="leave")


def lists(rows: int) -> pb.BatchSize:
    """Full lists, however slow the machine is: by itself a list waits as long as ``poll``."""
    return pb.BatchSize(rows, wait="1 minute")


def twice_of(rows: list[Any]) -> dict[int, int]:
    return {row.id: row.twice for row in rows}


def once(count: int) -> Counter[int]:
    return Counter(range(count))


EXPECTED = {n: 2 * n for n in range(40)}


def test_a_batch_waits_for_its_tickets_and_pays_each_row_once(
    spark: SparkSession, jobs: BatchInterface, journal: str
) -> None:
    df = asked(spark.range(0, 40, 1, 2), jobs, journal, batch_size=lists(8), capacity=2)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(collect_within(df, 60)))
    thread.start()
    eventually(lambda: min(Counter(jobs.polls).values(), default=0) >= 3, "three polls of a ticket")
    eventually(lambda: len(set(jobs.polls)) == 6, "polls of all tickets")
    jobs.finish()
    thread.join(60)
    assert found == [(n, 2 * n) for n in range(40)], "in the order of the rows"
    assert sorted(len(job["ids"]) for job in jobs.jobs) == [4, 4, 8, 8, 8, 8]
    assert jobs.submitted == once(40)
    made, polls = len(jobs.jobs), len(jobs.polls)
    assert collect_within(df, 60) == found
    assert (len(jobs.jobs), len(jobs.polls)) == (made, polls), "the journal has the answers"


def test_what_is_left_pending_is_collected_by_a_later_run(
    spark: SparkSession, jobs: BatchInterface, journal: str
) -> None:
    rows = spark.range(0, 40, 1, 2).selectExpr("id", "id % 3 as more")
    more: dict[str, Any] = {"inputs": "id", "batch_size": lists(7), "on_error": "column"}

    def run(df: DataFrame) -> DataFrame:
        return asked(df, leaving(jobs), journal, call_column="call", **more).cache()

    first = run(rows)
    errors = [row.error for row in first.collect()]
    assert {error.kind for error in errors} == {"PENDING"}
    assert all("[PENDING]" in error.message and "job " in error.message for error in errors)
    assert jobs.submitted == once(40)
    assert jobs.polls == []
    assert pb.failed(first).columns == ["id", "more"]
    second = run(pb.failed(first))
    assert pb.failed(second).count() == 40
    assert set(jobs.polls) == {f"job {n}" for n in range(len(jobs.jobs))}
    assert len(jobs.polls) == len(jobs.jobs), "rows of one ticket are collected together"
    jobs.finish()
    third = run(pb.failed(second).repartition(3, "id")).collect()
    assert twice_of(third) == EXPECTED
    assert all(row.call.attempts == 0 and not row.call.from_journal for row in third)
    assert jobs.submitted == once(40)


def test_both_halves_may_be_coroutines_with_a_resource_and_report_what_they_use(
    spark: SparkSession, jobs: BatchInterface, journal: str
) -> None:
    jobs.finish()

    @contextmanager
    def client() -> Any:
        yield jobs

    async def submit(row: Any, service: BatchInterface) -> str:
        assert pb.call_id() == pb.current_call().id
        return service.submit(row)

    async def collect(ticket: str, service: BatchInterface) -> Any:
        pb.current_call().report_usage(tokens=10)
        return service.collect(ticket)

    df = asked(
        spark.range(0, 10, 1, 1),
        pb.Ticketed(submit, collect, poll="10ms"),
        journal,
        resource=client,
        usage="tokens",
        call_column="call",
    )
    rows = df.collect()
    assert twice_of(rows) == {n: 2 * n for n in range(10)}
    assert all(row.call.usage == {"tokens": 10.0} and row.call.attempts == 1 for row in rows)
    assert jobs.submitted == once(10)
    assert len({job["key"] for job in jobs.jobs}) == 10


def test_a_failure_that_ends_the_ticket_is_submitted_anew_under_another_key(
    spark: SparkSession, jobs: BatchInterface, journal: str
) -> None:
    jobs.finish()

    def bad(ticket: str) -> Any:
        answers = jobs.collect(ticket)
        if Path(jobs.folder, "mended").exists():
            return answers
        return [ValueError(f"bad {n}") if n in (2, 6) else n for n in answers]

    def expired(ticket: str) -> Any:
        raise pb.NotRetryable("the job has expired")

    def broken(ticket: str) -> Any:
        raise KeyError("a bug of the function")

    def errors(collect: Any) -> dict[int, str]:
        halves = pb.Ticketed(jobs.submit, collect, poll="10ms")
        rows = spark.range(0, 4, 1, 1)
        out = asked(rows, halves, journal, batch_size=lists(4), on_error="column").collect()
        return {row.id: row.error.kind for row in out if row.error}

    assert errors(broken) == dict.fromkeys(range(4), "KeyError")
    assert errors(bad) == {1: "ValueError", 3: "ValueError"}
    assert jobs.submitted == once(4), "a bug of collect gives up no ticket"
    assert errors(expired) == {1: "NotRetryable", 3: "NotRetryable"}
    Path(jobs.folder, "mended").touch()
    assert errors(bad) == {}
    assert [job["ids"] for job in jobs.jobs] == [[0, 1, 2, 3], [1, 3], [1, 3]]
    assert len({job["key"] for job in jobs.jobs}) == 3


def test_a_row_whose_ticket_has_ended_is_retried_by_another_submission(
    spark: SparkSession, jobs: BatchInterface, journal: str
) -> None:
    jobs.finish()

    def collect(ticket: str) -> Any:
        return TimeoutError("of the job") if ticket == "job 0" else jobs.collect(ticket)

    retry = pb.Retry(2, backoff="1ms")
    halves = pb.Ticketed(jobs.submit, collect, poll="10ms")
    row = asked(spark.range(7, 8), halves, journal, retry=retry, call_column="call").first()
    assert (row.twice, row.call.attempts) == (14, 3), "two submissions, and one failed answer"
    assert [job["ids"] for job in jobs.jobs] == [7, 7]
    assert len({job["key"] for job in jobs.jobs}) == 2


def test_a_ticket_and_its_answers_are_checked(
    spark: SparkSession, jobs: BatchInterface, journal: str
) -> None:
    jobs.finish()

    def message(submit: Any, collect: Any, **more: Any) -> str:
        halves = pb.Ticketed(submit, collect, poll="10ms")
        df = asked(spark.range(0, 2, 1, 1), halves, journal, **more)
        with pytest.raises(Exception, match=r"\[") as caught:
            df.collect()
        failure = pb.failure_of(caught.value)
        assert failure is not None
        return str(failure.condition)

    assert message(lambda row: 7, jobs.collect) == "NO_TICKET"
    assert message(lambda row: "", jobs.collect) == "NO_TICKET"
    short = message(jobs.submit, lambda ticket: [1], batch_size=lists(2))
    assert short == "RESULT_SHAPE_MISMATCH"


def test_what_has_no_answer_to_wait_for_is_refused(
    spark: SparkSession, jobs: BatchInterface, journal: str
) -> None:
    rows, halves = spark.range(2), pb.Ticketed(jobs.submit, jobs.collect)
    more: dict[str, Any] = {"returns": "x long", "journal": journal, "name": "x"}
    for refused in (
        lambda: pb.estimate(rows, halves, **more),
        lambda: pb.process_keyed_async(rows, halves, by="id", returns="x long"),  # type: ignore[arg-type]
        lambda: pb.async_io(rows, halves, engine="python", **more),
        lambda: pb.async_io(spark.readStream.format("rate").load(), halves, **more),
    ):
        with pytest.raises(pb.PillarboxError, match="Ticketed"):
            refused()
    assert jobs.jobs == []


def test_tickets_are_in_the_journal_and_can_be_read_and_purged(
    spark: SparkSession, jobs: BatchInterface, journal: str
) -> None:
    rows = spark.range(0, 4, 1, 1)
    more = {"batch_size": lists(2), "on_error": "column", "capacity": 1}  # one job after the other
    asked(rows, leaving(jobs), journal, **more).collect()
    kept = pb.read_journal(spark, journal, name="twice tickets").orderBy("key.id").collect()
    assert [(row.key.id, row.answer.ticket, row.answer.place, row.answer.of) for row in kept] == [
        (0, "job 0", 0, 2),
        (1, "job 0", 1, 2),
        (2, "job 1", 0, 2),
        (3, "job 1", 1, 2),
    ]
    assert pb.purge_journal(spark, journal, name="twice tickets", where="key.id = 1") == 1
    jobs.finish()
    assert twice_of(asked(rows, jobs, journal, batch_size=lists(2)).collect()) == {
        0: 0,
        1: 2,
        2: 4,
        3: 6,
    }
    assert [job["ids"] for job in jobs.jobs] == [[0, 1], [2, 3], [1]]
    assert pb.read_journal(spark, journal, name="twice").count() == 4


@pytest.mark.classic
def test_the_plan_and_the_metrics_tell_of_tickets(
    spark: SparkSession, jobs: BatchInterface, journal: str
) -> None:
    jobs.finish()
    df = asked(spark.range(0, 6, 1, 1), jobs, journal, batch_size=lists(3))
    df.collect()
    assert " poll=50ms)" in explained(df)
    plan = df._jdf.queryExecution().executedPlan()
    while "AsyncIO" not in plan.nodeName():
        plan = plan.children().apply(0)
    assert plan.metrics().apply("calls").value() == 2
    assert plan.metrics().apply("polls").value() == 2


def waiting_job(folder, count, spark=None):  # type: ignore[no-untyped-def]
    """A batch job over a service with a batch interface, without a session in one of its own."""
    if spark is None:
        conf = {"spark.master": "local[2]"}
        spark = pb.configure(build(conf)).getOrCreate()  # type: ignore[name-defined] # noqa: F821
    from batch_interface import BatchInterface

    jobs = BatchInterface(f"{folder}/jobs")
    df = spark.range(0, count, 1, 2).transform(
        pb.async_io,
        pb.Ticketed(jobs.submit, jobs.collect, poll="100ms"),
        returns="twice long",
        name="twice",
        journal=f"{folder}/journal",
        batch_size=pb.BatchSize(10, wait="1 minute"),
        capacity=2,
        engine="jvm",
    )
    return [[row.id, row.twice] for row in df.collect()]


def killed_driver(folder: Path, count: int, jobs: BatchInterface, submitted: int) -> None:
    """Runs the job until so many lists are submitted, and kills it."""
    env = environment(os.pathsep.join((SOURCES, str(Path(__file__).parent))))
    with Job(waiting_job, env, str(folder), count) as job:
        job.waits(lambda: len(jobs.jobs) >= submitted, f"{submitted} submissions")
        job.waits(lambda: len(jobs.polls) > 0, "a poll")


@pytest.mark.nightly
@pytest.mark.classic
def test_a_driver_that_is_killed_between_the_halves_submits_nothing_twice(
    spark: SparkSession, jobs: BatchInterface, tmp_path: Path
) -> None:
    count = 100
    killed_driver(tmp_path, count, jobs, submitted=10)
    before = jobs.jobs
    kept = pb.read_journal(spark, str(tmp_path / "journal"), name="twice tickets").collect()
    known = {row.key.id for row in kept}
    assert len(before) == 10
    assert len(known) >= 80, "at most what two tasks were just told is not kept"
    jobs.finish()
    undisturbed = [[n, 2 * n] for n in range(count)]
    assert waiting_job(str(tmp_path), count, spark) == undisturbed
    assert all(jobs.submitted[n] == 1 for n in known)
    again = jobs.jobs[len(before) :]
    assert {job["key"] for job in again} <= {job["key"] for job in before}, "known by its key"


@pytest.mark.nightly
@pytest.mark.classic
@pytest.mark.parametrize("submitted", [1, 3, 6])
def test_a_driver_that_is_killed_while_it_submits_submits_nothing_twice(
    spark: SparkSession, jobs: BatchInterface, tmp_path: Path, submitted: int
) -> None:
    count = 200
    for more in range(2):
        killed_driver(tmp_path, count, jobs, submitted=submitted * (more + 1))
    kept = pb.read_journal(spark, str(tmp_path / "journal"), name="twice tickets").collect()
    before = jobs.jobs
    jobs.finish()
    assert waiting_job(str(tmp_path), count, spark) == [[n, 2 * n] for n in range(count)]
    again = jobs.jobs[len(before) :]
    known = {row.key.id for row in kept}
    assert not known & {n for job in again for n in job["ids"]}


def stream(
    spark: SparkSession, jobs: BatchInterface, folder: Path, halves: Any, **more: Any
) -> Any:
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    df = asked(rows.parquet(str(folder / "input")), halves, True, batch_size=lists(5), **more)
    return (
        df.writeStream.foreachBatch(Kept(str(folder / "kept")))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def add_rows(spark: SparkSession, folder: Path, first: int, last: int) -> None:
    spark.range(first, last, 1, 1).write.mode("append").parquet(str(folder / "input"))


def test_a_stream_carries_what_is_pending_over_restarts(
    spark: SparkSession, jobs: BatchInterface, tmp_path: Path
) -> None:
    halves = pb.Ticketed(jobs.submit, jobs.collect, poll="50ms")
    carried = {"carry_over": pb.CarryOver(max_lag="25 hours", slots=2)}
    kept = Kept(str(tmp_path / "kept"))
    add_rows(spark, tmp_path, 0, 20)
    query = stream(spark, jobs, tmp_path, halves, **carried)
    try:
        eventually(lambda: jobs.submitted == once(20), "the submissions")
        add_rows(spark, tmp_path, 20, 30)
        eventually(lambda: jobs.submitted == once(30), "those of the next micro-batch")
        eventually(lambda: len(set(jobs.polls)) == 6, "a poll of each ticket, so that all are kept")
    finally:
        query.stop()
    assert kept.rows() == []
    query = stream(spark, jobs, tmp_path, halves, **carried)
    try:
        before = len(jobs.polls)
        eventually(lambda: len(jobs.polls) > before, "a poll after the restart")
        assert jobs.submitted == once(30)
        jobs.finish()
        eventually(lambda: len(kept.rows()) == 30, "the answers")
    finally:
        query.stop()
    assert dict(kept.rows()) == {n: 2 * n for n in range(30)}
    assert jobs.submitted == once(30)


def test_a_stream_leaves_what_is_pending_to_a_batch(
    spark: SparkSession, jobs: BatchInterface, tmp_path: Path
) -> None:
    kept = Kept(str(tmp_path / "kept"))
    add_rows(spark, tmp_path, 0, 10)
    query = stream(spark, jobs, tmp_path, leaving(jobs), on_error="column")
    try:
        eventually(lambda: len(kept.rows()) == 10, "the rows")
    finally:
        query.stop()
    assert {error.kind for _, _, error in kept.rows()} == {"PENDING"}
    jobs.finish()
    journal = str(tmp_path / "checkpoint" / "pillarbox-journal")
    rows = asked(spark.range(0, 10, 1, 1), jobs, journal, batch_size=lists(5)).collect()
    assert twice_of(rows) == {n: 2 * n for n in range(10)}
    assert jobs.submitted == once(10)
