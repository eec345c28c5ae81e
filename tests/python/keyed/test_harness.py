"""The harness: clocks, order, outputs, snapshots; and what it refuses."""

import datetime
import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql import types as t

import pillarbox as pb
from keyed.scripts import Split
from pillarbox.testing import KeyedHarness, Timer

WEST = datetime.timezone(datetime.timedelta(hours=-1))
OPTIONS = {"by": "k", "schema": "k string, t bigint", "returns": "k string, n bigint"}


class Function(pb.KeyedProcessFunction):
    """A process function out of lambdas."""

    def __init__(self, process=None, on_timer=None, open=None):
        self._process, self._on_timer, self._open = process, on_timer, open

    def open(self, ctx):
        self.n = ctx.value_state("n", "bigint")
        self.states = self._open and self._open(ctx)

    def process(self, row, ctx):
        return self._process and self._process(self, row, ctx)

    def on_timer(self, timestamp, ctx):
        return self._on_timer and self._on_timer(self, timestamp, ctx)


def harness(*functions, **options):
    return KeyedHarness(Function(*functions), **{**OPTIONS, **options})


@dataclass
class Answer:
    k: str
    n: int


class Rows(list):
    """Of a library's own."""


@pytest.mark.parametrize(
    "answer",
    [
        lambda: ("a", 1),
        lambda: {"k": "a", "n": 1},
        lambda: Row(n=1, k="a"),
        lambda: Answer("a", 1),
        lambda: [("a", 1)],
        lambda: Rows([("a", 1)]),
        lambda: iter([("a", 1)]),
        lambda: (pair for pair in [("a", 1)]),
    ],
)
def test_rows_come_in_any_shape(answer):
    assert harness(lambda *_: answer()).process(("a", 0)) == [Row(k="a", n=1)]


@pytest.mark.parametrize("answer", [lambda: None, lambda: [], lambda: (), lambda: iter(())])
def test_nothing_comes_out_of_nothing(answer):
    assert harness(lambda *_: answer()).process(("a", 0)) == []


