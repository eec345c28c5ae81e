"""What users catch when a task fails, and what ``failure_of`` finds in it on either engine."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import pillarbox as pb
from pillarbox._async import options
from spark_support import is_connect

cloudpickle.register_pickle_by_value(sys.modules[__name__])

LIMIT_S = 60

# By day on one engine: other tests, here or without Spark, show the same of engine="python".
JVM_BY_DAY = pytest.mark.parametrize(
    "engine", ["jvm", pytest.param("python", marks=pytest.mark.nightly)]
)
Build = Callable[[DataFrame], DataFrame]


def raised_by(action: Callable[[], Any], kind: type[BaseException] = PythonException) -> Any:
    with pytest.raises(kind) as caught:
        action()
    return caught.value


def in_batch(spark: SparkSession, build: Build) -> Any:
    return raised_by(build(spark.range(0, 10, 1, 2)).collect)


def stream(spark: SparkSession, folder: Path, build: Build) -> Any:
    """A query that has ended."""
    spark.range(0, 10, 1, 2).write.parquet(str(folder / "in"))
    source = spark.readStream.schema("id long").parquet(str(folder / "in"))
    writer = build(source).writeStream.format("noop").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


class Seen:
    """An error in each way that it can be seen in.

    The batch runs when the stream has ended: a task of a stream that is interrupted while Spark
    starts its worker ends all workers of Spark's daemon.
    """

    def __init__(self, spark: SparkSession, folder: Path, build: Build) -> None:
        query = stream(spark, folder, build)
        ended = raised_by(lambda: query.awaitTermination(LIMIT_S), StreamingQueryException)
        self.errors = {
            "awaitTermination": ended,
            "exception()": query.exception(),
            "batch": in_batch(spark, build),
        }

    def failures(self) -> dict[str, Any]:
        found = {way: pb.failure_of(error) for way, error in self.errors.items()}
        assert isinstance(self.errors["exception()"], StreamingQueryException)
        assert all(found.values()), found
        return found


def has_condition(spark: SparkSession, error: Any, name: str) -> bool:
    """A PythonException of Connect's client has no condition: ``failure_of`` reads its text."""
    return error.getCondition() == (None if is_connect(spark) else name)


async def refuses_three(row: Any) -> int:
    if row.id == 3:
        raise LookupError("no such thing:\n3")
    return row.id


async def answers_text(row: Any) -> Any:
    return "x" if row.id == 3 else 0


def with_async(engine: str, function: Any, **options: Any) -> Build:
    return lambda df: pb.async_io(df, function, returns="y long", engine=engine, **options)


class Does(pb.KeyedProcessFunction):
    """Does ``what`` for the key 3."""

    def __init__(self, what: Callable[..., Any]) -> None:
        self.what = what

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        return self.what(self, row, ctx) if row.k == 3 else None

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        raise LookupError(f"nothing at {timestamp}")


def with_keyed(what: Callable[..., Any]) -> Build:
    return lambda df: pb.process_keyed(
        df.withColumn("k", F.col("id")), Does(what), by="k", returns="y long"
    )


@pytest.fixture(scope="module", params=["python", "jvm"])
def refused(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Seen]:
    """The engine, and what is seen of a call that fails."""
    build = with_async(request.param, refuses_three)
    return request.param, Seen(spark, tmp_path_factory.mktemp("refused"), build)


def test_a_users_exception_in_a_call(refused: tuple[str, Seen]) -> None:
    _, seen = refused
    for found in seen.failures().values():
        assert type(found) is pb.CallFailed
        assert (found.condition, found.operator) == ("ASYNC_CALL_FAILED", "async_io(refuses_three)")
        assert (found.row, found.attempts) == ("id=3", 1)
        assert (found.key, found.timer) == (None, None)
        assert (found.kind, found.message) == ("LookupError", "no such thing:\n3")
        assert found.traceback.startswith("Traceback (most recent call last):\n")
        assert found.traceback.endswith("LookupError: no such thing:\n3")
        assert "in refuses_three" in found.traceback
        assert found.elapsed_ms >= 0
        assert str(found).startswith(
            "[ASYNC_CALL_FAILED] async_io(refuses_three): The call failed after 1 attempt in "
        )
        assert "for the row (id=3) with LookupError: no such thing:\n3." in str(found)


