"""Budgets: over tasks, in streams and their checkpoints, and over kills."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions

import pillarbox as pb
from local_cluster import run_on_cluster
from spark_apps import SOURCES, Job, environment, is_first, kill_executor, note
from spark_support import CallLog, by_value, run_stream

by_value(__name__)

# The applications below are sent as text; this name is their own.
build: Any = None


def noting(log: CallLog) -> Any:
    async def call(row: Any) -> int:
        async with log.call(row.id):
            return int(row.id) * 2

    return call


def called(log: CallLog) -> list[int]:
    return [event["key"] for event in log.events("start")]


def kinds(df: DataFrame) -> dict[str | None, int]:
    return {row.kind: row["count"] for row in df.groupBy("error.kind").count().collect()}


@pytest.mark.connect
def test_calls_stop_at_the_budget_over_all_tasks_and_the_others_are_told(
    spark: SparkSession, log: CallLog
) -> None:
    df = spark.range(0, 500, 1, 4).transform(
        pb.async_io,
        noting(log),
        returns="twice long",
        capacity=20,
        on_error="column",
        budget=pb.Budget(max_calls=123, on_exceeded="skip"),
    )
    rows = df.collect()
    assert sum(row.error is None for row in rows) == len(called(log)) == 123
    told = {(row.error.kind, row.error.attempts) for row in rows if row.error is not None}
    assert told == {("BUDGET_EXCEEDED", 0)}
    message = next(row.error.message for row in rows if row.error is not None)
    assert "max_calls=123 calls have begun" in message
    assert "on_exceeded" in message
    # Another action has a budget of its own.
    assert kinds(df)[None] == 123


@pytest.mark.connect
def test_a_budget_that_is_spent_fails_the_job(spark: SparkSession, log: CallLog) -> None:
    df = spark.range(0, 100, 1, 2).transform(
        pb.async_io,
        noting(log),
        returns="twice long",
        name="twice",
        on_error="null",
        budget=pb.Budget(max_calls=30, name="of a test"),
    )
    with pytest.raises(PythonException) as raised:
        df.collect()
    failure = pb.failure_of(raised.value)
    assert isinstance(failure, pb.CallFailed)
    assert failure.condition == "BUDGET_EXCEEDED"
    assert failure.operator == "async_io(twice)"
    assert "'of a test'" in str(failure)
    assert len(called(log)) == 30
    # By its name the budget is that of the application.
    with pytest.raises(PythonException):
        df.limit(1).collect()
    assert len(called(log)) == 30


def test_a_service_that_is_down_ends_the_job_soon(spark: SparkSession, log: CallLog) -> None:
    async def fails(row: Any) -> int:
        async with log.call(row.id):
            raise ConnectionError("down")

    df = spark.range(0, 20_000, 1, 2).transform(
        pb.async_io,
        fails,
        returns="twice long",
        on_error="column",
        capacity=10,
        budget=pb.Budget(max_failed=0.02),
    )
    with pytest.raises(PythonException, match=r"rows have failed, and max_failed is 0.02"):
        df.collect()
    assert 100 <= len(called(log)) < 1000


@pytest.mark.connect
@pytest.mark.parametrize(
    ("most", "rows"),
    [(5, 20), pytest.param(0, 1, marks=pytest.mark.nightly), (0.02, 100)],
)
def test_failed_rows_count_when_no_call_is_left_to_begin(
    spark: SparkSession, most: float, rows: int
) -> None:
    async def fails(row: Any) -> int:
        raise OSError("down")

    def outcome(budget: pb.Budget) -> dict[str | None, int]:
        df = spark.range(0, rows, 1, 2).transform(
            pb.async_io, fails, returns="v int", on_error="column", budget=budget
        )
        return kinds(df)

    with pytest.raises(
        PythonException, match=f"rows have failed, and max_failed is {most}"
    ) as raised:
        outcome(pb.Budget(max_failed=most))
    failure = pb.failure_of(raised.value)
    assert failure is not None
    assert failure.condition == "BUDGET_EXCEEDED"
    assert outcome(pb.Budget(max_failed=rows if most else 1)) == {"OSError": rows}


@pytest.mark.parametrize("carry_over", [False, True])
def test_failed_rows_of_a_stream_count_at_the_end_of_a_micro_batch(
    spark: SparkSession, tmp_path: Path, carry_over: bool
) -> None:
    async def fails(row: Any) -> int:
        raise OSError("down")

    spark.range(0, 20, 1, 2).write.json(str(tmp_path / "in"))
    query = (
        spark.readStream.schema("id long")
        .json(str(tmp_path / "in"))
        .transform(
            pb.async_io,
            fails,
            returns="v int",
            name="failing",
            on_error="column",
            carry_over=carry_over,
            budget=pb.Budget(max_failed=5),
        )
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match="rows have failed, and max_failed is 5"):
        query.awaitTermination()


def test_what_calls_report_is_bounded_by_unit(spark: SparkSession, log: CallLog) -> None:
    async def asks(row: Any) -> int:
        async with log.call(row.id):
            pb.current_call().report_usage(tokens=7, usd=0.001)
            return int(row.id)

    budget = pb.Budget(max_usage={"tokens": 2000, "usd": 20}, on_exceeded="skip")
    df = spark.range(0, 1000, 1, 3).transform(
        pb.async_io, asks, returns="n long", on_error="column", capacity=5, budget=budget
    )
    messages = {row.error.message for row in df.where("error is not null").collect()}
    assert len(called(log)) == 2000 // 7
    assert all("1995 of 2000 tokens were reported" in message for message in messages)


def test_a_function_of_columns_has_one_budget_for_all_its_uses(
    spark: SparkSession, log: CallLog
) -> None:
    @pb.async_udf(on_error="column", budget=pb.Budget(max_calls=25, on_exceeded="skip"))
    async def twice(a: int) -> int:
        async with log.call(a):
            return 2 * a

    df = spark.range(0, 30, 1, 2)
    one, other = twice("id"), twice(functions.col("id") + 1000)
    rows = df.select(one.alias("one"), other.alias("other")).collect()
    answers = [value for row in rows for value in row if value.error is None]
    assert len(answers) == len(called(log)) == 25


def test_named_budgets_agree(spark: SparkSession, log: CallLog) -> None:
    def asks(most: int) -> DataFrame:
        return spark.range(3).transform(
            pb.async_io,
            noting(log),
            returns="twice long",
            name=f"of {most}",
            budget=pb.Budget(max_calls=most, name="agreed"),
        )

    assert len(asks(10).collect()) == len(called(log)) == 3
    with pytest.raises(PythonException) as raised:
        asks(11).collect()
    failure = pb.failure_of(raised.value)
    assert isinstance(failure, pb.InvalidOption)
    assert failure.condition == "BUDGETS_DIFFER"
    assert "'agreed' has other amounts than in async_io(of 10)" in str(failure)


def test_a_stream_counts_on_after_a_restart(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    def run(most: int) -> None:
        run_stream(
            spark.readStream.schema("id long")
            .json(str(tmp_path / "in"))
            .transform(
                pb.async_io,
                noting(log),
                returns="twice long",
                timeout="30s",
                on_error="column",
                budget=pb.Budget(max_calls=most),
            ),
            tmp_path,
        )

    def more(first: int) -> None:
        spark.range(first, first + 40).write.mode("append").json(str(tmp_path / "in"))

    for number in range(2):
        more(100 * number)
        run(100)
    assert len(called(log)) == 80
    more(200)
    with pytest.raises(StreamingQueryException) as raised:
        run(100)
    failure = pb.failure_of(raised.value)
    assert failure is not None
    assert failure.condition == "BUDGET_EXCEEDED"
    assert len(called(log)) == 100
    run(1000)
    assert len(set(called(log))) == 120


def test_what_foreach_batch_runs_has_the_budget_of_its_query(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    failed: list[int] = []

    def each(batch: DataFrame, number: int) -> None:
        asked = batch.transform(
            pb.async_io,
            noting(log),
            returns="twice long",
            on_error="column",
            budget=pb.Budget(max_calls=50, on_exceeded="skip"),
        )
        failed.append(asked.where("error is not null").count())

    for _number in range(3):
        spark.range(30).coalesce(1).write.mode("append").json(str(tmp_path / "in"))
    for _ in range(2):
        run_stream(
            spark.readStream.schema("id long")
            .option("maxFilesPerTrigger", 1)
            .json(str(tmp_path / "in")),
            tmp_path,
            each,
        )
        spark.range(30).coalesce(1).write.mode("append").json(str(tmp_path / "in"))
    assert len(called(log)) == 50
    assert failed == [0, 10, 30, 30]


@pytest.mark.connect
def test_a_kept_budget_is_that_of_all_that_give_its_folder(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    budget = pb.Budget(max_calls=50, on_exceeded="skip", keep=tmp_path / "kept")
    options = {"returns": "twice long", "on_error": "column", "timeout": "30s", "budget": budget}

    def asked() -> DataFrame:
        return spark.range(0, 30, 1, 2).transform(pb.async_io, noting(log), **options)

    assert kinds(asked()) == {None: 30}
    spark.range(30).coalesce(1).write.json(str(tmp_path / "in"))
    run_stream(
        spark.readStream.schema("id long")
        .json(str(tmp_path / "in"))
        .transform(pb.async_io, noting(log), **options),
        tmp_path,
    )
    assert len(called(log)) == 50
    assert not list((tmp_path / "checkpoint").glob("pillarbox-budget/*"))
    assert kinds(asked()) == {"BUDGET_EXCEEDED": 30}


def test_a_folder_that_keeps_nothing_fails_before_a_call(
    spark: SparkSession, log: CallLog, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    budget = pb.Budget(max_calls=50, keep=tmp_path / "file" / "kept")
    df = spark.range(3).transform(pb.async_io, noting(log), returns="v int", budget=budget)
    with pytest.raises(PythonException) as raised:
        df.collect()
    failure = pb.failure_of(raised.value)
    assert failure is not None
    assert failure.condition == "BUDGET_NOT_KEPT"
    assert called(log) == []


def batch_of_calls(folder: str, usd: float) -> int:
    spark = pb.configure(build({"spark.master": "local[2]"})).getOrCreate()

    async def slow(row):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0.02)
        note(f"{folder}/log", "billed")
        pb.current_call().report_usage(usd=0.001)
        return 2

    budget = pb.Budget(max_usage={"usd": usd}, on_exceeded="skip", keep=f"{folder}/kept")
    df = spark.range(0, 5000, 1, 2).transform(
        pb.async_io, slow, returns="twice long", capacity=5, on_error="column", budget=budget
    )
    return int(df.where("error is null").count())


@pytest.mark.nightly
def test_a_batch_that_is_killed_and_run_again_twice_at_once_never_bills_more(
    tmp_path: Path,
) -> None:
    log, most = tmp_path / "log", 1000

    def billed() -> int:
        return len(log.read_text().splitlines()) if log.exists() else 0

    script = batch_of_calls, environment(SOURCES), str(tmp_path), most / 1000
    with Job(*script) as killed:
        killed.waits(lambda: billed() > most // 3, "calls")
    with Job(*script) as one, Job(*script) as other:
        assert one.answer() + other.answer() <= most
    assert most * 0.9 <= billed() <= most


def stream_of_calls(folder: str, most: int, keyed: bool = False) -> int:
    import time

    spark = pb.configure(build({"spark.master": "local[2]"})).getOrCreate()

    async def slow(row):  # type: ignore[no-untyped-def]
        note(f"{folder}/log", "begun")
        await asyncio.sleep(0.005)
        return 2

    class Slow(pb.AsyncKeyedProcessFunction):
        async def process(self, row, ctx):  # type: ignore[no-untyped-def]
            return await slow(row)

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 40).load()
    budget = pb.Budget(max_calls=most, on_exceeded="skip")
    options = {"timeout": "30s", "capacity": 10, "on_error": "column", "budget": budget}
    if keyed:
        options["by"] = "value"
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    operator, function = (pb.process_keyed_async, Slow()) if keyed else (pb.async_io, slow)
    query = (
        rows.transform(operator, function, returns="twice long", **options)
        .where("error is not null")
        .writeStream.format("json")
        .option("path", f"{folder}/out")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )
    while not os.path.exists(f"{folder}/stop"):
        time.sleep(0.05)
    query.stop()
    return 0


def killed_and_restarted(folder: Path, most: int, kills: int, keyed: bool = False) -> int:
    """The number of calls, over kills of the driver until the budget is spent."""
    log = folder / "log"

    def begun() -> int:
        return len(log.read_text().splitlines()) if log.exists() else 0

    def reaches(enough: int) -> bool:
        return begun() >= enough

    def is_spent() -> bool:
        return any(file.stat().st_size for file in (folder / "out").glob("*.json"))

    for kill in range(kills + 1):
        with Job(stream_of_calls, environment(SOURCES), str(folder), most, keyed) as job:
            if kill < kills:
                job.waits(partial(reaches, most // (2 * kills) * (kill + 1)), "calls")
            else:
                job.waits(is_spent, "the end of the budget")
    return begun()


@pytest.mark.nightly
def test_a_stream_whose_driver_is_killed_never_spends_more(tmp_path: Path) -> None:
    most = 400
    begun = killed_and_restarted(tmp_path, most, kills=1)
    # What is written ahead, and what executors had, is lost with the driver.
    assert most * 0.9 <= begun <= most


@pytest.mark.nightly
@pytest.mark.parametrize("keyed", [False, True])
def test_a_stream_whose_driver_is_killed_often_never_spends_more(
    tmp_path: Path, keyed: bool
) -> None:
    most = 2000
    begun = killed_and_restarted(tmp_path, most, kills=5, keyed=keyed)
    assert most * 0.7 <= begun <= most


def loses_an_executor(folder: str, count: int, most: int, keyed: bool) -> int:
    spark = pb.configure(build({"spark.task.maxFailures": "4"})).getOrCreate()

    async def slow(row):  # type: ignore[no-untyped-def]
        note(f"{folder}/log", "begun")
        begun = os.stat(f"{folder}/log").st_size // len("begun\n")
        await asyncio.sleep(0.01)
        if begun >= count // 8 and is_first(f"{folder}/killed"):
            kill_executor()
            await asyncio.sleep(60)
        return row.id * 2

    class Slow(pb.AsyncKeyedProcessFunction):
        async def process(self, row, ctx):  # type: ignore[no-untyped-def]
            return await slow(row)

    operator, function = (pb.process_keyed_async, Slow()) if keyed else (pb.async_io, slow)
    df = spark.range(0, count, 1, 2).transform(
        operator,
        function,
        returns="twice long",
        capacity=20,
        on_error="column",
        budget=pb.Budget(max_calls=most, on_exceeded="skip"),
        **({"by": "id"} if keyed else {}),
    )
    return int(df.where("error is null").count())


@pytest.mark.nightly
@pytest.mark.parametrize("keyed", [False, True])
def test_what_a_lost_executor_had_counts_as_spent(tmp_path: Path, keyed: bool) -> None:
    count, most = 4000, 1500
    answered = run_on_cluster(loses_an_executor, tmp_path, str(tmp_path), count, most, keyed)
    begun = len((tmp_path / "log").read_text().splitlines())
    assert (tmp_path / "killed").exists()
    assert most * 0.6 <= begun <= most
    assert answered < begun
