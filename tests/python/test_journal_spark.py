"""``journal``, ``call_key`` and ``share_calls``: which calls are made, and which not again."""

from __future__ import annotations

import asyncio
import hashlib
import os
import struct
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from spark_apps import SOURCES, Job, environment, note
from spark_support import CallLog, Latch, by_value, collect_within, eventually, run_stream

by_value(__name__)
by_value("spark_apps")


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


def called(df: DataFrame, log: CallLog, **more: Any) -> DataFrame:
    async def twice(row: Any) -> int:
        async with log.call(row.id):
            await asyncio.sleep(0.001)
        return int(row.id) * 2

    more = {"returns": "twice long", "name": "twice", "engine": "jvm", **more}
    return df.transform(pb.async_io, twice, **more)


def keys(log: CallLog) -> list[int]:
    return sorted(record["key"] for record in log.events("start"))


def twice_of(df: DataFrame) -> dict[int, int]:
    return {row.id: row.twice for row in df.collect()}


EXPECTED = {n: 2 * n for n in range(40)}


def test_a_second_run_makes_no_call(spark: SparkSession, log: CallLog, journal: str) -> None:
    rows = spark.range(0, 40, 1, 4)
    assert twice_of(called(rows, log, journal=journal)) == EXPECTED
    assert twice_of(called(rows, log, journal=Path(journal))) == EXPECTED
    assert twice_of(called(rows.repartition(3), log, journal=journal, ordered=False)) == EXPECTED
    assert keys(log) == list(range(40))
    assert twice_of(called(spark.range(0, 50, 1, 4), log, journal=journal))[49] == 98
    assert keys(log) == list(range(50))


def test_the_name_is_in_the_key_and_the_function_is_not(
    spark: SparkSession, log: CallLog, journal: str
) -> None:
    rows = spark.range(0, 3, 1, 1)

    async def other(row: Any) -> int:
        raise AssertionError("not called")

    called(rows, log, journal=journal).collect()
    again = rows.transform(
        pb.async_io, other, returns="twice long", name="twice", journal=journal, engine="jvm"
    )
    assert [row.twice for row in again.collect()] == [0, 2, 4]
    called(rows, log, journal=journal, name="more").collect()
    assert keys(log) == sorted([0, 1, 2] * 2)


async def own_id(row: Any) -> str:
    return pb.call_id()


def test_an_answer_counts_only_for_the_columns_that_were_asked_for(
    spark: SparkSession, journal: str
) -> None:
    rows = spark.range(0, 2, 1, 1)

    async def nothing(row: Any) -> None:
        return None

    def answers(function: Any, returns: str, **more: Any) -> list[Any]:
        more = {"name": "asked", "journal": journal, "engine": "jvm", **more}
        found = rows.transform(pb.async_io, function, returns=returns, **more)
        return [row[1] for row in found.collect()]

    assert answers(nothing, "x string") == [None, None]
    assert answers(own_id, "x string") == [None, None]
    # A null is no answer to who wants none, and one row is none to who wants a list.
    ids = answers(own_id, "x string not null")
    assert answers(own_id, "x string not null") == ids
    assert all(len(one) == 32 for one in ids)

    async def own_ids(row: Any) -> list[str]:
        return [pb.call_id()]

    assert answers(own_ids, "x string not null", explode=True) == ids, "what is asked is the same"
    assert answers(own_id, "y string") == ids
    assert answers(own_id, "x string") == [None, None], "what was kept first is still there"