@pytest.mark.parametrize("returns", ["n bigint", "s struct<a:int>", "k string, n bigint"])
@pytest.mark.parametrize("answer", [lambda: [None], lambda: iter([None])])
def test_none_among_rows_is_a_row_of_nulls(answer, returns):
    class Both(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            ctx.timers.register_event_time(row.t + 1)
            ctx.output("side", None)
            return answer()

        def on_timer(self, timestamp, ctx):
            return answer()

    one = KeyedHarness(Both(), by="k", schema="k string, t bigint", timestamp="t", returns=returns,
                       side_outputs={"side": returns})  # fmt: skip
    nulls = [(None,) * len(returns.split(", "))]
    assert [tuple(row) for row in one.process(("a", 1))] == nulls
    assert [tuple(row) for row in one.advance_watermark(2)] == nulls
    assert [tuple(row) for row in one.side_output("side")] == nulls


def test_none_is_no_row_of_an_input():
    with pytest.raises(pb.ResultTypeMismatch, match=r"\(a NoneType\)"):
        harness().process(None)


def test_one_column_takes_bare_values():
    one = harness(lambda self, row, ctx: iter([row.t, (2,)]), returns="n bigint")
    assert one.process(("a", 1)) == [Row(n=1), Row(n=2)]


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(pb.ResultTypeMismatch, match="result for column n must be bigint"):
        harness(lambda *_: ("a", "x")).process(("a", 0))
    with pytest.raises(pb.ResultTypeMismatch, match="input's column t must be bigint"):
        harness().process(("a", "x"))


def test_the_users_error_comes_out_as_it_is():
    def fail(*_):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        harness(fail).process(("a", 0))


def test_the_context_tells_key_and_times():
    seen = []

    def look(self, row, ctx):
        seen.append((ctx.key, ctx.timestamp, ctx.watermark, ctx.processing_time))
        seen.append(ctx.time_domain)

    one = harness(look, timestamp="t", processing_time=7)
    one.process(("a", 5))
    one.advance_watermark(9)
    one.advance_processing_time(datetime.datetime.fromtimestamp(1, datetime.timezone.utc))
    one.process(("b", None))
    assert seen == [("a", 5, None, 7), None, ("b", None, 9, 1000), None]
    assert (one.watermark, one.processing_time) == (9, 1000)


def test_clocks_do_not_go_back():
    one = harness(processing_time=5)
    one.advance_watermark(9)
    one.advance_watermark(3)
    one.advance_processing_time(1)
    assert (one.watermark, one.processing_time) == (9, 5)


@pytest.mark.parametrize("time", [0, -5])
def test_a_watermark_up_to_1970_is_none_yet(time):
    def register(self, row, ctx):
        ctx.timers.register_event_time(-10)

    one = harness(register, lambda self, t, ctx: ("fired", t), timestamp="t")
    one.process(("a", 0))
    assert one.advance_watermark(time) == []
    assert one.watermark is None
    assert one.process(("a", -20)) == []
    assert one.late_rows == 0
    assert one.advance_watermark(1) == [Row("fired", -10)]


def test_timers_fire_in_order_once_and_tell_their_domain():
    def register(self, row, ctx):
        for time in (30, 10, 20, 10):
            ctx.timers.register_event_time(row.t + time)
        ctx.timers.register_processing_time(15)
        ctx.timers.delete_event_time(row.t + 20)

    one = harness(register, lambda self, t, ctx: (f"{ctx.key} {ctx.time_domain}", t))
    assert one.run_micro_batch([("a", 0), ("b", 5)]) == []
    assert one.timers("a") == [
        Timer(10, "event_time"),
        Timer(15, "processing_time"),
        Timer(30, "event_time"),
    ]
    assert one.timers("never seen") == []
    assert one.advance_watermark(30) == [
        Row("a event_time", 10),
        Row("b event_time", 15),
        Row("a event_time", 30),
    ]
    assert one.advance_watermark(31) == []
    assert one.advance_processing_time(20) == [
        Row("a processing_time", 15),
        Row("b processing_time", 15),
    ]
    assert one.timers("b") == [Timer(35, "event_time")]


def test_a_timer_for_a_time_that_has_passed_fires_in_the_same_round():
    def register(self, row, ctx):
        ctx.timers.register_event_time(row.t)
        ctx.timers.register_processing_time(3)

    def again(self, timestamp, ctx):
        if timestamp < 8:
            ctx.timers.register_event_time(timestamp + 2)
        return ctx.time_domain, timestamp

    one = harness(register, again, processing_time=10)
    one.advance_watermark(7)
    assert [tuple(row) for row in one.process(("a", 4))] == [
        ("event_time", 4), ("event_time", 6), ("processing_time", 3), ("event_time", 5),
        ("event_time", 7),
    ]  # fmt: skip
    assert one.timers("a") == [Timer(8, "event_time"), Timer(9, "event_time")]


@pytest.mark.parametrize("time", ["5", 5.0, True, 2**63])
def test_a_time_is_milliseconds_or_a_datetime(time):
    with pytest.raises(pb.InvalidOption, match="epoch milliseconds or a datetime"):
        harness(lambda self, row, ctx: ctx.timers.register_event_time(time)).process(("a", 0))


def test_a_time_that_the_local_zone_has_not_is_refused():
    first = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone.utc)
    rows = harness(lambda *_: None, schema="k string, t timestamp")
    with pytest.raises(pb.ResultTypeMismatch, match=r"INPUT_TYPE_MISMATCH.* t must be timestamp"):
        rows.process(("a", first))


@pytest.mark.parametrize(
    "time", [datetime.datetime.min, pd.NaT, datetime.datetime.max.replace(tzinfo=WEST)]
)
def test_a_datetime_without_a_time_in_utc_is_named(time):
    with pytest.raises(pb.InvalidOption, match="time must be a datetime that UTC has too"):
        harness(lambda self, row, ctx: ctx.timers.register_event_time(time)).process(("a", 0))


