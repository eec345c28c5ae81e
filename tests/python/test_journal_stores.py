"""Journals on S3 and on HDFS: what is killed or fails, and what is called for again afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from batch_interface import BatchInterface

import pillarbox as pb
from local_cluster import cluster_environment, executor_logs
from spark_apps import SOURCES, Job, environment, note, parent_of
from spark_support import eventually, is_running
from stores import S3, Hdfs, missing, running

pytestmark = [pytest.mark.stores, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


# The applications below are sent as text; this name is their own.
build: Any = None


def asks(conf: dict, journal: str, folder: str, first: int, end: int, purged: int = 0):  # type: ignore[no-untyped-def,type-arg]
    """Asks for the numbers, and again once those below ``purged`` are purged. Notes calls in files
    of ``folder``; where there is a file ``together``, the first call waits for two applications."""
    spark = pb.configure(build(conf)).getOrCreate()

    async def slow(row):  # type: ignore[no-untyped-def]
        ids = f"{row.id} {os.getppid()} {os.getpid()}"
        note(f"{folder}/started", ids)
        open(f"{folder}/asks {first}", "w").close()
        while os.path.exists(f"{folder}/together") and len(os.listdir(folder)) < 4:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.03)
        note(f"{folder}/ended", ids)
        return row.id * 2

    def kept():  # type: ignore[no-untyped-def]
        try:
            rows = pb.read_journal(spark, journal, name="slow").select("key.id").collect()
        except pb.PillarboxError as problem:
            if problem.condition in ("NO_JOURNAL", "NO_JOURNAL_OPERATOR"):
                return []
            raise
        return sorted(row.id for row in rows)

    def total():  # type: ignore[no-untyped-def]
        df = spark.range(first, end, 1, 24).transform(
            pb.async_io,
            slow,
            returns="twice long",
            name="slow",
            journal=journal,
            capacity=10,
            engine="jvm",
        )
        return df.groupBy().sum("twice").collect()[0][0]

    found = {"kept": kept(), "total": total()}
    if purged:
        found["purged"] = pb.purge_journal(spark, journal, name="slow", where=f"key.id < {purged}")
        found["left"] = kept()
        open(f"{folder}/ended", "w").close()
        found["again"] = total()
    return found


def noted(folder: Path, event: str) -> list[list[int]]:
    file = folder / event
    lines = file.read_text().splitlines() if file.exists() else []
    return [[int(part) for part in line.split()] for line in lines]


def asked(folder: Path) -> Counter[int]:
    return Counter(number for number, *_ in noted(folder, "started"))


def workers_are_gone(folder: Path) -> None:
    """A worker ends by itself when its executor has died, and notes calls until then."""
    workers = {worker for *_, worker in noted(folder, "started")}
    eventually(lambda: not any(map(is_running, workers)), f"the end of {workers}", limit_s=60)


def folders(tmp_path: Path, *names: str) -> list[Path]:
    for name in names:
        (tmp_path / name).mkdir()
    return [tmp_path / name for name in names]


def written(store: Any, folder: Path) -> int:
    """How much is kept, in the store's own measure: of S3 files that were closed."""
    return store.requests().get("PUT", 0) if isinstance(store, S3) else len(asked(folder)) // 500


def test_what_was_kept_is_not_asked_for_again_after_kills_of_executors_and_drivers(
    store: Any, tmp_path: Path
) -> None:
    count = 8000
    first, second = folders(tmp_path, "first", "second")
    env = cluster_environment(tmp_path)
    conf = {**store.conf, "spark.task.maxFailures": "100"}
    journal = f"{store.url}/killed"
    job = Job(asks, env, conf, journal, str(first), 0, count)
    try:
        before = written(store, first)
        # Each executor tries with an empty file whether it can write at all.
        job.waits(lambda: written(store, first) >= before + 3, "answers are kept")
        os.kill(parent_of(noted(first, "started")[-1][1]), signal.SIGKILL)
        before = written(store, first)
        job.waits(lambda: written(store, first) >= before + 2, "more are kept")
    finally:
        job.kill()
    workers_are_gone(first)
    found = Job(asks, env, conf, journal, str(second), 0, count).answer(
        lambda: executor_logs(tmp_path)
    )
    assert found["total"] == count * (count - 1)
    kept = set(found["kept"])
    ended = {number for number, *_ in noted(first, "ended")}
    assert kept
    assert kept <= ended
    assert asked(second) == Counter(set(range(count)) - kept)
    if isinstance(store, Hdfs):
        assert len(ended - kept) <= 2 * 2 * 10, "an answer is kept before its row leaves"


def test_two_jobs_that_write_at_once_and_a_purge(store: Any, tmp_path: Path) -> None:
    both, third = folders(tmp_path, "both", "third")
    (both / "together").touch()
    env = environment(SOURCES)
    conf = {**store.conf, "spark.master": "local[2]"}
    journal = f"{store.url}/together"
    spans = [(0, 1500), (1000, 2500)]
    jobs = [Job(asks, env, conf, journal, str(both), *span) for span in spans]
    for job, (start, end) in zip(jobs, spans, strict=True):
        assert job.answer()["total"] == sum(2 * n for n in range(start, end))
    found = Job(asks, env, conf, journal, str(third), 0, 2500, 100).answer()
    assert set(found["kept"]) == set(range(2500))
    assert Counter(found["kept"]) == asked(both), "what both have asked is there twice"
    assert found["total"] == found["again"] == 2500 * 2499
    assert found["purged"] == 100
    assert Counter(found["left"]) == Counter(n for n in found["kept"] if n >= 100)
    assert asked(third) == Counter(range(100)), "what was purged, once"