@pytest.mark.smoke
def test_a_call_is_named_by_the_format_that_is_written_down(
    spark: SparkSession, journal: str
) -> None:
    def name_of(row: str, name: str) -> str:
        rows = spark.sql(f"select {row}, 1 as given")
        asked = rows.transform(
            pb.async_io,
            own_id,
            returns="call string",
            inputs=["given"],
            call_key=[column for column in rows.columns if column != "given"],
            name=name,
            journal=journal,
            engine="jvm",
        )
        return str(asked.select("call").collect()[0].call)

    def sha256(some: bytes) -> bytes:
        return hashlib.sha256(some).digest()

    head = b"16:pillarbox call 17:weather0:1:a6:bigint1:b6:string"
    values = bytes(8) + struct.pack("<qii", 7, 2, 24) + "é".encode().ljust(8, b"\0")
    found = name_of("7L as a, 'é' as b", "weather")
    assert found == sha256(sha256(head) + values)[:16].hex() == "91f39a9821a45965ecbfbcae0c8a32be"
    # The same as in CallJournalSuite, which says what is in it, on every line of Spark.
    every = """
        true a, 1Y b, -2S c, 3 d, -4L e, 0.5F f, -0.25D g, cast(12345.67 as decimal(10,2)) h,
        cast(-1.5 as decimal(38,10)) i, 'text' j, X'00FF' k, date'2022-01-08' l,
        timestamp_micros(1700000000000000) m, timestamp_ntz'1969-12-31 23:59:59.999999' n,
        interval '1 00:00:00' day to second o, interval '1-2' year to month p,
        array(1, null, 3) q, named_struct('x', cast(null as int), 'y', 'in it') r,
        cast(null as string) s
    """
    assert name_of(every, "types") == "314cefdc87dac0c6f709676fbde668c4"


def asking(model: str) -> Any:
    async def ask(row: Any) -> str:
        return f"{model} {row.id}"

    return ask


def model_of(model: str, row: Any) -> str:
    return f"{model} {row.id}"


def lambda_of(model: str) -> Any:
    return lambda row: model_of(model, row)


class Asks(pb.AsyncFunction):
    def __init__(self, model: str) -> None:
        self.model = model

    async def invoke(self, row: Any) -> str:
        return f"{self.model} {row.id}"


@pytest.mark.parametrize(
    "made", [asking, lambda_of, lambda model: partial(model_of, model), Asks],
    ids=["closures", "lambdas", "partials", "objects"],
)  # fmt: skip
def test_functions_of_one_factory_share_answers_under_one_written_name_and_version_alone(
    spark: SparkSession, journal: str, made: Any
) -> None:
    def answers(model: str, version: str | None = None, **more: Any) -> list[str]:
        kept = pb.Journal(journal, version=version)
        rows = spark.range(0, 3, 1, 1)
        df = pb.async_io(rows, made(model), returns="x string", journal=kept, engine="jvm", **more)
        return [row.x for row in df.collect()]

    small, large = (["small 0", "small 1", "small 2"], ["large 0", "large 1", "large 2"])
    with pytest.raises(pb.InvalidOption, match="JOURNAL_WITHOUT_NAME"):
        answers("small")
    assert answers("small", name="small") == small
    assert answers("large", name="large") == large
    assert answers("large", name="small") == small, "the name that is written down is what counts"
    assert answers("large", "2", name="small") == large
    assert answers("small", "2", name="small") == large
    assert answers("large", name="small") == small


@pytest.mark.parametrize(
    "more", [{"by": "k"}, {"by": "k", "limit": pb.Limit(concurrency=1, scope="key")}]
)
def test_an_order_within_keys_holds_with_answers_from_the_journal_between_calls(
    spark: SparkSession, log: CallLog, journal: str, more: dict[str, Any]
) -> None:
    rows = spark.range(0, 200, 1, 1).withColumn("k", F.col("id") % 5)
    # Every third answer is there already.
    called(rows.where("id % 3 = 0"), log, journal=journal).collect()
    before = len(keys(log))
    for share in (False, True):
        found = called(rows, log, journal=journal, share_calls=share, **more).collect()
        assert sorted((row.id, row.twice) for row in found) == [(n, 2 * n) for n in range(200)]
        for key in range(5):
            of_key = [row.id for row in found if row.k == key]
            assert sorted(of_key) == of_key
    assert before == 67
    assert keys(log) == list(range(200))