def test_a_naive_time_of_pandas_is_one_of_the_local_zone():
    time = pd.Timestamp("2026-01-02 03:04:05.678999999")
    one = harness(lambda self, row, ctx: ctx.timers.register_event_time(time), lambda *_: None)
    one.process(("a", 0))
    local = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    assert [timer.timestamp for timer in one.timers("a")] == [local.timestamp() * 1000]


@pytest.mark.parametrize("answer", [[[("a", 1)]], iter([[("a", 1)]])])
def test_a_row_in_a_list_too_many_is_told_to_come_out_of_it(answer):
    with pytest.raises(pb.ResultTypeMismatch, match="A row is no list: take it out of that"):
        harness(lambda *_: answer).process(("a", 0))


def test_order_by_sorts_a_micro_batch_nulls_first():
    seen = []
    one = harness(lambda self, row, ctx: seen.append(row.t), order_by="t")
    one.run_micro_batch([("a", 3), ("a", None), ("a", 1)])
    one.run_micro_batch([("a", 2)])
    assert seen == [None, 1, 3, 2]


def test_late_rows_are_dropped_by_microseconds_and_counted():
    one = harness(lambda self, row, ctx: (row.k, ctx.timestamp), schema="k string, ts timestamp",
                  timestamp="ts")  # fmt: skip
    one.advance_watermark(1000)
    at = datetime.datetime.fromtimestamp(1, datetime.timezone.utc)
    just_after = at + datetime.timedelta(microseconds=1)
    assert one.run_micro_batch([("a", at), ("b", just_after), ("c", None)]) == [
        Row(k="b", n=1000), Row(k="c", n=None),
    ]  # fmt: skip
    assert one.late_rows == 1


def test_side_outputs():
    one = KeyedHarness(Split(), by="k", schema="k string, v double", returns="k string, v double",
                  side_outputs={"bad": "why string"})  # fmt: skip
    assert one.run_micro_batch([("a", 1.0), ("b", -2.0)]) == [Row(k="a", v=1.0)]
    assert one.side_output("bad") == [Row(why="b is -2")]
    with pytest.raises(pb.StateError, match="no side output 'late'; declared are 'bad'"):
        one.side_output("late")


def test_what_is_no_row_of_several_columns_is_told_to_be_one():
    one = harness(lambda self, row, ctx: ctx.output("bad", 5), side_outputs={"bad": "a int, b int"})
    with pytest.raises(pb.ResultTypeMismatch, match="A row has a value for each of them"):
        one.process(("a", 1))


def test_state_is_looked_at_without_touching_it():
    one = harness(lambda self, row, ctx: self.n.update(row.t))
    one.process(("a", 5))
    assert (one.state("n", "a"), one.state("n", "b")) == (5, None)
    with pytest.raises(pb.StateError, match="no state 'm'; declared are 'n'"):
        one.state("m", "a")


def test_a_key_may_be_written_as_in_a_row():
    def write(self, row, ctx):
        self.n.update(7)
        ctx.timers.register_event_time(5)
        seen.append(ctx.key)

    seen = []
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=WEST)
    one = harness(write, lambda *_: None, schema="at timestamp, n decimal(9,2)", by="at")
    one.process((noon, None))
    for key in (noon, seen[0]):
        assert one.state("n", key) == 7
        assert one.timers(key) == [Timer(5, "event_time")]
    two = harness(write, lambda *_: None, schema="at timestamp, n int", by=["at", "n"])
    two.process((noon, 3))
    for key in ((noon, 3), {"n": 3, "at": noon}, seen[1]):
        assert two.state("n", key) == 7
        assert two.timers(key) == [Timer(5, "event_time")]
    with pytest.raises(pb.ResultTypeMismatch, match="input's column n must be int"):
        two.state("n", (noon, "3"))