def test_the_users_message_stands_once_and_no_line_for_programs(refused: tuple[str, Seen]) -> None:
    engine, seen = refused
    for error in seen.errors.values():
        # In the line of what failed, and where the traceback ends. Connect's client adds the stack
        # of the server, which begins with the text again.
        told = str(error).partition("\n\nJVM stacktrace:")[0]
        assert (told.count("no such thing: 3."), told.count("no such thing:\n3")) == (1, 1)
        assert told.count("To go on without such rows use on_error") == 1
        assert engine == "python" or told.count("Traceback (most recent call last):") == 1
        assert "pillarbox-failure" not in str(error)


def read_from_the_text(seen: Seen) -> dict[str, Any]:
    """The failures as they are found when the driver keeps their reports no more."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pillarbox._driver.failure_of.recent_failure", lambda text: None)
        return seen.failures()


def test_the_text_tells_what_the_driver_kept(refused: tuple[str, Seen]) -> None:
    _, seen = refused
    for way, kept in seen.failures().items():
        found = read_from_the_text(seen)[way]
        assert (type(found), str(found), vars(found)) == (type(kept), str(kept), vars(kept))


def test_the_condition_is_ours_where_spark_lets_it_be(
    spark: SparkSession, refused: tuple[str, Seen]
) -> None:
    engine, seen = refused
    ours = {"jvm": "ASYNC_CALL_FAILED", "python": "PYTHON_EXCEPTION"}
    assert has_condition(spark, seen.errors["batch"], ours[engine])
    assert seen.errors["awaitTermination"].getCondition() == "STREAM_FAILED"
    for error in seen.errors.values():
        told = str(error)
        assert "[ASYNC_CALL_FAILED] async_io(refuses_three): The call failed" in told, told
    if engine == "jvm" and not is_connect(spark):
        assert str(seen.errors["batch"]).startswith("[ASYNC_CALL_FAILED] ")


def test_both_engines_tell_the_same_of_a_row_of_every_kind(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT id, 'it''s' s, CAST(NULL AS int) n, 0.1F f, 1.50BD d, TIMESTAMP_NTZ'2024-01-02 "
        "03:04:05.5' t, to_timestamp('2024-01-02 03:04:05') z, array(1, NULL) a, map('k', true) m, "
        "named_struct('x', X'00ff') b FROM range(3, 4)"
    )
    found = []
    for engine in ("jvm", "python"):
        build = with_async(engine, refuses_three)
        report = dict(vars(pb.failure_of(raised_by(build(rows).collect))))
        report.pop("elapsed_ms")
        found.append(report)
    assert found[0] == found[1]
    assert found[0]["row"].startswith('id=3, s="it\'s", n=None, f=0.10000000149011612, ')


def test_an_answer_that_does_not_fit(spark: SparkSession, engine: str, tmp_path: Path) -> None:
    seen = Seen(spark, tmp_path, with_async(engine, answers_text))
    for found in seen.failures().values():
        assert type(found) is pb.ResultTypeMismatch
        assert (found.condition, found.kind) == ("RESULT_TYPE_MISMATCH", "RESULT_TYPE_MISMATCH")
        assert (found.operator, found.row) == ("async_io(answers_text)", "id=3")
        assert found.message.startswith("The result for column y must be bigint, but it is 'x'")
        assert str(found).endswith(" It came for the row (id=3).")
    if engine == "jvm":
        assert has_condition(spark, seen.errors["batch"], "RESULT_TYPE_MISMATCH")


def test_a_deadline(spark: SparkSession, engine: str) -> None:
    async def never(row: Any) -> int:
        await asyncio.sleep(3600)
        return 0

    retried = with_async(
        engine,
        never,
        timeout=pb.Timeout(attempt="20ms"),
        retry=pb.Retry(2, backoff="1ms", on=KeyError),
    )
    for build, attempts in ((with_async(engine, never, timeout="50ms"), 1), (retried, 2)):
        found = pb.failure_of(in_batch(spark, build))
        assert type(found) is pb.CallFailed
        assert (found.condition, found.kind) == ("ASYNC_CALL_FAILED", "TIMEOUT")
        assert (found.attempts, found.traceback) == (attempts, "")
        assert "timeout: " in (found.message or "")


@JVM_BY_DAY
def test_the_error_column_and_failure_of_have_one_vocabulary(
    spark: SparkSession, engine: str
) -> None:
    async def odd(row: Any) -> Any:
        if row.id == 1:
            raise LookupError
        if row.id == 2:
            await asyncio.sleep(3600)
        if row.id == 3:
            raise TimeoutError("the service said so")
        if row.id == 4:
            raise pb.RetryAfter(0)
        return "x" if row.id == 5 else None if row.id == 6 else 0

    expected = [
        None,
        "LookupError",
        "TIMEOUT",
        "TimeoutError",
        "RetryAfter",
        "RESULT_TYPE_MISMATCH",
    ]

    def asked(condition: str, timeout: str | None = None, **more: Any) -> Any:
        options = {"timeout": timeout, "retry": pb.Retry(2, backoff="1ms"), "capacity": 10, **more}
        return with_async(engine, odd, **options)(df.where(condition))

    df = spark.range(0, len(expected), 1, 1)
    # The deadline of the row that hangs is not that of the others, which may be late.
    column = asked("id <> 2", on_error="column").collect()
    column += asked("id = 2", "300ms", on_error="column").collect()
    assert {row.id: row.error and row.error.kind for row in column} == dict(enumerate(expected))
    for number, kind in enumerate(expected):
        if kind is not None:
            one = asked(f"id = {number}", "300ms" if kind == "TIMEOUT" else None)
            found = pb.failure_of(raised_by(one.collect))
            assert found is not None
            assert (found.kind, found.row) == (kind, f"id={number}")
            assert found.condition == (
                kind if kind.isupper() and kind != "TIMEOUT" else "ASYNC_CALL_FAILED"
            )


def test_an_exit_a_resource_and_a_loop_that_hangs(spark: SparkSession, engine: str) -> None:
    async def exits(row: Any) -> int:
        sys.exit(3)

    async def uses(row: Any, resource: Any) -> int:
        return 0

    def closed() -> Any:
        raise ConnectionRefusedError("port 5432")

    cases = [
        (with_async(engine, exits), "FUNCTION_EXITED", "SystemExit", "3"),
        (
            with_async(engine, uses, resource=closed),
            "RESOURCE_OPEN_FAILED",
            "ConnectionRefusedError",
            "port 5432",
        ),
    ]
    for build, name, kind, message in cases:
        found = pb.failure_of(in_batch(spark, build))
        assert type(found) is pb.WorkerFailed
        assert (found.condition, found.kind, found.message) == (name, kind, message)
        assert (found.operator or "").startswith("async_io(")
        assert found.row is None
        assert message in found.traceback


@JVM_BY_DAY
def test_an_event_loop_that_hangs(
    spark: SparkSession, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The driver tells workers of the JVM's engine; those of Spark's own wait for five seconds.
    monkeypatch.setattr(options, "BLOCKED_LOOP_MS", 1000)

    async def hangs_here(row: Any) -> int:
        time.sleep(3600)
        return 0

    found = pb.failure_of(in_batch(spark, with_async(engine, hangs_here)))
    assert type(found) is pb.WorkerFailed
    assert (found.condition, found.kind) == ("EVENT_LOOP_BLOCKED", "EVENT_LOOP_BLOCKED")
    assert "in hangs_here" in str(found)


def test_a_worker_that_is_killed(spark: SparkSession, engine: str) -> None:
    async def dies(row: Any) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    build = with_async(engine, dies)(spark.range(0, 4, 1, 1))
    error = raised_by(build.collect, Exception)
    found = pb.failure_of(error)
    assert type(found) is pb.WorkerFailed
    assert found.condition == "PYTHON_WORKER_DIED"
    if engine == "python":  # whose workers are Spark's own, and so is the error
        assert found.operator == ""
        return
    assert found.operator == "async_io(test_a_worker_that_is_killed.dies)"
    assert has_condition(spark, error, "PYTHON_WORKER_DIED")


@JVM_BY_DAY
def test_a_worker_that_is_killed_in_a_stream(
    spark: SparkSession, engine: str, tmp_path: Path
) -> None:
    async def dies(row: Any) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    query = stream(spark, tmp_path, with_async(engine, dies))
    raised = raised_by(lambda: query.awaitTermination(LIMIT_S), StreamingQueryException)
    for error in (raised, query.exception()):
        found = pb.failure_of(error)
        assert type(found) is pb.WorkerFailed
        assert found.condition == "PYTHON_WORKER_DIED"


def test_a_function_that_does_not_unpickle(spark: SparkSession, engine: str) -> None:
    class Unloadable:
        def __reduce__(self) -> Any:
            return raises, ("no such thing here",)

        async def __call__(self, row: Any) -> int:
            return 0

    found = pb.failure_of(raised_by(with_async(engine, Unloadable())(spark.range(4)).collect))
    assert type(found) is pb.WorkerFailed
    assert (found.condition, found.kind) == ("FUNCTION_LOAD_FAILED", "LookupError")
    assert found.operator.startswith("async_io(")
    assert "no such thing here" in str(found)
    assert "in raises" in found.traceback


def raises(message: str) -> Any:
    raise LookupError(message)


@JVM_BY_DAY
def test_a_call_inside_foreach_batch(spark: SparkSession, engine: str, tmp_path: Path) -> None:
    def each(df: DataFrame, number: int) -> None:
        with_async(engine, refuses_three)(df).collect()

    spark.range(0, 10, 1, 2).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    query = source.writeStream.foreachBatch(each).trigger(availableNow=True).start()
    error = raised_by(lambda: query.awaitTermination(LIMIT_S), StreamingQueryException)
    for one in (error, query.exception()):
        found = pb.failure_of(one)
        assert type(found) is pb.CallFailed
        assert (found.row, found.kind) == ("id=3", "LookupError")


def test_a_users_exception_in_process(spark: SparkSession, tmp_path: Path) -> None:
    def fails(self: Any, row: Any, ctx: Any) -> Any:
        raise LookupError("no such thing")

    seen = Seen(spark, tmp_path, with_keyed(fails))
    for found in seen.failures().values():
        assert type(found) is pb.CallFailed
        assert (found.condition, found.operator) == ("KEYED_CALL_FAILED", "process_keyed(Does)")
        assert (found.key, found.row, found.timer) == ("3", "id=3, k=3", None)
        assert (found.kind, found.message) == ("LookupError", "no such thing")
        assert found.traceback.endswith("LookupError: no such thing")
        assert "in fails" in found.traceback
    for way, kept in seen.failures().items():
        found = read_from_the_text(seen)[way]
        assert (type(found), str(found), vars(found)) == (type(kept), str(kept), vars(kept))
    assert has_condition(spark, seen.errors["batch"], "KEYED_CALL_FAILED")


def test_a_users_exception_in_on_timer(spark: SparkSession) -> None:
    def sets(self: Any, row: Any, ctx: Any) -> None:
        ctx.timers.register_event_time(77)

    found = pb.failure_of(in_batch(spark, with_keyed(sets)))
    assert type(found) is pb.CallFailed
    assert (found.key, found.row, found.timer) == ("3", None, "77 in event time")
    assert found.message == "nothing at 77"


def test_a_users_exception_in_the_column_form(spark: SparkSession, tmp_path: Path) -> None:
    class Fails(pb.ArrowKeyedProcessFunction):
        def process(self, batch: pa.RecordBatch, state: Any, ctx: Any) -> Any:
            raise LookupError("no such thing")

    seen = Seen(
        spark,
        tmp_path,
        lambda df: pb.process_keyed_arrow(df, Fails(), by="id", returns="y long", name="x"),
    )
    for found in seen.failures().values():
        assert type(found) is pb.CallFailed
        assert found.condition == "KEYED_CALL_FAILED"
        assert (found.kind, found.message) == ("LookupError", "no such thing")
        assert found.operator == "process_keyed(x)"
        assert found.key.startswith("(any of ")


def wrong_state(self: Any, row: Any, ctx: Any) -> None:
    self.n.update("x")


def wrong_output(self: Any, row: Any, ctx: Any) -> None:
    ctx.output("late", (1,))


def wrong_result(self: Any, row: Any, ctx: Any) -> Any:
    return ("x",)


def wrong_column(self: Any, row: Any, ctx: Any) -> Any:
    return (row.idd,)


@pytest.mark.parametrize(
    ("what", "kind", "name"),
    [
        (wrong_output, pb.StateError, "UNKNOWN_SIDE_OUTPUT"),
        (wrong_state, pb.ResultTypeMismatch, "STATE_TYPE_MISMATCH"),
        (wrong_result, pb.ResultTypeMismatch, "RESULT_TYPE_MISMATCH"),
        (wrong_column, pb.NoSuchColumn, "UNKNOWN_ROW_COLUMN"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_a_keyed_function_may_not_do(
    spark: SparkSession, tmp_path: Path, what: Any, kind: type[Any], name: str
) -> None:
    seen = Seen(spark, tmp_path, with_keyed(what))
    for found in seen.failures().values():
        assert type(found) is kind
        assert (found.condition, found.kind) == (name, name)
        assert (found.key, found.row) == ("3", "id=3, k=3")
    assert has_condition(spark, seen.errors["batch"], name)


def test_state_of_another_type_than_the_checkpoint_has(spark: SparkSession, tmp_path: Path) -> None:
    def counts(self: Any, row: Any, ctx: Any) -> None:
        self.n.update(1)

    class Other(Does):
        def open(self, ctx: Any) -> None:
            self.n = ctx.value_state("n", "string")

    assert stream(spark, tmp_path, with_keyed(counts)).awaitTermination(LIMIT_S)
    source = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    spark.range(3, 4).write.mode("append").parquet(str(tmp_path / "in"))
    changed = pb.process_keyed(
        source.withColumn("k", F.col("id")), Other(counts), by="k", returns="y long", name="Does"
    )
    query = (
        changed.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    error = raised_by(lambda: query.awaitTermination(LIMIT_S), StreamingQueryException)
    found = pb.failure_of(error)
    assert isinstance(found, pb.StateError)
    assert found.operator == "process_keyed(Does)"
    assert "state 'n'" in str(found).lower()


def test_a_keyed_worker_that_is_killed(spark: SparkSession) -> None:
    def dies(self: Any, row: Any, ctx: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    found = pb.failure_of(in_batch(spark, with_keyed(dies)))
    assert type(found) is pb.WorkerFailed
    assert (found.condition, found.operator) == ("PYTHON_WORKER_DIED", "process_keyed(Does)")


def test_an_error_that_is_not_ours_gives_none_whatever_it_says(spark: SparkSession) -> None:
    forged = "[ASYNC_CALL_FAILED] async_io(f): The call failed."

    def says(value: int) -> int:
        raise RuntimeError(forged)

    def says_later(value: int) -> int:
        raise RuntimeError(f"x\npillarbox.errors.CallFailed: {forged}")

    for function in (says, says_later):
        udf = F.udf(function, LongType(), useArrow=False)
        error = raised_by(spark.range(1).select(udf("id")).collect)
        assert forged in str(error)
        assert pb.failure_of(error) is None
    raising = spark.range(1).select(F.raise_error(F.lit(forged)))
    assert pb.failure_of(raised_by(raising.collect, Exception)) is None


def test_a_users_text_that_looks_like_ours_stays_a_text(spark: SparkSession, engine: str) -> None:
    forged = "[KEYED_CALL_FAILED] process_keyed(f): It failed."

    async def says(row: Any) -> int:
        raise RuntimeError(f"x\n{forged}")

    found = pb.failure_of(in_batch(spark, with_async(engine, says)))
    assert type(found) is pb.CallFailed
    assert (found.kind, found.message) == ("RuntimeError", f"x\n{forged}")


def test_an_error_without_a_traceback_is_found_in_each_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    calls = pb.async_io(source, refuses_three, returns="y long", carry_over=True)
    writer = calls.writeStream.format("noop").trigger(once=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    ended = raised_by(lambda: query.awaitTermination(LIMIT_S), StreamingQueryException)
    for error in (ended, query.exception()):
        found = pb.failure_of(error)
        assert found is not None
        assert found.condition == "CARRY_OVER_UNSUPPORTED"


async def told_the_password(row: Any) -> int:
    raise LookupError("no such account")


def with_password(df: DataFrame) -> DataFrame:
    return df.selectExpr("3L AS k", "concat('hunter', id) AS password")


def asks(**options: Any) -> Build:
    retry = pb.Retry(2, backoff="1ms", on=Exception)
    return lambda df: pb.async_io(
        with_password(df), told_the_password, returns="y long", retry=retry, **options
    )


def keeps(*by: str) -> Build:
    fails = Does(lambda self, row, ctx: 1 / 0)
    return lambda df: pb.process_keyed(with_password(df), fails, by=by, returns="y long")


HIDES: dict[str, Build] = {
    "jvm": asks(engine="jvm"),
    "python": asks(engine="python"),
    "carry_over": asks(carry_over=True, ordered=False),
    "keyed": keeps("k"),
    "key": keeps("k", "password"),
}


@pytest.mark.parametrize("way", HIDES)
def test_a_stream_shows_no_value_of_a_column_that_spark_redacts(
    spark: SparkSession, tmp_path: Path, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    query = stream(spark, tmp_path, HIDES[way])
    ended = raised_by(lambda: query.awaitTermination(LIMIT_S), StreamingQueryException)
    assert "redacted" in str(ended)
    told = capfd.readouterr()
    for text in (str(ended), repr(pb.failure_of(ended)), told.out, told.err):
        assert not re.search(r"hunter\d", text)