@pytest.mark.parametrize("form", ["thread", "batch", "batch thread", "gated", "unordered"])
def test_every_form_of_function_keeps_its_answers(
    spark: SparkSession, log: CallLog, journal: str, form: str
) -> None:
    def plain(row: Any) -> int:
        log.write("start", key=row.id, call_id=pb.call_id())
        return int(row.id) * 2

    def many(rows: Any) -> list[int]:
        for row, name in zip(rows, pb.current_call().ids, strict=True):
            log.write("start", key=row.id, call_id=name)
        return [row.id * 2 for row in rows]

    async def many_async(rows: Any) -> list[int]:
        return many(rows)

    async def one(row: Any) -> int:
        return plain(row)

    function, more = {
        "thread": (plain, {}),
        "batch": (many_async, {"batch_size": 7}),
        "batch thread": (many, {"batch_size": 7}),
        "gated": (one, {"limit": pb.Limit(concurrency=2, per_second=100_000)}),
        "unordered": (one, {"ordered": False}),
    }[form]
    for on_error in ("raise", "column"):
        # The rows of both runs differ in their columns, the answers don't.
        df = spark.range(0, 40, 1, 2).transform(
            pb.async_io,
            function,
            returns="twice long",
            name=form,
            journal=journal,
            on_error=on_error,
            engine="jvm",
            **more,
        )
        assert twice_of(df) == EXPECTED
    assert keys(log) == list(range(40))
    names = {record["call_id"] for record in log.events("start")}
    assert len(names) == 40
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in names)


def test_answers_of_all_types_come_back_as_they_were(spark: SparkSession, journal: str) -> None:
    returns = "a string, b array<struct<x:int,y:map<string,double>>>, c decimal(38,10), "
    returns += "d timestamp, e binary, f date"

    async def odd(row: Any) -> Any:
        from datetime import date, datetime
        from decimal import Decimal

        if row.id == 0:
            return None
        some = [{"x": None, "y": {"é": 1.5, "": None}}, None]
        when = datetime(2020, 2, 29, 12, 30, 1, 7)
        one = ("x" * row.id, some, Decimal("-1.5"), when, b"\0\1", date(1960, 1, 1))
        return [one] * (row.id - 1)

    def frame() -> DataFrame:
        return spark.range(0, 5, 1, 1).transform(
            pb.async_io,
            odd,
            returns=returns,
            explode=True,
            name="odd",
            journal=journal,
            engine="jvm",
        )

    first = frame().collect()
    assert len(first) == 7
    assert frame().collect() == first


def test_failures_and_timeouts_are_called_again(
    spark: SparkSession, log: CallLog, journal: str, tmp_path: Path
) -> None:
    mended = str(tmp_path / "mended")

    async def sometimes(row: Any) -> int:
        log.write("start", key=row.id)
        if not os.path.exists(mended):
            if row.id == 0:
                raise ValueError("no")
            if row.id == 1:
                await asyncio.sleep(60)
        return int(row.id)

    def frame(first: int = 0, timeout: str | None = None) -> DataFrame:
        return spark.range(first, first + 2 if timeout else 4, 1, 1).transform(
            pb.async_io,
            sometimes,
            returns="x long",
            on_error="null",
            timeout=timeout,
            name="sometimes",
            journal=journal,
            engine="jvm",
        )

    assert [row.x for row in frame(0, "300ms").collect()] == [None, None]
    assert [row.x for row in frame(2, "1 hour").collect()] == [2, 3]
    Path(mended).touch()
    assert [row.x for row in frame().collect()] == [0, 1, 2, 3]
    assert keys(log) == [0, 0, 1, 1, 2, 3]


def test_an_answer_that_retry_if_result_refused_to_the_end_is_asked_for_again(
    spark: SparkSession, log: CallLog, journal: str
) -> None:
    async def pending(row: Any) -> str:
        log.write("start", key=row.id)
        return "not yet" if row.id == 0 else "done"

    retry = pb.Retry(2, backoff="1ms", if_result=lambda answer: answer == "not yet")
    for _ in range(2):
        df = spark.range(0, 2, 1, 1).transform(
            pb.async_io,
            pending,
            returns="x string",
            retry=retry,
            name="pending",
            journal=journal,
            engine="jvm",
        )
        assert [row.x for row in df.collect()] == ["not yet", "done"]
    assert keys(log) == [0, 0, 0, 0, 1]