def test_a_key_that_was_never_seen_is_asked_for_without_a_trace():
    def declare(ctx):
        return ctx.list_state("list", "int"), ctx.map_state("map", "int", "int")

    one = harness(None, None, declare)
    before = one.snapshot()
    assert [one.state(name, "b") for name in ("n", "list", "map")] == [None, [], {}]
    assert one.snapshot() == before


def test_state_that_is_declared_outside_of_open_is_told_where_to_go():
    def late(self, row, ctx):
        ctx.value_state("z", "int")

    one = harness(late)
    with pytest.raises(AttributeError, match=r"ctx.value_state is there in open alone"):
        one.process({"k": "a", "t": 1})


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("double", lambda x: x),
        ("struct<x: float>", lambda x: (x,)),
        ("array<double>", lambda x: [x]),
    ],
)
def test_keys_are_equal_where_spark_holds_them_equal(kind, key):
    def count(self, row, ctx):
        self.n.update((self.n.value() or 0) + 1)
        return repr(ctx.key), self.n.value()

    one = harness(count, schema=f"k {kind}, t bigint")
    keys = [float("nan"), -0.0, None, float("nan"), 0.0, None]
    rows = one.run_micro_batch([(x if x is None else key(x), 0) for x in keys])
    assert [row.n for row in rows] == [1, 1, 1, 2, 2, 2]
    assert "-0.0" not in rows[1].k, "Spark gives the positive zero"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "x"}, "by names the column x"),
        ({"by": []}, "by must be the name of a column"),
        ({"by": ["k", "k"]}, "several different ones"),
        ({"schema": "bigint"}, "without column names"),
        ({"schema": "k nothing"}, "[INVALID_TYPE] schema must be a type"),
        ({"returns": "k nothing"}, "[INVALID_RETURNS] returns must be a DDL string"),
        ({"returns": "bigint"}, "[INVALID_RETURNS] returns must be a DDL string"),
        ({"returns": t.StructType()}, "[INVALID_RETURNS] returns must be a DDL string"),
        ({"returns": complex}, "[INVALID_RETURNS] returns must be a DDL string"),
        (
            {"returns": t.StructType().add("gap", t.YearMonthIntervalType())},
            "The column gap of returns has the type",
        ),
        ({"side_outputs": {"a": "k nothing"}}, "[INVALID_RETURNS] side_outputs['a'] must be a DDL"),
        ({"side_outputs": {"a": "bigint"}}, "[INVALID_RETURNS] side_outputs['a'] must be a DDL"),
        ({"timestamp": "x"}, "timestamp names the column x"),
        ({"timestamp": "k"}, "has the type string"),
        ({"order_by": "x"}, "order_by names the column x"),
        (
            {"order_by": "m", "schema": "k string, m array<map<string, int>>"},
            "order_by names the column m of type array<map<string,int>>",
        ),
        (
            {"order_by": "m", "schema": "k string, m struct<v: variant>"},
            "whose values can't be compared",
        ),
    ],
)
def test_what_can_not_work_is_refused_before_the_first_row(options, message):
    with pytest.raises(pb.PillarboxError) as problem:
        harness(**options)
    assert message in str(problem.value)


@pytest.mark.parametrize("function", [Split, pb.ArrowKeyedProcessFunction(), 5, lambda row: row])
def test_what_is_no_row_function_is_refused(function):
    advice = {
        type: r"such as Split\(\), not its class",
        pb.ArrowKeyedProcessFunction: "Test the column form on Spark",
    }.get(type(function), "extends pb.KeyedProcessFunction")
    with pytest.raises(pb.InvalidFunction, match=advice):
        KeyedHarness(function, **OPTIONS)


def snapshot_of(declare, write):
    one = harness(lambda self, row, ctx: write(self.states), None, declare)
    one.process(("a", 0))
    return one.snapshot()


