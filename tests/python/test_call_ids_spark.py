"""``call_id``: another one for every call that is meant to be another, the same for the same."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from spark_support import CallLog, by_value, run_stream

by_value(__name__)


async def own_id(row: Any) -> str:
    return pb.call_id()


@pytest.fixture
def called(engine: str) -> Any:
    """A DataFrame with the id of each row's call."""

    def apply(df: DataFrame, name: str = "call", function: Any = own_id, **more: Any) -> DataFrame:
        returns = f"{name} string"
        return df.transform(pb.async_io, function, returns=returns, engine=engine, **more)

    return apply


def ids(df: DataFrame, *columns: str) -> list[str]:
    rows = df.select(*(columns or ["call"])).collect()
    return [value for row in rows for value in row]


def test_two_operators_of_one_function_over_one_frame(spark: SparkSession, called: Any) -> None:
    rows = spark.range(0, 20, 1, 2)
    one, other = called(rows), called(rows)
    both = one.join(other.withColumnRenamed("call", "again"), "id")
    assert len(set(ids(both, "call", "again"))) == 40
    assert len(set(ids(called(called(rows), "again"), "call", "again"))) == 40


async def refuses_odd_ids(row: Any) -> str:
    if row.id % 2:
        raise LookupError(row.id)
    return pb.call_id()


def test_failed_rows_that_are_called_anew_keep_their_ids_by_call_key_alone(
    spark: SparkSession,
) -> None:
    def ids_stay(**more: Any) -> set[bool]:
        asked = {"returns": "call string", "engine": "jvm", **more}
        rows = spark.range(0, 10, 1, 2)
        first = pb.async_io(rows, refuses_odd_ids, on_error="column", **asked).collect()
        failed = [(row.id, row.error.call_id) for row in first if row.error]
        anew = spark.createDataFrame(failed, "id bigint, first string")
        again = pb.async_io(anew, own_id, inputs="id", **asked).collect()
        assert sorted(row.id for row in again) == [1, 3, 5, 7, 9]
        return {row.call == row.first for row in again}

    assert ids_stay() == {False}
    assert ids_stay(call_key="id", name="asked") == {True}


def test_inputs_side_by_side(spark: SparkSession, called: Any) -> None:
    left, right = called(spark.range(10)), called(spark.range(10, 20))
    assert len(set(ids(left.union(right)))) == 20
    joined = left.join(right.withColumnRenamed("call", "other"), left.id == right.id - 10)
    assert len(set(ids(joined, "call", "other"))) == 20


def test_jobs_over_different_data(spark: SparkSession, called: Any) -> None:
    assert not set(ids(called(spark.range(10)))) & set(ids(called(spark.range(100, 110))))


def test_partitions_that_one_task_reads_after_each_other(spark: SparkSession, called: Any) -> None:
    rows = called(spark.range(0, 100, 1, 10))
    found = ids(rows.coalesce(1))
    assert len(set(found)) == 100
    assert set(found) == set(ids(rows))
    assert set(found) == set(ids(rows.union(rows)))


def test_a_shuffle_of_which_partitions_are_joined(spark: SparkSession, called: Any) -> None:
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    shuffled = spark.range(0, 100, 1, 4).groupBy((F.col("id") % 50).alias("id")).count()
    again = called(shuffled).groupBy("id").agg(F.collect_list("call").alias("calls"))
    found = [one for row in again.collect() for one in row.calls]
    assert len(set(found)) == len(found) == 50


def test_one_frame_has_the_same_ids_in_every_action(spark: SparkSession, called: Any) -> None:
    rows = called(spark.range(0, 20, 1, 2))
    rows.explain()
    first = ids(rows)
    assert ids(rows) == first
    assert ids(rows.where("id >= 0")) == first
    rows.createOrReplaceTempView("with_ids")
    assert ids(spark.table("with_ids").orderBy("id")) == first
    cached = rows.cache()
    try:
        assert ids(cached) == first
    finally:
        cached.unpersist(blocking=True)


