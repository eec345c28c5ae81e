"""What goes wrong in a user's function or data on Spark, and what the error says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed.streams import Stream
from spark_support import process_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, v bigint"


class Does(pb.KeyedProcessFunction):
    """Declares and does what a test says."""

    def __init__(self, do: Callable[..., Any], open: Callable[..., Any] | None = None) -> None:
        self.do, self.declare = do, open

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")
        if self.declare is not None:
            self.declare(self, ctx)

    def process(self, row: Any, ctx: Any) -> Any:
        return self.do(self, row, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        raise LookupError(f"nothing at {timestamp}")


def failure(df: DataFrame, fn: Any, **options: Any) -> str:
    """The message of the error that running the function ends in."""
    result = df.transform(process_of(fn), fn, **{"by": "k", "returns": "x bigint", **options})
    with pytest.raises(PySparkException) as caught:
        result.collect()
    return str(caught.value)


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", 1)], SCHEMA)


@pytest.fixture(params=[False, True], ids=["batch", "stream"])
def either(request: pytest.FixtureRequest, spark: SparkSession, df: DataFrame) -> DataFrame:
    if not request.param:
        return df
    return spark.readStream.format("rate").load().selectExpr("'a' AS k", "value AS v")


def test_a_key_column_that_is_missing_is_named_with_those_there_are(either: DataFrame) -> None:
    with pytest.raises(pb.InvalidOption, match="by names the column x, but there is only k, v"):
        either.transform(pb.process_keyed, Does(print), by="x", returns="x bigint")


def test_a_map_is_no_key(either: DataFrame) -> None:
    mapped = either.withColumn("m", F.create_map("k", "v"))
    with pytest.raises(pb.InvalidSchema, match="m of type map<string,bigint>, whose values"):
        mapped.transform(pb.process_keyed, Does(print), by="m", returns="x bigint")
    nested = either.withColumn("s", F.struct(F.create_map("k", "v")))
    with pytest.raises(pb.InvalidSchema, match="whose values can't be compared"):
        nested.transform(pb.process_keyed, Does(print), by=["k", "s"], returns="x bigint")


def counts(df: DataFrame) -> DataFrame:
    def count(self: Any, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        yield {"k": ctx.key, "n": self.n.value()}

    return df.transform(pb.process_keyed, Does(count), by="k", returns="k string, n bigint")


def test_null_keys_are_a_group_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(None, 1), ("a", 1), (None, 2), ("", 3)]
    wanted = {(None, 1), (None, 2), ("a", 1), ("", 1)}
    assert set(map(tuple, counts(spark.createDataFrame(rows, SCHEMA)).collect())) == wanted
    stream = Stream(spark, tmp_path, SCHEMA, counts)
    stream.add(*rows[:2]).add(*rows[2:])
    assert set(stream.run()) == wanted


def test_state_outside_a_key(df: DataFrame) -> None:
    message = failure(df, Does(print, open=lambda self, ctx: self.n.value()))
    assert "[NO_CURRENT_KEY]" in message
    assert "Does" in message
    assert "process and on_timer only" in message


def test_a_state_that_was_not_registered(df: DataFrame) -> None:
    fn = Does(
        lambda self, row, ctx: self.opened.value_state("late", "bigint"),
        open=lambda self, ctx: setattr(self, "opened", ctx),
    )
    message = failure(df, fn)
    assert "[STATE_OUTSIDE_OPEN] The state 'late' of Does" in message

    class Columns(pb.ArrowKeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            ctx.value_state("n", "bigint")

        def process(self, batch: Any, state: Any, ctx: Any) -> Any:
            state["m"]

    message = failure(df, Columns())
    assert "[UNKNOWN_STATE] There is no state 'm'; declared are 'n'" in message


@pytest.mark.parametrize("name", [pb.TIMERS, pb.WAITING_ROWS, "pillarbox x"])
def test_a_name_that_a_checkpoint_has_for_something_else(df: DataFrame, name: str) -> None:
    message = failure(df, Does(print, open=lambda self, ctx: ctx.value_state(name, "bigint")))
    assert "[INVALID_OPTION] name must be a name that doesn't begin with 'pillarbox '" in message


def test_two_types_under_one_name(df: DataFrame) -> None:
    message = failure(df, Does(print, open=lambda self, ctx: ctx.list_state("n", "string")))
    assert "[STATE_NAME_TAKEN]" in message
    assert "declared as value state of bigint and again as list state of string" in message


@pytest.mark.parametrize(
    ("do", "wanted"),
    [
        (lambda self, row, ctx: self.n.update("five"), ("state n", "bigint", "'five'", "str")),
        (lambda self, row, ctx: self.n.update(1 << 63), ("state n", "9223372036854775808")),
        (lambda self, row, ctx: [{"x": "six"}], ("column x", "bigint", "'six'", "str")),
    ],
)
def test_a_value_that_does_not_fit_is_shown_with_its_place_and_type(
    df: DataFrame, do: Any, wanted: tuple[str, ...]
) -> None:
    message = failure(df, Does(do))
    kind = "STATE" if "state n" in wanted else "RESULT"
    for part in (f"[{kind}_TYPE_MISMATCH]", "the key 'a' in process", *wanted):
        assert part in message


def run_stream(spark: SparkSession, folder: Path, fn: Any, timed: bool = False) -> str:
    def build(df: DataFrame) -> DataFrame:
        if timed:
            df = df.withColumn("ts", F.timestamp_millis("v")).withWatermark("ts", "0 seconds")
        return df.transform(process_of(fn), fn, by="k", returns="x bigint")

    stream = Stream(spark, folder, SCHEMA, build)
    with pytest.raises(PySparkException) as caught:
        stream.add(("a", 1000)).add(("b", 5000)).run()
    return str(caught.value)


def test_an_event_time_timer_of_a_stream_without_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    fn = Does(lambda self, row, ctx: ctx.timers.register_event_time(row.v))
    message = run_stream(spark, tmp_path, fn)
    assert "[TIMER_WITHOUT_WATERMARK] Does registered an event-time timer" in message
    assert "withWatermark" in message


def test_an_exception_in_on_timer_shows_its_traceback_key_and_operator(
    spark: SparkSession, df: DataFrame, tmp_path: Path
) -> None:
    fn = Does(lambda self, row, ctx: ctx.timers.register_event_time(row.v + 1))
    for message in (failure(df, fn), run_stream(spark, tmp_path, fn, timed=True)):
        assert "process_keyed(Does): The function failed for the key 'a' in on_timer" in message
        assert "LookupError: nothing at " in message
        assert 'raise LookupError(f"nothing at {timestamp}")' in message
        assert "at io.pillarbox" not in message.split("JVM stacktrace")[0]


SHOWN = "k string, v bigint, note string"


def fails_at_three(self: Any, row: Any, ctx: Any) -> Any:
    if row.v == 3:
        raise LookupError("three")
    return [{"x": row.v}]


def fits_but_three(self: Any, row: Any, ctx: Any) -> Any:
    return [{"x": row.v if row.v != 3 else "three"}]


@pytest.mark.parametrize("do", [fails_at_three, fits_but_three])
def test_the_row_that_failed_is_shown_wherever_it_is_in_its_frame(
    spark: SparkSession, do: Any
) -> None:
    rows = [("a", v, "n" * 500 if v == 3 else "") for v in range(10)] + [("b", 8, "")]
    df = spark.createDataFrame(rows, SHOWN).coalesce(1)
    message = failure(df, Does(do), order_by="v")
    assert "for the key 'a' in process(Row(k='a', v=3, note='nnn" in message
    assert "n" * 300 not in message


def test_a_timer_whose_row_does_not_fit_is_shown(df: DataFrame) -> None:
    class Late(Does):
        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield "late" if timestamp == 7 else timestamp

    def sets(self: Any, row: Any, ctx: Any) -> None:
        for time in (5, 7, 9):
            ctx.timers.register_event_time(time)

    message = failure(df, Late(sets))
    assert "It came for the key 'a' in on_timer(7) in event time." in message


def test_nothing_comes_out_of_an_empty_tuple(df: DataFrame) -> None:
    for nothing in ((), []):
        fn = Does(lambda self, row, ctx, nothing=nothing: nothing)
        out = df.transform(pb.process_keyed, fn, by="k", returns="x bigint, y string, z int")
        assert out.collect() == []


class Nothing(pb.KeyedProcessFunction):
    def process(self, row: Any, ctx: Any) -> Any:
        return None


class Silent(Nothing):
    """Sets a timer that nobody handles."""

    def __init__(self, kind: str, time: Any = 5) -> None:
        self.kind, self.time = kind, time

    def process(self, row: Any, ctx: Any) -> Any:
        getattr(ctx.timers, f"register_{self.kind}_time")(self.time)


class Mistyped(Silent):
    def on_timr(self, timestamp: int, ctx: Any) -> Any:
        return None


@pytest.mark.parametrize("kind", ["event", "processing"])
def test_a_timer_that_nobody_handles_is_refused_when_it_is_set(df: DataFrame, kind: str) -> None:
    for fn, instead in ((Silent(kind), ""), (Mistyped(kind), ", but a on_timr")):
        message = failure(df, fn)
        assert f"[TIMER_WITHOUT_ON_TIMER] {type(fn).__name__} registered a timer, but" in message
        assert f"has no method on_timer{instead}: nothing would happen" in message


def test_a_timer_for_a_row_without_a_time_says_what_to_name(df: DataFrame) -> None:
    fn = Does(lambda self, row, ctx: ctx.timers.register_event_time(ctx.timestamp))
    message = failure(df, fn)
    assert "[TIMER_WITHOUT_TIME] Does registered an event-time timer for None" in message
    later = failure(
        df, Does(lambda self, row, ctx: ctx.timers.register_event_time(ctx.timestamp + 5))
    )
    for text in (message, later):
        assert "timestamp=" in text
    assert "ctx.timestamp is None" in later


def test_a_column_that_a_row_lacks_is_told_with_those_it_has(df: DataFrame) -> None:
    message = failure(df, Does(lambda self, row, ctx: [row.vv]))
    assert (
        "[UNKNOWN_ROW_COLUMN] The row has no column 'vv'; the nearest is v, and there are k, v"
        in (message)
    )