def test_the_key_is_made_of_the_columns_that_were_named(
    spark: SparkSession, log: CallLog, journal: str
) -> None:
    rows = spark.range(0, 6, 1, 1).select("id", (F.col("id") % 2).alias("Group"))
    df = called(rows, log, inputs=["id"], call_key=["group"], journal=journal, capacity=1)
    assert [row.twice for row in df.collect()] == [0, 2, 0, 2, 0, 2]
    assert keys(log) == [0, 1]
    # By default the columns that the function sees, and no others.
    both = called(rows.withColumn("other", F.rand()), log, inputs=["id"], journal=journal)
    both.collect()
    both.collect()
    assert keys(log) == [0, 0, 1, 1, 2, 3, 4, 5]


def test_zeros_are_one_key_and_so_are_nans_and_nulls_are_no_zeros(
    spark: SparkSession, log: CallLog, journal: str
) -> None:
    values = "0.0D, -0.0D, double('nan'), -double('nan'), null, 1.0D"
    rows = spark.sql(
        f"select x, monotonically_increasing_id() id from (select explode(array({values})) x)"
    )
    df = called(rows.coalesce(1), log, call_key="x", journal=journal, capacity=1)
    df.collect()
    assert len(keys(log)) == 4


def test_an_answer_that_is_too_old_does_not_count(
    spark: SparkSession, log: CallLog, journal: str
) -> None:
    rows = spark.range(0, 3, 1, 1)
    called(rows, log, journal=pb.Journal(journal, ttl="1 day")).collect()
    called(rows, log, journal=pb.Journal(journal, ttl="1 day")).collect()
    assert len(keys(log)) == 3
    called(rows, log, journal=pb.Journal(journal, ttl="1ms")).collect()
    assert len(keys(log)) == 6


def test_a_task_that_is_run_again_repeats_no_call(
    spark: SparkSession, log: CallLog, journal: str, tmp_path: Path
) -> None:
    def fails_once(rows: Any) -> Any:
        yield from rows
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise RuntimeError("after its calls")

    again = called(spark.range(0, 40, 1, 1), log, journal=journal)
    stages = again.mapInArrow(fails_once, again.schema)
    with pytest.raises(Exception, match="after its calls"):
        stages.collect()
    assert len(stages.collect()) == 40
    assert keys(log) == list(range(40))


def test_share_calls_makes_one_call_of_rows_in_flight_with_one_key(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    latch = Latch(str(tmp_path / "latch"))

    async def held(row: Any) -> str:
        log.write("start", key=row.key, call_id=pb.call_id())
        await latch.wait()
        return pb.call_id()

    rows = spark.range(0, 20, 1, 1).select("id", (F.col("id") % 4).alias("key"))
    df = rows.transform(
        pb.async_io,
        held,
        returns="call string",
        inputs=["key"],
        share_calls=True,
        capacity=20,
        engine="jvm",
    )
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(collect_within(df, 60)))
    thread.start()
    eventually(lambda: len(log.events("start")) == 4, "the calls")
    latch.open()
    thread.join(60)
    assert keys(log) == [0, 1, 2, 3]
    ids = {record["key"]: record["call_id"] for record in log.events("start")}
    assert [(row.id, row.call) for row in found] == [(n, ids[n % 4]) for n in range(20)]
    assert len(set(ids.values())) == 4


def test_rows_of_all_tasks_share_a_call(spark: SparkSession, log: CallLog, journal: str) -> None:
    rows = spark.range(0, 40, 1, 4).selectExpr("id % 5 as id")
    found = called(rows, log, journal=journal, share_calls="query").collect()
    assert Counter(row.id for row in found) == dict.fromkeys(range(5), 8)
    assert all(row.twice == 2 * row.id for row in found)
    assert keys(log) == [0, 1, 2, 3, 4]


