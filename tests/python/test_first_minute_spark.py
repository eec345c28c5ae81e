"""The first failure of each kind is told at once, and at the end how many rows failed."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pillarbox as pb
from pillarbox._driver.told import accumulator_of
from spark_support import (
    Latch,
    by_value,
    collect_within,
    context_of_tests,
    eventually,
    is_connect,
    run_stream,
)

by_value(__name__)


class Refused(Exception):
    pass


async def some_fail(row: Any) -> Any:
    if row.id % 10 == 3:
        raise Refused(f"no answer for {row.id}")
    return "text" if row.id % 10 == 7 else int(row.id)


@pytest.fixture
def lines(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> Any:
    """Returns a function that waits for so many lines of the log, and returns them."""
    caplog.set_level(logging.WARNING, "pillarbox")
    if is_connect(spark):  # the server runs in this process; what it logs is heard like this
        context = context_of_tests()
        bridge = context._jvm.io.pillarbox.spark.PythonBridge
        bridge.listen(context._javaAccumulator, accumulator_of(context).aid)

    def found() -> list[str]:
        return [r.getMessage() for r in caplog.records if " timeout" not in r.getMessage()]

    def wait(count: int) -> list[str]:
        eventually(lambda: len(found()) >= count, f"{count} lines, found {found()}")
        lines = found()
        assert len(lines) == count
        caplog.clear()
        return lines

    return wait


def check_first(lines: list[str], operator: str, attempts: int = 1) -> None:
    refused, misfit = sorted(lines, key=lambda line: "RESULT_TYPE_MISMATCH" in line)
    place = f"in attempt 1 of {attempts}, for the row (id="
    assert refused.startswith(f"{operator}: the first Refused came {place}")
    assert "3): no answer for" in refused.splitlines()[0]
    assert 'raise Refused(f"no answer for {row.id}")' in refused
    assert misfit.startswith(f"{operator}: the first RESULT_TYPE_MISMATCH came {place}")


@pytest.mark.parametrize("on_error", ["null", pytest.param("column", marks=pytest.mark.nightly)])
def test_rows_that_fail_are_told_by_kind(spark: SparkSession, lines: Any, on_error: Any) -> None:
    failed = spark.range(0, 1000, 1, 4).transform(
        pb.async_io, some_fail, returns="x long", name="some", on_error=on_error, engine="jvm"
    )
    for _ in range(2):
        assert failed.where("x IS NULL").count() == 200
        *first, counted = lines(3)
        check_first(first, "async_io(some)")
        assert counted.startswith("async_io(some): 200 rows failed: 100 ")
        assert "100 Refused" in counted
        assert "100 RESULT_TYPE_MISMATCH" in counted


def test_each_action_of_one_dataframe_is_a_run_of_its_own(spark: SparkSession, lines: Any) -> None:
    rows = spark.range(10, 20, 1, 1).transform(
        pb.async_io, some_fail, returns="x long", name="same", on_error="null", engine="jvm"
    )
    for _ in range(3):
        assert len(rows.collect()) == 10
        *first, counted = lines(3)
        check_first(first, "async_io(same)")
        assert counted.startswith("async_io(same): 2 rows failed: 1 ")


def test_the_first_is_told_while_other_calls_are_under_way(
    spark: SparkSession, lines: Any, tmp_path: Path
) -> None:
    latch = Latch(str(tmp_path / "latch"))

    async def waits(row: Any) -> int:
        if row.id == 0:
            raise Refused("at once")
        await latch.wait()
        return int(row.id)

    retry = pb.Retry(2, backoff="10ms", on=Refused)
    rows = spark.range(0, 20, 1, 1).transform(
        pb.async_io, waits, returns="x long", name="waits", retry=retry, on_error="null"
    )
    thread = threading.Thread(target=collect_within, args=(rows, 60))
    thread.start()
    (told,) = lines(1)
    assert told.startswith("async_io(waits): the first Refused came in attempt 1 of 2, for the row")
    latch.open()
    thread.join()
    assert lines(1) == ["async_io(waits): 1 row failed: 1 Refused"]


def test_attempts_that_are_made_again_are_told_and_not_counted(
    spark: SparkSession, lines: Any
) -> None:
    async def second_time(row: Any) -> int:
        if pb.current_call().attempt == 1:
            raise Refused("busy")
        return int(row.id)

    retry = pb.Retry(2, backoff="10ms", on=Refused)
    rows = spark.range(5).transform(
        pb.async_io, second_time, returns="x long", name="again", retry=retry
    )
    assert rows.count() == 5
    (told,) = lines(1)
    assert told.startswith("async_io(again): the first Refused came in attempt 1 of 2")
    # What is said next is of the next action: no line with counts came between.
    after = spark.range(3, 4).transform(
        pb.async_io, some_fail, returns="x long", name="after", on_error="null", engine="jvm"
    )
    assert len(after.collect()) == 1
    assert all(line.startswith("async_io(after): ") for line in lines(2))


def test_an_expression_tells_too_and_values_are_hidden(spark: SparkSession, lines: Any) -> None:
    @pb.async_udf(returns="long", on_error="null", name="score")
    async def score(password: int) -> int:
        raise Refused("never")

    rows = spark.createDataFrame([(1,), (2,), (3,)], "password long")
    rows = rows.withColumn("s", score("password"))
    assert rows.where("s IS NULL").count() == 3
    first, counted = lines(2)
    head = first.splitlines()[0]
    assert head.startswith("async_udf(score): ")
    assert "for the row (password=*********(redacted))" in head
    assert counted == "async_udf(score): 3 rows failed: 3 Refused"


class Asks(pb.AsyncKeyedProcessFunction):
    async def process(self, row: Any, ctx: Any) -> Any:
        answer = await some_fail(row)
        return {"id": row.id, "x": answer}


def test_keyed_calls_tell_in_batches_and_streams(
    spark: SparkSession, lines: Any, tmp_path: Path
) -> None:
    def asked(rows: Any) -> Any:
        return pb.process_keyed_async(
            rows,
            Asks(),
            by="id",
            returns="id long, x long",
            name="asks",
            on_error="null",
            timeout="30s",
        )

    operator, kinds = "process_keyed(asks)", "20 rows failed: 10 "
    batch = spark.range(0, 100, 1, 2)
    assert asked(batch).where("x IS NULL").count() == 20
    *first, counted = lines(3)
    check_first(first, operator)
    assert counted.startswith(f"{operator}: {kinds}")
    batch.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("id long").parquet(str(tmp_path / "rows"))
    some: dict[str, Any] = {
        "returns": "x long", "on_error": "null", "engine": "jvm", "timeout": "30s"
    }  # fmt: skip
    for rows, name in (
        (asked(stream), operator),
        (stream.transform(pb.async_io, some_fail, name="some", **some), "async_io(some)"),
        (
            stream.transform(pb.async_io, some_fail, name="kept", carry_over=True, **some),
            "async_io(kept)",
        ),
    ):
        run_stream(rows, tmp_path / name)
        *first, counted = lines(3)
        check_first(first, name)
        assert counted.startswith(f"{name}: {kinds}")


@pytest.mark.classic
@pytest.mark.nightly
def test_the_python_engine_tells_when_a_task_has_ended(spark: SparkSession, lines: Any) -> None:
    failed = spark.range(0, 1000, 1, 4).transform(
        pb.async_io, some_fail, returns="x long", name="some", on_error="null", engine="python"
    )
    assert failed.where("x IS NULL").count() == 200
    check_first(lines(2), "async_io(some)")
