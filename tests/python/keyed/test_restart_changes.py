"""What may change in a function between two runs of a query, and what is refused, on Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from keyed.streams import Stream

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "k string, v bigint"


class Declares(pb.KeyedProcessFunction):
    """Shows what each state holds, then writes ``write`` to the first value state."""

    def __init__(self, write: Any, **states: str) -> None:
        self.write, self.states = write, states

    def open(self, ctx: Any) -> None:
        self.handles = []
        for name, declared in self.states.items():
            kind, _, type = declared.partition(" ")
            self.handles.append(getattr(ctx, f"{kind}_state")(name, type))

    def process(self, row: Any, ctx: Any) -> Any:
        found = [h.value() if hasattr(h, "value") else list(h.get()) for h in self.handles]
        yield {"text": str(found)}
        self.handles[0].update(self.write)


def using(fn: Declares, by: Any = "k", backend: str = "rocksdb") -> Any:
    def build(df: DataFrame) -> DataFrame:
        return df.transform(pb.process_keyed, fn, by=by, returns="text string", backend=backend)

    return build


@pytest.fixture(params=["rocksdb", "heap"])
def restarted(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Any:
    """Runs one function, then another one on its checkpoint; what that one shows."""

    def run(first: Declares, second: Declares, rename: bool = False) -> str:
        stream = Stream(spark, tmp_path, SCHEMA, using(first, backend=request.param))
        before = stream.add(("a", 1)).run()
        stream.add(("a", 2))
        build = using(second, backend=request.param)
        if rename:
            build = lambda df: using(second, "j", request.param)(df.withColumnRenamed("k", "j"))  # noqa: E731
        after = stream.run(build)
        for row in before:
            after.remove(row)
        return str(after[0][0])

    return run


def test_an_added_nullable_field_is_null_in_what_is_there(restarted: Any) -> None:
    first = Declares((1, "x"), s="value a int, b string")
    second = Declares((1, "x", 2.0), s="value a int, b string, c double")
    assert restarted(first, second) == "[Row(a=1, b='x', c=None)]"


def test_wider_numbers_go_through(restarted: Any) -> None:
    assert restarted(Declares(7, s="value int"), Declares(1 << 40, s="value bigint")) == "[7]"


def test_wider_fields_deep_inside_go_through(restarted: Any) -> None:
    first = Declares((1, (2,)), s="value a int, b struct<c: float>")
    second = Declares((1, (2,)), s="value a bigint, b struct<c: double>")
    assert restarted(first, second) == "[Row(a=1, b=Row(c=2.0))]"


def test_an_added_state_is_empty(restarted: Any) -> None:
    second = Declares(8, s="value int", other="list bigint")
    assert restarted(Declares(7, s="value int"), second) == "[7, []]"


def test_another_name_of_the_key_column_does_not_matter(restarted: Any) -> None:
    fn = Declares(7, s="value int")
    assert restarted(fn, fn, rename=True) == "[7]"


def test_keys_in_another_order_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    def by(*keys: str) -> Any:
        keyed = using(Declares(7, s="value int"), by=list(keys))
        return lambda df: keyed(df.selectExpr("k", "upper(k) AS j", "v"))

    stream = Stream(spark, tmp_path, SCHEMA, by("k", "j"))
    stream.add(("a", 1)).run()
    stream.add(("a", 2))
    told = r"CHECKPOINT_MISMATCH.* with by \[k, j\], the query now has \[j, k\]"
    with pytest.raises(Exception, match=told):
        stream.run(by("j", "k"))
    assert sorted(text for (text,) in stream.run()) == ["[7]", "[None]"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            Declares("x", s="value string"),
            r"\[STATE_SCHEMA_INCOMPATIBLE\] process_keyed\(Declares\): State 's' .*INT to STRING;"
            r" it was <value INT>, it is now <value STRING>",
        ),
        (Declares(7.0, s="value float"), "it was <value INT>, it is now <value FLOAT>"),
        (Declares(7, s="value smallint"), "it was <value INT>, it is now <value SMALLINT>"),
        (
            Declares((7, 1), s="value v int, w int"),
            "it was <value INT>, it is now <v INT,w INT>",
        ),
        (
            Declares([7], s="list int"),
            r"\[STATE_NAME_CLASH\] process_keyed\(Declares\): State 's' .*kind VALUE .* LIST",
        ),
        (
            Declares(7, t="value int"),
            r"\[STATE_GONE\] process_keyed\(Declares\): There is saved state 's', .* are 't'",
        ),
    ],
)
def test_anything_else_is_refused_and_nothing_is_touched(
    restarted: Any, spark: SparkSession, tmp_path: Path, second: Declares, message: str
) -> None:
    with pytest.raises(Exception, match=message):
        restarted(Declares(7, s="value int"), second)
    stored = pb.read_state(spark, str(tmp_path / "checkpoint"), 0, "s")
    assert [tuple(row) for row in stored.select("key.k", "value").collect()] == [("a", 7)]