def test_a_restart_needs_the_options_of_the_harness():
    taken = KeyedHarness(Function(), **OPTIONS).snapshot()
    with pytest.raises(pb.InvalidOption, match=r"needs schema, returns too.*by=…, schema=…, retu"):
        KeyedHarness.restore(taken, Function(), by="k")


def restored(snapshot, declare, **options):
    return KeyedHarness.restore(snapshot, Function(open=declare), **OPTIONS, **options)


EVOLUTION = json.loads((Path(__file__).parents[2] / "golden" / "evolution.json").read_text())


@pytest.mark.parametrize("case", EVOLUTION, ids=lambda case: f"{case['old']} -> {case['new']}")
def test_types_change_at_a_restart_as_on_spark(case):
    value = case.get("value")
    taken = snapshot_of(
        lambda ctx: ctx.value_state("v", case["old"]),
        lambda state: state.update(value) if value is not None else None,
    )
    if "read" not in case:
        with pytest.raises(pb.StateError, match=r"'v' was saved as .* and is declared as"):
            restored(taken, lambda ctx: ctx.value_state("v", case["new"]))
        return
    read = restored(taken, lambda ctx: ctx.value_state("v", case["new"])).state("v", "a")
    assert Row(v=read).asDict(recursive=True)["v"] == case["read"]


@pytest.mark.parametrize(
    "declare",
    [
        lambda ctx: ctx.list_state("v", "int"),
        lambda ctx: ctx.list_state("v", "bigint"),
    ],
)
def test_other_changes_are_refused_with_both_types(declare):
    taken = snapshot_of(lambda ctx: ctx.value_state("v", "int"), lambda state: state.update(1))
    with pytest.raises(pb.StateError, match=r"'v' was saved as .*int.* and is declared as"):
        restored(taken, declare)


def test_a_state_that_is_gone_or_renamed_is_refused():
    taken = snapshot_of(lambda ctx: ctx.value_state("v", "int"), lambda state: state.update(1))
    with pytest.raises(pb.StateError, match=r"saved state 'v'.* declared are 'n', 'w'"):
        restored(taken, lambda ctx: ctx.value_state("w", "int"))


TWO_KEYS = {"schema": "k string, j string, t bigint", "returns": "n bigint", "timestamp": "t"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"by": ["j", "k"]}, r"with by \[k, j\], the query now has \[j, k\]"),
        ({"by": ["t", "k"]}, "with keys of type string, string, the query now has bigint, string"),
        ({"by": "k"}, "with keys of type string, string, the query now has string"),
        ({"by": ["k", "j"], "time_sorted": True}, "with time_sorted False, the query now has True"),
    ],
)
def test_other_keys_and_another_order_are_refused_at_a_restart_as_on_spark(options, told):
    one = KeyedHarness(Function(), by=["k", "j"], **TWO_KEYS)
    one.process(("a", "b", 1))
    with pytest.raises(pb.StateError, match=f"CHECKPOINT_MISMATCH.*{told}"):
        KeyedHarness.restore(one.snapshot(), Function(), **{**TWO_KEYS, **options})


def test_keys_may_get_names_that_none_of_them_had():
    one = KeyedHarness(Function(lambda fn, row, ctx: fn.n.update(row.t)), by=["k", "j"], **TWO_KEYS)
    one.process(("a", "b", 1))
    renamed = {**TWO_KEYS, "schema": "l string, j string, t bigint"}
    two = KeyedHarness.restore(one.snapshot(), Function(), by=["l", "j"], **renamed)
    assert two.state("n", ("a", "b")) == 1