def test_a_task_that_is_run_again_uses_the_same_ids(
    spark: SparkSession, called: Any, log: CallLog, tmp_path: Path
) -> None:
    async def logged(row: Any) -> str:
        log.write("start", key=row.id, call_id=pb.call_id())
        return pb.call_id()

    def fails_once(rows: Any) -> Any:
        yield from rows
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise RuntimeError("the first attempt fails after its calls")

    again = called(spark.range(0, 20, 1, 1), function=logged)
    stages = again.mapInArrow(fails_once, again.schema)
    with pytest.raises(Exception, match="the first attempt fails"):
        stages.collect()
    assert len(stages.collect()) == 20
    seen = {(record["key"], record["call_id"]) for record in log.events("start")}
    assert len(log.events("start")) == 40
    assert len(seen) == 20


class OwnIds(pb.AsyncKeyedProcessFunction):
    async def process(self, row: Any, ctx: Any) -> Any:
        if row.id == 3 and pb.current_call().attempt == 1:
            raise ConnectionError(pb.call_id())
        return row.id, pb.call_id()


def test_calls_of_a_keyed_function(spark: SparkSession) -> None:
    def ids_of(df: DataFrame, **more: Any) -> dict[int, str]:
        options = {"by": "k", "returns": "id bigint, call string", "order_by": "id", **more}
        made = pb.process_keyed_async(df, OwnIds(), retry=pb.Retry(2, backoff="1ms"), **options)
        found = dict(map(tuple, made.collect()))
        assert len(set(found.values())) == len(found) == 20
        assert found == dict(map(tuple, made.where("id >= 0").collect()))
        return found

    rows = spark.range(20).selectExpr("id % 3 AS k", "id")
    some = rows.where("id > 5").union(rows.where("id <= 5"))
    assert not set(ids_of(rows).values()) & set(ids_of(rows).values())
    assert ids_of(rows, call_key="id", name="asked") == ids_of(some, call_key="ID", name="asked")
    by_key = pb.process_keyed_async(
        rows, OwnIds(), by="k", returns="call string", inputs="id", call_key="k", name="asked",
        on_error="column", call_column="call_of",
    )  # fmt: skip
    seen = {
        (row.k, row.call_of.call_id)
        for row in by_key.selectExpr("call_of", "call", "0 k").collect()
    }
    assert len(seen) == 3


def test_a_call_key_of_a_keyed_function_needs_a_name_and_a_column(spark: SparkSession) -> None:
    def made(**options: Any) -> None:
        pb.process_keyed_async(spark.range(3), OwnIds(), by="id", returns="call string", **options)

    with pytest.raises(pb.InvalidOption, match="CALL_KEY_WITHOUT_NAME"):
        made(call_key="id")
    with pytest.raises(pb.PillarboxError, match="call_key"):
        made(call_key="other", name="asked")
    with pytest.raises(pb.InvalidOption, match="an answer goes with the state"):
        made(journal="/tmp/answers", name="asked")


class Query:
    """A query over files, a micro-batch each, that can be run again as another program would."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.files = 0

    def add(self, count: int = 10) -> None:
        rows = self.spark.range(0, count, 1, 1)
        for side in ("left", "right"):
            rows.write.mode("append").parquet(str(self.folder / side))
        self.files += 1

    def read(self, side: str = "left") -> DataFrame:
        reader = self.spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / side))

    def run(self, df: DataFrame, each: Any) -> None:
        run_stream(df, self.folder, each)


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, tmp_path)


class Batches:
    """What came of each micro-batch; the last one fails once, after all its calls."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.fail_at = fail_at
        self.attempts: dict[int, list[list[str]]] = {}

    def take(self, number: int, found: list[str]) -> None:
        self.attempts.setdefault(number, []).append(sorted(found))
        if number == self.fail_at:
            self.fail_at = None
            raise RuntimeError("the first attempt fails after its calls")

    def check(self, calls: int, batches: int) -> None:
        for found in self.attempts.values():
            assert all(len(set(one)) == calls == len(one) for one in found)
        ran_twice = [found for found in self.attempts.values() if len(found) == 2]
        assert len(ran_twice) == 1
        assert ran_twice[0][0] == ran_twice[0][1]
        everything = {one for found in self.attempts.values() for one in found[0]}
        assert len(self.attempts) == batches
        assert len(everything) == calls * batches


