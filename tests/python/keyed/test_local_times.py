"""The hour that comes twice, in a zone with summer time: its instants stay two, everywhere."""

import time
from datetime import datetime, timezone

import pytest
from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from worker.keyed_driver import KeyedInProcess
from worker.keyed_operator import Operator

import pillarbox as pb
from pillarbox._arrow.fields import Place
from pillarbox._harness.memory import hashable
from pillarbox._keyed.values import KeyType, ValueType
from pillarbox.testing import KeyedHarness

FIRST = datetime(2024, 10, 27, 0, 30, 0, 5, tzinfo=timezone.utc)  # 02:30 in Berlin
SECOND = FIRST.replace(hour=1)  # 02:30 again


@pytest.fixture(autouse=True)
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def instants(values):
    return [value.astimezone(timezone.utc) for value in values]


@pytest.mark.parametrize("given", [SECOND, datetime(2024, 10, 27, 2, 30, 0, 5, fold=1)])
def test_a_value_keeps_its_instant(given):
    plain = ValueType(TimestampType(), Place("v")).accept(given)
    assert (plain.tzinfo, plain.fold) == (None, 1)
    assert instants([plain]) == [SECOND]
    struct = StructType([StructField("a", ArrayType(TimestampType()))])
    assert ValueType(struct, Place("v")).accept(([FIRST, given],)).a[1].fold == 1


def test_a_map_as_a_value_keeps_both():
    kept = ValueType(MapType(TimestampType(), LongType()), Place("v")).accept({FIRST: 1, SECOND: 2})
    assert dict(zip(instants(kept), kept.values(), strict=True)) == {FIRST: 1, SECOND: 2}


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: (value,)])
def test_the_instants_are_two_keys_of_a_map(wrap):
    data_type = TimestampType()
    if wrap(0) == (0,):
        data_type = StructType([StructField("at", data_type)])
    accept = KeyType(data_type, Place("m")).accept
    first, second = accept(wrap(FIRST)), accept(wrap(SECOND))
    assert first != second
    assert {first: 1, second: 2}[accept(wrap(datetime(2024, 10, 27, 2, 30, 0, 5, fold=1)))] == 2
    assert {first: 1, second: 2}[accept(wrap(datetime(2024, 10, 27, 2, 30, 0, 5)))] == 1


def test_the_fold_of_a_time_without_a_zone_means_nothing():
    accept = KeyType(TimestampNTZType(), Place("m")).accept
    first, second = (datetime(2024, 10, 27, 2, 30, fold=fold) for fold in (0, 1))
    assert accept(first) == accept(second)
    assert hashable(accept(first)) == hashable(accept(second))


class Remembers(pb.KeyedProcessFunction):
    """Emits what state it finds and leaves the row's time in each."""

    def open(self, ctx):
        self.last = ctx.value_state("last", "timestamp")
        self.all = ctx.list_state("all", "timestamp")
        self.counts = ctx.map_state("counts", "timestamp", "bigint")

    def process(self, row, ctx):
        count = (self.counts.get(row.at) or 0) + 1
        self.counts.put(row.at, count)
        self.all.add(row.at)
        last, _ = self.last.value(), self.last.update(row.at)
        yield row.at, last, self.all.get(), list(self.counts.keys()), count


COLUMNS = "at timestamp, last timestamp, all array<timestamp>, keys array<timestamp>, n bigint"
BATCHES = [[("a", FIRST)], [("a", SECOND)], [("a", SECOND)]]
EXPECTED = [
    (FIRST, None, [FIRST], [FIRST], 1),
    (SECOND, FIRST, [FIRST, SECOND], [FIRST, SECOND], 1),
    (SECOND, SECOND, [FIRST, SECOND, SECOND], [FIRST, SECOND], 2),
]


def shown(row):
    at, last, every, keys, n = row
    return at, last, every, sorted(keys), n


def test_the_harness_keeps_them_apart_in_every_state():
    harness = KeyedHarness(Remembers(), by="k", schema="k string, at timestamp", returns=COLUMNS)
    found = []
    for batch in BATCHES:
        for row in harness.run_micro_batch(batch):
            last = None if row.last is None else row.last.astimezone(timezone.utc)
            found.append(
                shown(
                    (*instants([row.at]), last, instants(row["all"]), instants(row["keys"]), row.n)
                )
            )
    assert found == EXPECTED
    counts = harness.state("counts", "a")
    assert sorted(zip(instants(counts), counts.values(), strict=True)) == [(FIRST, 1), (SECOND, 2)]
    again = KeyedHarness.restore(
        harness.snapshot(), Remembers(), by="k", schema="k string, at timestamp", returns=COLUMNS
    )
    assert again.state("counts", "a") == counts


@pytest.mark.parametrize("big", [False, True])
def test_the_worker_keeps_them_apart_in_every_state(big):
    worker = KeyedInProcess()
    try:
        worker.start_keyed(
            Remembers(), by="k string", inputs="k string, at timestamp", returns=COLUMNS
        )
        worker.big = frozenset(["all", "counts"] if big else [])
        operator = Operator(worker, [0], None, False)
        found = [row for batch in BATCHES for row in operator.run_micro_batch(batch)]
        assert [shown(row) for row in found] == EXPECTED
    finally:
        worker.close()


class Splits(pb.KeyedProcessFunction):
    def process(self, row, ctx):
        ctx.output("side", {"at": row.at, "key": ctx.key})
        yield row.at, ctx.key


def test_side_outputs_and_keys_of_the_harness_keep_them_apart():
    harness = KeyedHarness(
        Splits(), by="at", schema="at timestamp", returns="at timestamp, key timestamp",
        side_outputs={"side": "at timestamp, key timestamp"},
    )  # fmt: skip
    rows = harness.run_micro_batch([(FIRST,), (SECOND,)])
    expected = [(FIRST, FIRST), (SECOND, SECOND)]
    assert [tuple(instants(row)) for row in rows] == expected
    assert [tuple(instants(row)) for row in harness.side_output("side")] == expected