def test_rows_that_wait_go_by_their_names_at_a_restart_as_on_spark():
    def look(fn, row, ctx):
        return row.k, row.u

    def made(schema):
        return {"schema": schema, "by": "k", "returns": "k string, u string", "timestamp": "t",
                "time_sorted": True}  # fmt: skip

    one = KeyedHarness(Function(look), **made("k string, t bigint, u string"))
    one.process(("a", 5, "x"))
    two = KeyedHarness.restore(
        one.snapshot(), Function(look), **made("u string, t bigint, k string, v int")
    )
    assert two.advance_watermark(9) == [Row(k="a", u="x")]
    with pytest.raises(pb.StateError, match=r"time-sorted rows.* was saved as .*u:string"):
        KeyedHarness.restore(one.snapshot(), Function(look), **made("k string, t bigint, u int"))


@pytest.mark.parametrize(
    "kind", ["string collate UTF8_LCASE", "struct<a: array<string collate UNICODE_CI>>"]
)
def test_a_key_of_a_collation_is_refused_as_on_spark(kind):
    with pytest.raises(pb.InvalidSchema, match=r"KEY_COLLATION.*column k .* collate U"):
        harness(schema=f"k {kind}, t bigint")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"schema": t.StructType([t.StructField("k", t.YearMonthIntervalType())])}, "UNSUPPORTED"),
        ({"time_sorted": "no", "timestamp": "t"}, "time_sorted must be"),
        ({"side_outputs": ["bad"]}, "side_outputs must be a dict"),
    ],
)
def test_what_process_keyed_refuses_is_refused(options, told):
    with pytest.raises(pb.PillarboxError, match=told):
        harness(**options)


def test_ttl_can_be_switched_on_off_and_changed_over_a_restart():
    def declare(ttl):
        return lambda ctx: ctx.value_state("v", "int", ttl=ttl)

    taken = snapshot_of(declare(None), lambda state: state.update(1))
    on = restored(taken, declare("10 ms"), processing_time=100)
    assert on.state("v", "a") == 1
    on.advance_processing_time(109)
    assert on.state("v", "a") == 1
    longer = restored(on.snapshot(), declare("20 ms"), processing_time=115)
    assert longer.state("v", "a") == 1
    off = restored(on.snapshot(), declare(None), processing_time=1000)
    assert off.state("v", "a") == 1
    on.advance_processing_time(110)
    assert on.state("v", "a") is None


EVENT, PROCESSING = "event_time", "processing_time"


def timed(ttl):
    return lambda ctx: ctx.value_state(
        "v", "int", ttl=ttl and pb.StateTtl("10 ms", time_domain=ttl)
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [(None, PROCESSING), (None, EVENT), (PROCESSING, EVENT), (EVENT, PROCESSING)],
)
def test_a_ttl_that_is_new_or_goes_by_another_clock_starts_at_the_restored_one(old, new):
    one = harness(lambda self, row, ctx: self.states.update(1), None, timed(old))
    one.advance_processing_time(10**12)
    one.advance_watermark(500)
    one.process(("a", 505))
    on = restored(one.snapshot(), timed(new))
    forward = on.advance_processing_time if new == PROCESSING else on.advance_watermark
    start = 10**12 if new == PROCESSING else 500
    forward(start + 9)
    assert on.state("v", "a") == 1
    forward(start + 10)
    assert on.state("v", "a") is None


def test_an_event_time_ttl_that_is_new_before_any_watermark_starts_at_the_first():
    taken = snapshot_of(lambda ctx: ctx.value_state("v", "int"), lambda state: state.update(1))
    on = restored(taken, timed(EVENT))
    on.advance_watermark(500)
    on = restored(on.snapshot(), timed(EVENT))
    on.advance_watermark(509)
    assert on.state("v", "a") == 1
    on.advance_watermark(510)
    assert on.state("v", "a") is None


def test_what_was_written_without_a_time_lives_from_the_first_watermark_also_if_written_again():
    one = harness(lambda self, *_: self.states.update(1), None, timed(EVENT), timestamp="t")
    one.process(("a", None))
    one.run_micro_batch([("a", 100)], watermark=500)
    one.advance_watermark(509)
    assert one.state("v", "a") == 1
    one.advance_watermark(510)
    assert one.state("v", "a") is None