def test_requests_that_fail_lose_no_answer(tmp_path: Path) -> None:
    """Each is told by S3A at once: half of those that failed were done."""
    count = 6000
    first, second = folders(tmp_path, "first", "second")
    env = environment(SOURCES)
    with running(S3, tmp_path / "s3") as store:
        journal = f"{store.url}/faults"
        # A task may fail as often as it likes.
        conf = {**store.conf, "spark.master": "local[2,1000]"}
        at_once = ("attempts.maximum", "retry.limit", "retry.throttle.limit")
        faulty = {f"spark.hadoop.fs.s3a.{name}": "0" for name in at_once}
        faulty["spark.hadoop.fs.s3a.attempts.maximum"] = "1"
        job = Job(asks, env, conf | faulty, journal, str(first), 0, count)
        try:
            job.waits(lambda: asked(first), "its first calls")
            store.fail(10)
            job.waits(lambda: store.failed() > 3, "failed requests")
            job.waits(lambda: len(asked(first)) > count // 2, "its calls")
        finally:
            job.kill()
        workers_are_gone(first)
        store.fail(0)
        found = Job(asks, env, conf, journal, str(second), 0, count).answer()
    assert found["total"] == count * (count - 1)
    assert found["kept"]
    assert asked(second) == Counter(set(range(count)) - set(found["kept"]))


def test_a_journal_whose_writer_was_killed_is_read_after_its_data_node_was_started_anew(
    tmp_path: Path,
) -> None:
    count = 3000
    first, second = folders(tmp_path, "first", "second")
    env = environment(SOURCES)
    with running(Hdfs, tmp_path / "hdfs") as store:
        conf = {**store.conf, "spark.master": "local[2]"}
        journal = f"{store.url}/restarted"
        job = Job(asks, env, conf, journal, str(first), 0, count)
        try:
            job.waits(lambda: len(noted(first, "ended")) > count // 2, "its calls")
        finally:
            job.kill()
        workers_are_gone(first)
        store.kill()
        store.start()
        found = Job(asks, env, conf, journal, str(second), 0, count).answer()
    assert found["total"] == count * (count - 1)
    kept, ended = set(found["kept"]), {number for number, *_ in noted(first, "ended")}
    assert kept <= ended
    assert len(ended - kept) <= 2 * 2 * 10
    assert asked(second) == Counter(set(range(count)) - kept)


def submits(conf: dict, journal: str, folder: str, count: int):  # type: ignore[no-untyped-def,type-arg]
    from batch_interface import BatchInterface

    spark = pb.configure(build(conf)).getOrCreate()
    jobs = BatchInterface(f"{folder}/jobs")
    try:
        tickets = pb.read_journal(spark, journal, name="twice tickets").select("key.id").collect()
    except pb.PillarboxError as problem:
        if problem.condition not in ("NO_JOURNAL", "NO_JOURNAL_OPERATOR"):
            raise
        tickets = []
    df = spark.range(0, count, 1, 2).transform(
        pb.async_io,
        pb.Ticketed(jobs.submit, jobs.collect, poll="100ms"),
        returns="twice long",
        name="twice",
        journal=journal,
        batch_size=pb.BatchSize(10, wait="1 minute"),
        capacity=2,
        engine="jvm",
    )
    return {"tickets": [row.id for row in tickets], "rows": [list(row) for row in df.collect()]}


def test_tickets_are_submitted_once_over_kills_of_the_driver(store: Any, tmp_path: Path) -> None:
    count = 200
    jobs = BatchInterface(str(tmp_path / "jobs"))
    env = environment(os.pathsep.join((SOURCES, str(Path(__file__).parent))))
    conf = {**store.conf, "spark.master": "local[2]"}
    arguments = (conf, f"{store.url}/tickets", str(tmp_path), count)
    for submissions in (4, 20):
        job = Job(submits, env, *arguments)
        try:
            job.waits(lambda n=submissions: len(jobs.jobs) >= n, "its submissions")
            polls = len(jobs.polls)
            job.waits(lambda n=polls: len(jobs.polls) > n, "its polls")
        finally:
            job.kill()
        eventually(lambda: not any(is_running(one["pid"]) for one in jobs.jobs), "its end", 60)
    before = jobs.jobs
    jobs.finish()
    found = Job(submits, env, *arguments).answer()
    assert found["rows"] == [[n, 2 * n] for n in range(count)]
    known = set(found["tickets"])
    assert len(known) > count // 2
    again = jobs.jobs[len(before) :]
    assert not known & {n for one in again for n in one["ids"]}
    assert {one["key"] for one in again} <= {one["key"] for one in before}, "known by its key"