def run_with_a_failure(query: Query, plan: Any, each: Any) -> None:
    """``plan`` is made anew after the failure, as by a program that is started again."""
    for _ in range(2):
        query.add()
    with pytest.raises(Exception, match="the first attempt fails"):
        query.run(plan(), each)
    query.run(plan(), each)


def test_calls_in_foreach_batch(query: Query, called: Any) -> None:
    seen = Batches(fail_at=1)

    def each(rows: DataFrame, number: int) -> None:
        first, second = called(rows), called(rows)
        found = ids(first)
        # Another action on the same frame repeats its calls.
        assert ids(first) == found
        union = rows.sparkSession.range(100, 105).transform(called)
        seen.take(number, [*found, *ids(second), *ids(union)])

    run_with_a_failure(query, query.read, each)
    seen.check(calls=25, batches=2)


def test_calls_in_threads_of_foreach_batch(query: Query, called: Any) -> None:
    seen = Batches(fail_at=1)

    def each(rows: DataFrame, number: int) -> None:
        found: list[str] = []
        threads = [
            InheritableThread(
                target=lambda n=n: found.extend(ids(called(rows, name=f"call{n}"), f"call{n}"))
            )
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen.take(number, found)

    run_with_a_failure(query, query.read, each)
    seen.check(calls=30, batches=2)


def test_a_plain_thread_in_foreach_batch_gets_ids_of_no_batch(query: Query, called: Any) -> None:
    found: list[list[str]] = []

    def each(rows: DataFrame, number: int) -> None:
        for _ in range(2):
            thread = threading.Thread(target=lambda: found.append(ids(called(rows))))
            thread.start()
            thread.join()

    query.add()
    query.run(query.read(), each)
    assert len({one for some in found for one in some}) == 20


@pytest.mark.parametrize("how", ["union", "join", "chain"])
def test_operators_of_one_function_in_a_stream(query: Query, called: Any, how: str) -> None:
    seen = Batches(fail_at=1)

    def plan() -> DataFrame:
        if how == "chain":
            return called(called(query.read()), "again")
        left, right = called(query.read("left")), called(query.read("right"))
        if how == "union":
            return left.withColumn("again", F.lit(None).cast("string")).union(
                right.withColumn("again", F.lit(None).cast("string"))
            )
        return left.join(right.withColumnRenamed("call", "again"), "id")

    def each(rows: DataFrame, number: int) -> None:
        found = [one for one in ids(rows.distinct(), "call", "again") if one is not None]
        seen.take(number, found)

    if how == "join":
        # Rows of earlier batches are joined again; what is new in a batch is its own calls.
        query.add()
        query.run(plan(), lambda rows, number: seen.take(number, ids(rows, "call", "again")))
        (found,) = seen.attempts[0]
        assert len(set(found)) == len(found) == 20
        return
    run_with_a_failure(query, plan, each)
    seen.check(calls=20, batches=2)


def test_one_function_in_a_stream_and_in_its_foreach_batch(query: Query, called: Any) -> None:
    seen = Batches(fail_at=1)

    def each(rows: DataFrame, number: int) -> None:
        seen.take(
            number, ids(called(rows.select("id", F.col("call").alias("before"))), "call", "before")
        )

    run_with_a_failure(query, lambda: called(query.read()), each)
    seen.check(calls=20, batches=2)


def test_a_static_side_that_is_called_in_a_stream(query: Query, called: Any, engine: str) -> None:
    seen = Batches(fail_at=1)

    def plan() -> DataFrame:
        static = called(query.spark.range(10).withColumn("x", F.lit(1)))
        return query.read().join(static, "id")

    def each(rows: DataFrame, number: int) -> None:
        seen.take(number, ids(rows))

    run_with_a_failure(query, plan, each)
    if engine == "jvm":
        seen.check(calls=10, batches=2)
    else:
        # A name by chance, as everywhere outside streams: the same in all batches of a run.
        first, second = seen.attempts[1]
        assert seen.attempts[0] == [first]
        assert not set(first) & set(second)


def test_other_operators_may_come_and_go(query: Query, spark: SparkSession) -> None:
    found: list[list[str]] = []

    def plan(more: bool) -> DataFrame:
        asked = {"inputs": "id", "engine": "jvm"}
        rows = query.read()
        if more:
            rows = pb.async_io(rows, own_id, returns="other string", **asked)
        return pb.async_io(rows, own_id, returns="call string", **asked)

    def each(rows: DataFrame, number: int) -> None:
        found.append(sorted(ids(rows)))
        if len(found) == 1:
            raise RuntimeError("the first attempt fails after its calls")

    query.add()
    with pytest.raises(Exception, match="the first attempt fails"):
        query.run(plan(more=False), each)
    query.run(plan(more=True), each)
    assert found[0] == found[1]


def test_ids_of_the_batch_form(spark: SparkSession, engine: str) -> None:
    async def all_ids(rows: list[Any]) -> list[str]:
        return pb.current_call().ids

    rows = spark.range(0, 40, 1, 4).transform(
        pb.async_io, all_ids, returns="call string", batch_size=3, engine=engine
    )
    assert max(Counter(ids(rows.coalesce(2))).values()) == 1


class Service:
    """One that goes by the ids of calls: it answers a known id with what it was first asked."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.charged: Counter[int] = Counter()

    def answer(self, rows: list[Any]) -> None:
        for number, call in rows:
            if call not in self.asked:
                self.charged[number] += 1
            assert self.asked.setdefault(call, number) == number, "the answer of another row"


def test_a_filter_and_other_partitions_after_a_failure_give_no_row_anothers_id(
    query: Query, called: Any
) -> None:
    service = Service()

    def each(rows: DataFrame, number: int) -> None:
        is_first = not service.asked
        service.answer([tuple(row) for row in rows.collect()])
        if is_first:
            raise RuntimeError("the first attempt fails after its calls")

    query.add()
    with pytest.raises(Exception, match="the first attempt fails"):
        query.run(called(query.read()), each)
    query.run(called(query.read().where("id <> 2").repartition(3)), each)
    assert sum(service.charged.values()) > 10
    assert set(service.charged) == set(range(10))


@pytest.mark.parametrize(
    "seeds",
    [range(2), pytest.param(range(2, 60), marks=pytest.mark.nightly)],
    ids=["two", "more"],
)
def test_no_row_has_anothers_id_whatever_changes_between_two_runs(
    spark: SparkSession, called: Any, tmp_path: Path, seeds: range
) -> None:
    """One operator over rows that are cut, filtered and sorted otherwise between its runs."""
    written = tmp_path / "partitions.json"
    schema = "number long, note string, tags array<string>"

    def read(batches: Any) -> Any:
        import pyarrow as pa

        (partition,) = (number for batch in batches for number in batch.column(0).to_pylist())
        types = {"number": pa.int64(), "note": pa.string(), "tags": pa.list_(pa.string())}
        rows = json.loads(written.read_text())[partition]
        yield pa.RecordBatch.from_pylist(
            [dict(zip(types, row, strict=True)) for row in rows], pa.schema(list(types.items()))
        )

    source = spark.range(0, 3, 1, 3).mapInArrow(read, schema)
    for seed in seeds:
        random, service = Random(seed), Service()
        made = [(one, "x" * (one % 3), ["t", None][: one % 3]) for one in range(40)]
        rows = called(source, inputs=random.choice([None, ["number"], ["tags", "number"]]))
        for _ in range(4):
            kept = [one for one in made if random.random() < 0.8]
            if random.random() < 0.5:
                random.shuffle(kept)
            ends = sorted(random.choices(range(len(kept)), k=2))
            parts = [kept[: ends[0]], kept[ends[0] : ends[1]], kept[ends[1] :]]
            written.write_text(json.dumps(parts))
            for _ in range(random.randint(1, 2)):
                service.answer([(row.number, row.call) for row in rows.collect()])
        assert len(service.asked) > 40
