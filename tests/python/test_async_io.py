"""What ``async_io`` promises, on each engine alike."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections import Counter

import pytest
from pyspark.errors import PythonException
from pyspark.sql import Row
from pyspark.sql import functions as F

import pillarbox as pb
from spark_support import by_value, run_stream

by_value(__name__)


@pytest.fixture
def numbers(spark):
    """0 to 39 in two partitions, in order."""
    return spark.range(0, 40, 1, 2)


@pytest.fixture
def call(engine):
    """``pb.async_io`` on the engine under test."""

    def apply(df, function, **options):
        return df.transform(pb.async_io, function, engine=engine, **options)

    return apply


async def double(row):
    await asyncio.sleep(0)
    return row.id * 2


def test_each_row_gets_its_answer_and_keeps_its_columns(numbers, call):
    df = numbers.withColumn("name", F.concat(F.lit("n"), "id"))
    out = call(df, double, returns="twice long")
    assert out.columns == ["id", "name", "twice"]
    assert out.collect() == [Row(id=i, name=f"n{i}", twice=2 * i) for i in range(40)]


def test_the_plan_can_be_made_again_cached_and_joined_with_itself(numbers, call):
    out = call(numbers, double, returns="twice long")
    assert out.count() == out.count() == 40
    cached = out.cache()
    assert cached.agg(F.sum("twice")).first()[0] == 1560
    assert cached.agg(F.sum("twice")).first()[0] == 1560
    cached.unpersist()
    left, right = out.alias("l"), out.alias("r")
    assert left.join(right, F.col("l.id") == F.col("r.twice")).count() == 20


async def later_first(row):
    await asyncio.sleep(0.001 * (20 - row.id % 20))
    return row.id


def test_ordered_rows_stay_in_order_within_their_partition(numbers, call):
    out = call(numbers, later_first, returns="y long", ordered=True)
    assert [row.y for row in out.collect()] == list(range(40))


def test_unordered_rows_are_the_same_rows(numbers, call):
    out = call(numbers, later_first, returns="y long", ordered=False)
    assert sorted(row.y for row in out.collect()) == list(range(40))


@dataclasses.dataclass
class Answer:
    a: int
    b: str


async def shapes(row):
    kinds = [
        {"a": 1, "b": "x", "more": 2}, (1, "x"), Row(b="x", a=1), Answer(1, "x"), {"b": "x"}, None,
    ]  # fmt: skip
    return kinds[row.id]


def test_answers_come_in_all_shapes(spark, call):
    out = call(spark.range(0, 6, 1, 1), shapes, returns="a int, b string").collect()
    whole = [(row.a, row.b) for row in out]
    assert whole == [(1, "x")] * 4 + [(None, "x"), (None, None)]


def test_explode_gives_any_number_of_rows_and_none_gives_nulls(spark, call):
    async def answer(row):
        return None if row.id == 2 else [row.id] * row.id

    out = call(spark.range(0, 5, 1, 1), answer, returns="y long", explode=True)
    assert Counter(row.y for row in out.collect()) == {1: 1, None: 1, 3: 3, 4: 4}


def test_inputs_choose_what_the_function_sees(numbers, call):
    async def look(row):
        return ",".join(row.__fields__)

    df = numbers.select("id", F.lit("x").alias("b"), F.lit(1).alias("c"))
    out = call(df, look, returns="seen string", inputs=["c", "ID"])
    assert out.columns == ["id", "b", "c", "seen"]
    assert {row.seen for row in out.collect()} == {"c,id"}


def test_a_row_behaves_like_pysparks_own(spark, call):
    async def look(row):
        assert isinstance(row, Row)
        nested = row["s"]
        return f"{row.id} {row[0]} {nested.a} {nested['a']} {row.asDict()['id']} {'id' in row}"

    df = spark.range(1).select("id", F.struct(F.lit(5).alias("a")).alias("s"))
    assert call(df, look, returns="seen string").first().seen == "0 0 5 5 0 True"


def test_a_plain_function_runs_in_threads_at_the_same_time(spark, call):
    def meet(row):
        gate = BARRIERS.setdefault(os.getpid(), threading.Barrier(5))
        gate.wait(30)
        return threading.current_thread() is threading.main_thread()

    out = call(spark.range(0, 10, 1, 1), meet, returns="in_main boolean", capacity=5)
    assert {row.in_main for row in out.collect()} == {False}


BARRIERS: dict[int, threading.Barrier] = {}


@pytest.mark.parametrize("is_async", [True, False])
def test_the_batch_form_answers_rows_together_and_in_order(numbers, call, is_async):
    async def batch(rows):
        return [(row.id * 10, len(rows)) for row in rows]

    def plain_batch(rows):
        return [(row.id * 10, len(rows)) for row in rows]

    out = call(
        numbers,
        batch if is_async else plain_batch,
        returns="y long, size int",
        batch_size=pb.BatchSize(5, wait="50ms"),
    ).collect()
    assert [row.y for row in out] == [i * 10 for i in range(40)]
    assert max(row.size for row in out) == 5


class Client:
    """Counts how often it was opened in this process."""

    opened = 0

    async def __aenter__(self):
        type(self).opened += 1
        return f"{os.getpid()}:{self.opened}"

    async def __aexit__(self, *_):
        pass


async def use(row, client):
    return client


def test_a_resource_is_opened_once_for_all_rows_of_a_task(spark, call):
    out = call(spark.range(0, 50, 1, 1), use, returns="client string", resource=Client)
    assert len({row.client for row in out.collect()}) == 1


def test_a_resource_may_be_any_context_manager(spark, call):
    @contextlib.asynccontextmanager
    async def factory():
        yield "asynchronous"

    @contextlib.contextmanager
    def plain():
        yield "plain"

    for resource, name in ((factory, "asynchronous"), (plain, "plain")):
        out = call(spark.range(1), use, returns="client string", resource=resource)
        assert out.first().client == name


async def fails_on_seven(row):
    if row.id == 7:
        raise ValueError("seven is bad")
    return row.id


def test_raise_fails_the_job_with_the_users_error_and_traceback_once(numbers, call):
    with pytest.raises(PythonException) as failure:
        call(numbers, fails_on_seven, returns="y long").collect()
    text = str(failure.value)
    assert "ASYNC_CALL_FAILED" in text
    assert "ValueError: seven is bad" in text
    assert "in fails_on_seven" in text


def test_null_leaves_the_new_columns_of_a_failed_row_null(numbers, call):
    out = call(numbers, fails_on_seven, returns="y long", on_error="null").collect()
    assert [row.y for row in out] == [None if i == 7 else i for i in range(40)]


def test_column_tells_of_the_failure_beside_the_row(numbers, call):
    out = call(
        numbers, fails_on_seven, returns="y long", on_error=pb.ErrorColumn("why"),
        retry=pb.Retry(3, backoff="1ms"),
    )  # fmt: skip
    assert out.schema["why"].dataType.simpleString() == (
        "struct<kind:string,message:string,attempts:int,elapsed_ms:bigint,call_id:string>"
    )
    rows = out.collect()
    assert all(row.why is None and row.y == row.id for row in rows if row.id != 7)
    why = rows[7].why
    assert (rows[7].y, why.kind, why.message, why.attempts) == (
        None, "ValueError", "seven is bad", 3,
    )  # fmt: skip
    assert why.elapsed_ms >= 1


def test_the_error_column_has_the_id_that_the_service_was_given(numbers, call):
    async def fails(row):
        raise ValueError(pb.call_id())

    out = call(numbers, fails, returns="y long", on_error="column").collect()
    assert [row.error.message for row in out] == [row.error.call_id for row in out]
    assert len({row.error.call_id for row in out}) == 40


def test_a_failed_row_of_explode_stays_one_row(numbers, call):
    async def answer(row):
        return [(await fails_on_seven(row))] * 2

    out = call(numbers, answer, returns="y long", on_error="null", explode=True)
    assert Counter(row.id for row in out.collect())[7] == 1
    assert out.count() == 79


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("text", "column y must be bigint, but it is 'text' (a str)"),
        (1.5, "column y must be bigint, but it is 1.5 (a float)"),
        (2**63, "column y must be bigint"),
        ([1], "column y must be bigint, but it is [1] (a list)"),
        (
            {"z": 1},
            "must return a dict, tuple, Row, dataclass or pydantic model with the columns y",
        ),
    ],
    ids=str,
)
def test_a_result_of_the_wrong_type_fails_its_row_alone(numbers, call, answer, told):
    async def wrong(row):
        return answer if row.id == 3 else row.id

    out = call(
        numbers, wrong, returns="y long", on_error="column", retry=pb.Retry(5, backoff="1ms")
    ).collect()
    assert [row.y for row in out] == [None if i == 3 else i for i in range(40)]
    assert out[3].error.kind.endswith("_MISMATCH")
    assert told in out[3].error.message
    assert out[3].error.attempts == 1


def test_a_result_of_the_wrong_type_fails_the_job_naming_column_type_and_value(numbers, call):
    async def wrong(row):
        return "text"

    with pytest.raises(PythonException, match=r"column y must be bigint, but it is 'text'"):
        call(numbers, wrong, returns="y long").collect()


class Service(pb.AsyncFunction):
    """Tells in each answer what was done with it."""

    def __init__(self, url):
        self.url = url
        self.events = []

    async def open(self, ctx):
        await asyncio.sleep(0)
        self.events.append(f"open {ctx.name}")

    async def invoke(self, row):
        return f"{self.url} {self.events}"

    async def close(self):
        await asyncio.sleep(0)
        self.events.append("close")


class PlainService(Service):
    def open(self, ctx):
        self.events.append(f"open {ctx.name}")

    def invoke(self, rows):
        in_main = threading.current_thread() is threading.main_thread()
        return [f"{self.url} {self.events} {in_main}"] * len(rows)

    def close(self):
        self.events.append("close")


def test_an_object_is_opened_in_the_worker_before_its_first_call(numbers, call):
    out = call(numbers, Service("a"), returns="told string")
    assert {row.told for row in out.collect()} == {"a ['open Service']"}
    out = call(numbers, PlainService("b"), returns="told string", batch_size=8, name="plain")
    assert {row.told for row in out.collect()} == {"b ['open plain'] False"}


def test_an_object_that_fails_to_open_is_reported_with_its_name(spark, call):
    class Refused(Service):
        def open(self, ctx):
            raise ConnectionRefusedError("nobody there")

    with pytest.raises(PythonException, match=r"RESOURCE_OPEN_FAILED.*Refused.open") as failure:
        call(spark.range(1), Refused("a"), returns="y string").collect()
    assert "nobody there" in str(failure.value)


def test_an_object_that_cannot_be_pickled_is_refused_by_its_name(spark, call):
    service = Service(threading.Lock())
    with pytest.raises(pb.InvalidFunction, match="Service can't be sent"):
        call(spark.range(1), service, returns="y string")


def test_the_current_call_tells_its_ids_its_attempt_and_its_operator(spark, call):
    def told():
        one = pb.current_call()
        return f"{one.ids == [one.id] == [pb.call_id()]} {one.attempt} {one.operator}"

    async def second_time_lucky(row):
        if pb.current_call().attempt == 1:
            raise ConnectionError
        return told()

    retry = pb.Retry(3, backoff="1ms")
    out = call(spark.range(1), second_time_lucky, returns="t string", retry=retry, name="lucky")
    assert out.first().t == "True 2 lucky"
    out = call(spark.range(1), lambda row: told(), returns="t string", name="plain")
    assert out.first().t == "True 1 plain"


def test_what_is_not_retryable_is_not_tried_again(numbers, call):
    async def gone(row):
        raise pb.NotRetryable("gone for good")

    retry = pb.Retry(5, backoff="1ms", on=Exception)
    why = call(numbers, gone, returns="y long", on_error="column", retry=retry).first().error
    assert (why.kind, why.message, why.attempts) == ("NotRetryable", "gone for good", 1)


@contextlib.asynccontextmanager
async def time_of_opening():
    yield time.monotonic()


@pytest.mark.parametrize(
    "limit", [pb.Limit(concurrency=3, scope="task"), pb.Limit(per_second=40, scope="task")]
)
def test_a_limit_of_a_task_holds_on_both_engines(spark, call, limit):
    async def watch(row, opened):
        IN_FLIGHT["now"] += 1
        most = IN_FLIGHT["now"]
        await asyncio.sleep(0.01)
        IN_FLIGHT["now"] -= 1
        return most, time.monotonic() - opened

    out = call(
        spark.range(0, 40, 1, 1),
        watch,
        returns="most int, at double",
        limit=limit,
        resource=time_of_opening,
    ).collect()
    if limit.concurrency:
        assert max(row.most for row in out) == 3
    else:
        assert max(row.at for row in out) >= 39 / 40 * 0.75


IN_FLIGHT: Counter[str] = Counter()
ATTEMPTS: Counter[str] = Counter()


def test_retries_go_on_until_one_succeeds_under_one_call_id(spark, call):
    async def third_time_lucky(row):
        ATTEMPTS[pb.call_id()] += 1
        if ATTEMPTS[pb.call_id()] < 3:
            raise ConnectionError
        return ATTEMPTS[pb.call_id()]

    retry = pb.Retry(4, backoff="1ms", on=ConnectionError)
    out = call(spark.range(0, 10, 1, 1), third_time_lucky, returns="n int", retry=retry)
    assert {row.n for row in out.collect()} == {3}


def test_what_retry_on_does_not_name_is_not_tried_again(numbers, call):
    retry = pb.Retry(4, backoff="1ms", on=lambda problem: isinstance(problem, ConnectionError))
    out = call(numbers, fails_on_seven, returns="y long", on_error="column", retry=retry)
    assert out.collect()[7].error.attempts == 1


def test_a_refused_result_is_tried_again_and_the_last_one_used(spark, call):
    async def count(row):
        ATTEMPTS[pb.call_id()] += 1
        return ATTEMPTS[pb.call_id()]

    retry = pb.Retry(3, backoff="1ms", if_result=lambda answer: answer < 2 or answer > 90)
    out = call(spark.range(0, 5, 1, 1), count, returns="n int", retry=retry)
    assert {row.n for row in out.collect()} == {2}

    async def never(row):
        return -1

    out = call(spark.range(0, 5, 1, 1), never, returns="n int", retry=retry)
    assert {row.n for row in out.collect()} == {-1}


def test_retry_after_is_obeyed(spark, call):
    async def busy(row):
        first = ATTEMPTS.setdefault(pb.call_id(), time.monotonic())
        if time.monotonic() - first < 0.3:
            raise pb.RetryAfter(0.3)
        return time.monotonic() - first

    out = call(spark.range(1), busy, returns="waited double", retry=pb.Retry(2, backoff="1ms"))
    assert 0.3 <= out.first().waited < 5


def test_retry_after_without_retry_says_what_is_missing(spark, call):
    async def busy(row):
        raise pb.RetryAfter(1)

    out = call(spark.range(1), busy, returns="y long", on_error="column").first()
    assert out.error.kind == "RETRY_AFTER_WITHOUT_RETRY"
    assert "retry=3" in out.error.message


async def never_returns(row):
    if row.id == 3:
        await asyncio.Event().wait()
    return row.id


def test_a_coroutine_that_never_returns_meets_its_timeout(numbers, call):
    out = call(numbers, never_returns, returns="y long", timeout="1s", on_error="column").collect()
    assert [row.y for row in out] == [None if i == 3 else i for i in range(40)]
    why = out[3].error
    assert (why.kind, why.attempts) == ("TIMEOUT", 1)
    assert "total timeout" in why.message
    assert 990 <= why.elapsed_ms < 5000


def test_an_attempt_timeout_is_retried_and_then_told(numbers, call):
    out = call(
        numbers,
        never_returns,
        returns="y long",
        timeout=pb.Timeout(attempt="100ms"),
        on_error="column",
        retry=pb.Retry(2, backoff="1ms"),
    ).collect()
    why = out[3].error
    assert (why.kind, why.attempts) == ("TIMEOUT", 2)
    assert "attempt timeout" in why.message


def test_call_ids_differ_between_rows_and_are_alike_when_the_query_runs_again(numbers, call):
    async def identify(row):
        return pb.call_id()

    out = call(numbers, identify, returns="c string")
    first, again = ([row.c for row in out.collect()] for _ in range(2))
    assert len(set(first)) == 40
    assert first == again


def test_sys_exit_is_an_error_of_the_function_that_names_itself(numbers, call):
    async def leaves(row):
        sys.exit(3)

    with pytest.raises(PythonException, match="SystemExit"):
        call(numbers, leaves, returns="y long").collect()


@pytest.mark.nightly
def test_a_blocked_event_loop_is_reported_with_its_stack(spark, call):
    async def hogs(row):
        time.sleep(3600)

    started = time.monotonic()
    with pytest.raises(PythonException, match="EVENT_LOOP_BLOCKED") as failure:
        call(spark.range(0, 1, 1, 1), hogs, returns="y long").collect()
    assert "in hogs" in str(failure.value)
    assert 5 <= time.monotonic() - started < 60


def test_a_resource_that_fails_to_open_is_reported_with_its_name(spark, call):
    def refused():
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(PythonException, match="RESOURCE_OPEN_FAILED") as failure:
        call(spark.range(1), use, returns="y string", resource=refused).collect()
    assert "nobody there" in str(failure.value)
    assert "refused" in str(failure.value)


@pytest.mark.classic
def test_broadcast_variables_reach_the_function(spark, numbers, call):
    names = spark.sparkContext.broadcast({i: f"name {i}" for i in range(40)})

    async def look_up(row):
        return names.value[row.id]

    for _ in range(2):
        out = call(numbers, look_up, returns="name string")
        assert [row.name for row in out.collect()] == [f"name {i}" for i in range(40)]


def test_more_rows_than_fit_the_window_or_a_batch_all_pass(spark, call):
    async def answer(row):
        return row.id

    for capacity, count in ((1, 1_000), (7, 5_000), (10_000, 25_000)):
        out = call(spark.range(0, count, 1, 2), answer, returns="y long", capacity=capacity)
        assert out.where("y = id").count() == count


def test_rows_above_a_limit_are_not_all_called(spark, call):
    async def answer(row):
        return row.id

    out = call(spark.range(0, 1_000_000, 1, 2), answer, returns="y long")
    assert len(out.limit(5).collect()) == 5


def test_operators_can_follow_each_other(numbers, call):
    async def again(row):
        return row.twice + 1

    out = call(call(numbers, double, returns="twice long"), again, returns="more long")
    assert [row.more for row in out.collect()] == [2 * i + 1 for i in range(40)]


def test_an_empty_input_gives_an_empty_output(spark, call):
    assert call(spark.range(0), double, returns="y long").collect() == []


def test_it_works_in_structured_streaming(spark, numbers, call, tmp_path):
    numbers.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    out = call(stream.parquet(str(tmp_path / "in")), double, returns="twice long")
    run_stream(out, tmp_path, "parquet")
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()
    assert [(row.id, row.twice) for row in rows] == [(i, 2 * i) for i in range(40)]


async def shown(row):
    return f"{tuple(row)} {row.__fields__}"


@pytest.mark.parametrize(
    "names",
    [
        ("id", "id", "y"),
        ("id", "ID", "y"),
        ("a.b", "c", "y"),
        ("a`b", "c d", "y"),
        ("c1", "c0", "y"),
    ],
    ids=str,
)
def test_columns_with_any_names_are_seen_and_passed_on(spark, call, names):
    rows = spark.range(0, 2, 1, 1).select("id", F.lit("x"), F.col("id") * 10).toDF(*names)
    out = call(rows, shown, returns="`s.t` string")
    assert out.columns == [*names, "s.t"]
    expected = [(i, "x", 10 * i, f"{(i, 'x', 10 * i)} {list(names)}") for i in range(2)]
    assert [tuple(row) for row in out.collect()] == expected
    chosen = call(rows, shown, returns="s string", inputs=["y"], on_error=pb.ErrorColumn("e.e"))
    assert [tuple(row)[3:] for row in chosen.collect()] == [
        (f"({10 * i},) ['y']", None) for i in range(2)
    ]


def test_an_input_that_is_there_twice_is_refused_by_name(spark, call):
    rows = spark.range(2).select("id", F.lit("x").alias("ID"))
    with pytest.raises(
        pb.InvalidOption, match="the column Id, but the DataFrame has 2 of that name"
    ):
        call(rows, shown, returns="s string", inputs=["Id"])


def test_rows_without_columns_are_rows(spark, call):
    found = call(spark.range(0, 4, 1, 2).select(), lambda row: len(row), returns="n long")
    assert [tuple(row) for row in found.collect()] == [(0,)] * 4
    assert found.count() == 4


def test_a_task_that_needs_no_more_answers_leaves_its_worker_fit_for_the_next(spark, call):
    async def longer(rows):
        return [f"{'x' * 300}{row.id}" for row in rows]

    rows = spark.range(0, 20000, 1, 1)
    answers = call(rows, longer, returns="v string", batch_size=20000, capacity=20000)
    for _ in range(6):
        assert len(answers.limit(1).collect()) == 1
        assert call(rows.limit(3), longer, returns="v string", batch_size=5).count() == 3