def test_rows_that_share_a_call_share_its_failure(spark: SparkSession, log: CallLog) -> None:
    async def fails(row: Any) -> int:
        log.write("start", key=0)
        await asyncio.sleep(0.3)
        raise ValueError("no")

    df = (
        spark.range(0, 5, 1, 1)
        .selectExpr("id", "1 as key")
        .transform(
            pb.async_io,
            fails,
            returns="x int",
            inputs=["key"],
            share_calls=True,
            retry=pb.Retry(2, backoff="1ms"),
            on_error="column",
            engine="jvm",
        )
    )
    errors = [row.error for row in df.collect()]
    assert [(one.kind, one.attempts) for one in errors] == [("ValueError", 2)] * 5
    assert len(keys(log)) == 2


def stream(spark: SparkSession, folder: Path, log: CallLog, **more: Any) -> None:
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    calls = called(rows.parquet(str(folder / "input")), log, journal=True, **more)
    run_stream(calls, folder, lambda rows, number: rows.collect())


@pytest.mark.parametrize("carry_over", [False, True])
def test_a_stream_keeps_its_answers_in_its_checkpoint(
    spark: SparkSession, log: CallLog, tmp_path: Path, carry_over: bool
) -> None:
    more: dict[str, Any] = {"carry_over": pb.CarryOver(slots=2)} if carry_over else {}
    for _ in range(2):
        spark.range(0, 10, 1, 1).write.mode("append").parquet(str(tmp_path / "input"))
    stream(spark, tmp_path, log, **more)
    assert set(keys(log)) == set(range(10))
    assert carry_over or keys(log) == list(range(10))
    made = len(keys(log))
    assert any((tmp_path / "checkpoint" / "pillarbox-journal").iterdir())
    spark.range(0, 12, 1, 1).write.mode("append").parquet(str(tmp_path / "input"))
    stream(spark, tmp_path, log, **more)
    assert keys(log)[-2:] == [10, 11]
    assert len(keys(log)) == made + 2


def test_a_journal_that_cannot_be_written_fails_before_a_call(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match="JOURNAL_FAILED") as caught:
        called(spark.range(0, 3, 1, 1), log, journal=str(tmp_path / "file")).collect()
    assert str(tmp_path / "file") in str(caught.value)
    assert keys(log) == []


def test_a_folder_that_cannot_be_made_fails_before_a_call(
    spark: SparkSession, log: CallLog
) -> None:
    with pytest.raises(Exception, match=r"/proc/journal can't be written") as caught:
        called(spark.range(0, 3, 1, 1), log, journal="/proc/journal").collect()
    failure = pb.failure_of(caught.value)
    assert failure is not None
    assert failure.condition == "JOURNAL_FAILED"
    assert keys(log) == []


@pytest.mark.classic
def test_the_metric_counts_answers_from_the_journal(
    spark: SparkSession, log: CallLog, journal: str
) -> None:
    called(spark.range(0, 6, 1, 1), log, journal=journal).collect()
    df = called(spark.range(0, 10, 1, 1), log, journal=journal)
    df.collect()
    plan: Any = df._jdf.queryExecution().executedPlan()
    while "AsyncIO" not in plan.nodeName():
        plan = plan.children().head()
    assert plan.metrics().apply("numJournalHits").value() == 6
    assert plan.metrics().apply("calls").value() == 4