def test_a_snapshot_of_another_format_is_refused():
    import pickle

    with pytest.raises(pb.StateError, match="format 99"):
        restored(pickle.dumps({"format": 99}), None)


def test_the_function_is_opened_at_once_and_closed_on_demand():
    log = []

    class Logs(Function):
        def open(self, ctx):
            log.append(f"open {ctx.name}")

        def close(self):
            log.append("close")

    one = KeyedHarness(Logs(), **OPTIONS)
    assert log == ["open Logs"]
    one.close()
    one.close()
    assert log == ["open Logs", "close"]


def test_a_closed_harness_runs_nothing_and_shows_what_has_been():
    one = harness(lambda self, row, ctx: self.n.update(row.t))
    one.process(("a", 7))
    one.close()
    for run in (
        lambda: one.process(("a", 1)),
        lambda: one.run_micro_batch([]),
        lambda: one.run_batch([]),
        lambda: one.advance_watermark(5),
        lambda: one.advance_processing_time(5),
    ):
        with pytest.raises(pb.StateError, match=r"HARNESS_CLOSED.*KeyedHarness is closed"):
            run()
    assert (one.state("n", "a"), one.watermark, one.processing_time) == (7, None, 0)
    assert restored(one.snapshot(), None).state("n", "a") == 7


def test_a_batch_that_has_failed_leaves_no_state_and_no_timer():
    fired = []

    def process(self, row, ctx):
        self.n.update((self.n.value() or 0) + 1)
        ctx.timers.register_processing_time(5)
        if row.t < 0:
            raise ValueError("negative")
        return ctx.key, self.n.value()

    one = harness(process, lambda self, time, ctx: fired.append((ctx.key, time)))
    with pytest.raises(ValueError, match="negative"):
        one.run_batch([("a", 1), ("a", -1)])
    assert one.timers("a") == []
    assert one.run_batch([("a", 1)]) == [Row("a", 1)]
    assert one.advance_processing_time(5) == []
    assert fired == [("a", 5)], "in the batch that has not failed"


@pytest.mark.parametrize("kind", ["event_time", "processing_time"])
def test_a_timer_that_an_earlier_function_has_left_is_not_forgotten_without_a_word(kind):
    class WithoutTimers(pb.KeyedProcessFunction):
        def open(self, ctx):
            self.n = ctx.value_state("n", "bigint")

        def process(self, row, ctx):
            return None

    one = harness(lambda self, row, ctx: getattr(ctx.timers, f"register_{kind}")(5))
    one.process(("a", 1))
    other = KeyedHarness.restore(one.snapshot(), WithoutTimers(), **OPTIONS)
    assert other.process(("b", 1)) == []
    advance = other.advance_watermark if kind == "event_time" else other.advance_processing_time
    message = r"TIMER_WITHOUT_ON_TIMER.*WithoutTimers.*Write def on_timer\(self, timestamp, ctx\)"
    with pytest.raises(pb.InvalidFunction, match=message):
        advance(5)


def test_an_exception_of_the_function_is_raised_as_it_is():
    problem = ValueError("mine")

    def fails(self, row, ctx):
        raise problem

    with pytest.raises(ValueError, match="mine") as raised:
        harness(fails).process(("a", 1))
    assert raised.value is problem
    assert problem.args == ("mine",)


def late_rows(on_late, **options):
    one = harness(lambda self, row, ctx: (row.k, int(ctx.is_late)), schema="k string, t bigint",
                  timestamp="t", on_late=on_late, **options)  # fmt: skip
    one.advance_watermark(1000)
    rows = one.run_micro_batch([("a", 999), ("b", 1001), ("c", 1000)], watermark=2000)
    assert one.late_rows == 2
    return [tuple(row) for row in rows], one


