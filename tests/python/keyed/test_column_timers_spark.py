"""Timers of the column form on Spark, beside those of the row form in the same program."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed import timer_programs
from keyed.streams import Stream, settings
from keyed.timer_programs import RETURNS, Columns, Rows
from spark_support import process_of

cloudpickle.register_pickle_by_value(timer_programs)
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
PARTITIONS = "spark.sql.shuffle.partitions"
SCHEMA = "k string, t bigint, v bigint"
BATCHES = 6
FORMS: dict[str, Any] = {"rows": Rows, "columns": Columns}


def build(form: str, backend: str = "heap", initial: Any = None, ttl: Any = None) -> Any:
    def query(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "5 milliseconds")
        function = FORMS[form]("event_time", None if ttl is None else pb.StateTtl(**ttl))
        return timed.transform(
            process_of(function), function, by="k", returns=RETURNS, name="timers",
            backend=backend, initial_state=initial, timestamp="ts",
        )  # fmt: skip

    return query


def micro_batches(dice: random.Random) -> list[list[tuple[str, int, int]]]:
    latest, batches = 0, []
    for _ in range(BATCHES):
        times = [max(1, latest - 4) + dice.randrange(15) for _ in range(30)]
        batches.append([(f"k{dice.randrange(40)}", t, dice.randrange(1, 9)) for t in times])
        latest = max(times)
    return batches


def kept(spark: SparkSession, stream: Stream) -> list[Any]:
    """The timers and the states of a checkpoint."""
    read = [pb.read_state(spark, stream.checkpoint, "timers", name) for name in ("n", "due")]
    timers = pb.read_state(spark, stream.checkpoint, "timers", pb.TIMERS)
    return [
        sorted(timers.select("key.k", "epoch_ms", "time_domain").collect()),
        *(sorted(one.select("key.k", "value", "timestamp").collect()) for one in read),
    ]


@pytest.mark.parametrize(
    ("format", "ttl"),
    [
        ("2", {"duration": "20 ms", "time_domain": "event_time"}),
        pytest.param("1", None, marks=pytest.mark.nightly),
    ],
)
def test_a_stream_fires_and_keeps_what_the_row_form_does_over_restarts(
    spark: SparkSession, tmp_path: Path, format: str, ttl: Any
) -> None:
    """With another backend or another number of partitions each time, or as before."""
    found = {}
    with settings(spark, **{FORMAT: format, PARTITIONS: "2"}):
        for form in FORMS:
            dice = random.Random(format)
            stream = Stream(spark, tmp_path / form, SCHEMA, build(form))
            rows: list[Any] = []
            for number, batch in enumerate(micro_batches(dice), 1):
                stream.add(*batch)
                if number == BATCHES or dice.random() < 0.4:
                    spark.conf.set(PARTITIONS, str(dice.choice([1, 2, 3, 4])))
                    rows = stream.run(build(form, dice.choice(["heap", "rocksdb"]), ttl=ttl))
            found[form] = sorted(map(tuple, rows), key=repr), kept(spark, stream)
    assert found["columns"] == found["rows"]
    assert len(found["rows"][0]) > 15
    assert found["rows"][1][0]  # timers that wait


def test_a_batch_fires_what_the_row_form_does_however_it_is_cut(spark: SparkSession) -> None:
    rows = [row for batch in micro_batches(random.Random(1)) for row in batch]
    df = spark.createDataFrame(rows, SCHEMA)
    expected = sorted(build("rows")(df).collect(), key=repr)
    assert len(expected) > 5
    for most in ("0", "3"):
        with settings(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": most}):
            assert sorted(build("columns")(df).collect(), key=repr) == expected


def test_a_new_query_starts_with_states_and_timers_of_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = Stream(spark, tmp_path / "first", SCHEMA, build("columns"))
    first.add(("a", 10, 51), ("b", 10, 4), ("c", 10, 7)).run()
    assert [len(one) for one in kept(spark, first)] == [2, 3, 2]

    def stored(*names: str) -> dict[str, DataFrame]:
        return {name: pb.read_state(spark, first.checkpoint, "timers", name) for name in names}

    second = Stream(spark, tmp_path / "second", SCHEMA, None)  # type: ignore[arg-type]
    for names, missing in ((("n", "due"), "pb.TIMERS"), (("n", pb.TIMERS), "'due'")):
        second.add(("z", 70, 2))
        with pytest.raises(Exception, match=rf"INITIAL_TIMER_ALONE.* but not {missing}"):
            second.run(build("columns", initial=stored(*names)))
    third = Stream(spark, tmp_path / "third", SCHEMA, None)  # type: ignore[arg-type]
    third.add(("b", 30, 90), ("z", 30, 2)).add(("z", 80, 2)).add(("z", 81, 2))
    rows = third.run(build("columns", initial=stored("n", "due", pb.TIMERS)))
    assert sorted(map(tuple, rows)) == [
        ("a", 61, 51),
        ("a", 63, 52),
        ("c", 17, 7),
        ("c", 19, 8),
        ("c", 21, 9),
    ]


@pytest.mark.parametrize(
    ("state", "timer", "found"),
    [
        (61, None, ("61", "no time")),
        (None, 61, ("no time", "61")),
        (62, 61, ("62", "61")),
    ],
)
def test_an_initial_timer_that_is_another_than_its_state_is_refused_with_its_key(
    spark: SparkSession, state: int | None, timer: int | None, found: tuple[str, str]
) -> None:
    """As read while the query runs, or with a filter on one of them: nobody would be told of it."""

    def entries(time: int | None, *columns: str) -> DataFrame:
        keys = {"same": 50, "other": time}
        rows = [(key, at) for key, at in keys.items() if at is not None]
        return spark.createDataFrame(rows, "k string, at bigint").selectExpr(
            "struct(k) AS key", *columns
        )

    initial = {
        "due": entries(state, "at AS value", "CAST(NULL AS timestamp) AS timestamp"),
        pb.TIMERS: entries(
            timer, "'event_time' AS time_domain", "timestamp_millis(at) AS timestamp"
        ),
    }
    df = spark.createDataFrame([("b", 1, 2)], SCHEMA)
    own, others = found
    refused = f"DIFFERS.* {own} in the state 'due' of the key 'other', and {others} in pb.TIMERS"
    with pytest.raises(Exception, match=refused):
        build("columns", initial=initial)(df).collect()


class Declares(pb.ArrowKeyedProcessFunction):
    """Declares one column, a timer of a time domain or a state."""

    def __init__(self, domain: str | None) -> None:
        self.domain = domain

    def open(self, ctx: Any) -> None:
        if self.domain is None:
            ctx.value_state("due", "bigint")
        else:
            ctx.timer("due", time_domain=self.domain)

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        state["due"] = pb.columns.group_last(batch["v"], state.index)

    def on_timers(self, batch: Any, state: Any, ctx: Any) -> None:
        return None


def declaring(domain: str | None) -> Any:
    def query(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t")).withWatermark("ts", "5 milliseconds")
        return timed.transform(
            pb.process_keyed_arrow, Declares(domain), by="k", returns=RETURNS, name="timers"
        )

    return query


@pytest.mark.parametrize(
    ("first", "second", "was", "now"),
    [
        ("event_time", "processing_time", "a timer in event time", "a timer in processing time"),
        (None, "event_time", "a state", "a timer in event time"),
        ("processing_time", None, "a timer in processing time", "a state"),
    ],
)
def test_a_timer_stays_one_and_in_its_domain(
    spark: SparkSession, tmp_path: Path, first: Any, second: Any, was: str, now: str
) -> None:
    """Its owner has the timers that are set, which another declaration would not fire."""
    stream = Stream(spark, tmp_path, SCHEMA, declaring(first))
    stream.add(("a", 1, 1 << 60)).run()
    stream.add(("a", 2, 1 << 60))
    with pytest.raises(
        Exception, match=f"STATE_SCHEMA_INCOMPATIBLE.*it was {was}, it is now {now}"
    ):
        stream.run(declaring(second))
    assert stream.run(declaring(first)) == []


class Silent(pb.KeyedProcessFunction):
    """Has no ``on_timer``."""

    def process(self, row: Any, ctx: Any) -> Any:
        return None


def of_form(form: str, df: DataFrame, initial: dict[str, DataFrame]) -> DataFrame:
    if form == "scan":
        return pb.scan(
            df, by="k", state={"n": ("0L", "n + v")}, select=["n"], initial_state=initial
        )
    operator, function = {
        "row": (pb.process_keyed, Silent()),
        "no timer": (pb.process_keyed_arrow, Declares(None)),
        "another timer": (pb.process_keyed_arrow, Declares("processing_time")),
    }[form]
    return operator(df, function, by="k", returns=RETURNS, initial_state=initial)


@pytest.mark.parametrize("form", ["row", "no timer", "another timer", "scan"])
def test_initial_timers_that_the_function_does_not_handle_are_refused(
    spark: SparkSession, form: str
) -> None:
    """They would fire, and the function would not be told."""

    def entries(text: str) -> DataFrame:
        return spark.sql(f"SELECT struct('a') AS key, {text}, now() AS timestamp")

    initial = {pb.TIMERS: entries("'event_time' AS time_domain")}
    if form == "another timer":
        initial["due"] = entries("1L AS value")
    rows = spark.createDataFrame([("a", 1, 2)], SCHEMA)
    refused = "INITIAL_TIMER_INVALID.*key 'a' with the time_domain event_time, whose timers"
    with pytest.raises(Exception, match=refused):
        of_form(form, rows, initial).collect()