def test_what_is_refused(spark: SparkSession, log: CallLog, journal: str) -> None:
    rows = spark.range(3)

    def refused(wanted: str, df: DataFrame = rows, **more: Any) -> str:
        with pytest.raises(pb.PillarboxError) as caught:
            called(df, log, **more)
        assert caught.value.condition == wanted
        return str(caught.value)

    assert "checkpoint" in refused("OPTION_NEEDS_OTHER", journal=True)
    assert "journal" in refused("JOURNAL_WITHOUT_NAME", journal=journal, name=None)
    assert "twice" in refused("JOURNAL_WITHOUT_NAME", journal=journal, call_key="id", name=None)
    assert "twice" in refused("CALL_KEY_WITHOUT_NAME", call_key="id", name=None)
    refused("CALL_KEY_WITHOUT_NAME", call_key="id", share_calls=True, name=None)
    called(rows, log, share_calls=True, name=None)
    assert "idd" in refused("UNKNOWN_COLUMN", journal=journal, call_key=["idd"])
    for value in (3, "", b"", ["x"]):
        assert "journal" in refused("INVALID_OPTION", journal=value)
    assert "share_calls" in refused("INVALID_OPTION", share_calls=1)
    assert "share_calls" in refused("INVALID_OPTION", share_calls="tasks")
    assert "by=" in refused("OPTION_NEEDS_OTHER", by="id", share_calls="query")
    assert "carry_over" in refused("OPTION_NEEDS_OTHER", carry_over=True, share_calls="query")
    assert "call_key" in refused("INVALID_OPTION", call_key=[], share_calls=True)
    maps = rows.selectExpr("id", "map(1, 2) as m", "array(map(1, 2)) as a")
    assert "m" in refused("NOT_COMPARABLE", maps, share_calls=True)
    refused("NOT_COMPARABLE", maps, share_calls=True, call_key="a")
    called(maps, log, share_calls=True, call_key="id")
    for more in ({"journal": journal}, {"share_calls": True}):
        assert "python" in refused("OPTION_NEEDS_JVM_ENGINE", engine="python", **more)
    called(rows, log, journal=False, engine="python")


def killed_job(folder, count, capacity, spark=None):  # type: ignore[no-untyped-def]
    """A batch job that asks each thing in both of its partitions, and whose calls are noted in a
    file, one line each; without a session in one of its own. The last calls wait for a file."""
    if spark is None:
        conf = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
        conf["spark.sql.adaptive.coalescePartitions.enabled"] = "false"
        spark = build(conf)  # type: ignore[name-defined] # noqa: F821
        spark = pb.configure(spark).getOrCreate()

    async def slow(row):  # type: ignore[no-untyped-def]
        import asyncio
        import os

        note(f"{folder}/started", row.id)
        await asyncio.sleep(0.05)
        while row.id >= 0.95 * count and not os.path.exists(f"{folder}/go"):
            await asyncio.sleep(0.05)
        note(f"{folder}/ended", row.id)
        return row.id * 2

    rows = spark.range(0, 2 * count, 1, 2).selectExpr(f"id % {count} as id")
    df = rows.transform(
        pb.async_io,
        slow,
        returns="twice long",
        name="slow",
        journal=f"{folder}/journal",
        share_calls="query",
        capacity=capacity,
        ordered=False,
        engine="jvm",
    )
    return int(df.groupBy().sum("twice").collect()[0][0])


def lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


@pytest.mark.classic
def test_of_a_job_that_was_killed_only_what_was_in_flight_is_called_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    count, capacity = 800, 10
    job = Job(killed_job, environment(SOURCES), str(tmp_path), count, capacity)
    with job:
        job.waits(lambda: len(lines(tmp_path / "ended")) >= 0.9 * count, "90 % of the calls")
    kill_left(tmp_path)
    (tmp_path / "go").touch()
    first = lines(tmp_path / "started")
    assert 0.9 * count <= len(first) < count, "it was killed in its middle"
    assert killed_job(str(tmp_path), count, capacity, spark) == 2 * count * (count - 1)
    again = len(lines(tmp_path / "started")) - count
    assert 0 <= again <= 2 * capacity
    assert set(lines(tmp_path / "started")) == {str(n) for n in range(count)}


def kill_left(folder: Path) -> None:
    """Waits until no worker of the killed job notes anything any more."""
    before = -1
    while before != len(lines(folder / "started")) + len(lines(folder / "ended")):
        before = len(lines(folder / "started")) + len(lines(folder / "ended"))
        time.sleep(0.5)


@pytest.mark.nightly
def test_two_jobs_at_once_use_one_journal(tmp_path: Path) -> None:
    count = 200
    (tmp_path / "go").touch()
    script = killed_job, environment(SOURCES), str(tmp_path), count, 10
    for job in [Job(*script), Job(*script)]:
        assert job.answer() == 2 * count * (count - 1)
    made = len(lines(tmp_path / "started"))
    assert count <= made <= 2 * count
    assert Job(*script).answer() == 2 * count * (count - 1)
    assert len(lines(tmp_path / "started")) == made