def test_late_rows_go_where_on_late_says():
    assert late_rows("drop")[0] == [("b", 0)]
    assert late_rows("process")[0] == [("a", 1), ("b", 0), ("c", 1)]
    for options in ({}, {"time_sorted": True}):
        rows, one = late_rows("output", **options)
        assert rows == [("b", 0)]
        assert one.side_output("late") == [Row(k="a", t=999), Row(k="c", t=1000)]


def test_timers_are_never_late():
    class Timed(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            ctx.timers.register_event_time(ctx.timestamp)
            return (row.k, int(ctx.is_late))

        def on_timer(self, timestamp, ctx):
            return (ctx.key, int(ctx.is_late))

    one = KeyedHarness(Timed(), by="k", schema="k string, t bigint", returns="k string, n bigint",
                       timestamp="t", on_late="process")  # fmt: skip
    one.advance_watermark(1000)
    assert one.process(("a", 1)) == [Row(k="a", n=1), Row(k="a", n=0)]


def test_late_rows_out_of_order_are_refused():
    with pytest.raises(pb.InvalidOption, match="Name the column of the watermark"):
        harness(lambda self, row, ctx: None, on_late="process")
    with pytest.raises(pb.InvalidOption, match=r'with time_sorted.*Use on_late="output"'):
        late_rows("process", time_sorted=True)
    with pytest.raises(
        pb.InvalidOption, match='on_late must be one of "drop", "process", "output"'
    ):
        late_rows("keep")


def test_names_of_columns_are_found_in_any_case_as_on_spark():
    schema = "k string, t bigint"
    one = harness(
        lambda self, row, ctx: (repr(ctx.key), ctx.timestamp),
        **{"by": ["T", "K"], "timestamp": "T", "order_by": "T", "schema": schema},
    )
    found = one.run_micro_batch([("a", 2), ("a", 1)])
    assert found == [Row("Row(t=1, k='a')", 1), Row("Row(t=2, k='a')", 2)]


@pytest.mark.parametrize(
    ("options", "problem", "named"),
    [
        ({"by": ["k", "K"]}, pb.InvalidOption, "by must be .* several different ones"),
        ({"order_by": ["t", "T"]}, pb.InvalidOption, "order_by must be .* several different ones"),
        ({"schema": "k string, K string"}, pb.InvalidOption, "AMBIGUOUS_COLUMN.*by names"),
        ({"schema": "k map<string, int>"}, pb.InvalidSchema, "NOT_COMPARABLE.*by names"),
        ({"returns": "n bigint, N string"}, pb.InvalidSchema, "OUTPUT_NAME_CLASH"),
        ({"side_outputs": {"N": "a int"}}, pb.InvalidSchema, "OUTPUT_NAME_CLASH"),
        ({"returns": "tag int", "side_outputs": {"b": "a int"}}, pb.InvalidSchema, "NAME_CLASH"),
        (
            {"returns": "Late int", "on_late": "output", "timestamp": "t"},
            pb.InvalidSchema,
            "OUTPUT_NAME_CLASH",
        ),
    ],
)
def test_columns_that_spark_refuses_are_refused(options, problem, named):
    with pytest.raises(problem, match=named):
        harness(**options)


@dataclass
class Total:
    count: int

    def doubled(self):
        return 2 * self.count


class Totals(pb.AggregateFunction):
    def create_accumulator(self):
        return Total(0)

    def add(self, value, accumulator):
        return Total(accumulator.count + value)

    def get_result(self, accumulator):
        return accumulator.doubled()


def test_states_of_a_class_are_shown_as_the_function_gets_them():
    def open(ctx):
        return (
            ctx.value_state("value", Total),
            ctx.list_state("list", Total),
            ctx.aggregating_state("total", Total, Totals()),
        )

    def process(self, row, ctx):
        value, elements, total = self.states
        value.update(Total(1))
        elements.add(Total(2))
        total.add(3)

    one = harness(process, None, open)
    one.run_micro_batch([("a", 1)])
    assert one.state("value", "a") == Total(1)
    assert one.state("list", "a") == [Total(2)]
    assert one.state("total", "a") == 6
