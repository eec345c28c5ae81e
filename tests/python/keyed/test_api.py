"""What ``process_keyed`` and ``scan`` ask the JVM for, and what they refuse before any work."""

from __future__ import annotations

import json
import threading

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as t

import pillarbox as pb
from keyed.scripts import CountAndSum, Split
from keyed.support import AtKeys
from pillarbox._driver import keyed_input
from pillarbox._driver.client import client_of
from pillarbox._driver.read_state import _operator
from pillarbox._keyed.options import KeyedOptions
from pillarbox.testing import KeyedHarness
from spark_support import process_of


@pytest.fixture
def df(spark):
    return spark.createDataFrame(
        [], "k string, t bigint, v double, ts timestamp, m map<string,int>"
    )


@pytest.fixture
def stream(spark):
    return spark.readStream.format("rate").load().withColumn("k", F.lit("a"))


@pytest.fixture
def asked(spark, monkeypatch):
    """The calls that would have gone to the JVM."""
    calls = []
    client = type(client_of(spark))
    monkeypatch.setattr(client, "process_keyed", lambda _, *call: calls.append(call) or call[0])
    return calls


def apply(df, function=None, **options):
    defaults = {"by": "k", "returns": "k string, n bigint"}
    function = function or CountAndSum()
    return df.transform(process_of(function), function, **{**defaults, **options})


def test_the_spec_says_all_that_the_operator_needs(df, asked):
    apply(df, by=["K"], timestamp="TS", order_by="t", inputs=["k", "v"], time_sorted=True,
          backend="heap", side_outputs={"bad": "why string"}, name="rotations",
          partitions=12)  # fmt: skip
    ((_, command, spec, _),) = asked
    returns = t.StructType.fromJson(json.loads(spec.pop("returns")))
    assert returns.simpleString() == "struct<tag:string,k:string,n:bigint,bad:struct<why:string>>"
    assert spec == {
        "name": "rotations", "form": "row", "class_name": None, "options": {},
        "by": ["k"], "timestamp": "ts", "backend": "heap", "timers": "heap", "order_by": ["t"],
        "time_sorted": True, "inputs": ["k", "v"], "tags": ["bad"], "calls": None,
        "scan": None, "late": '{"fields":[],"type":"struct"}', "names_event_time": True,
        "blocked_loop_ms": 5000, "initial": [], "on_late": "drop",
        "partitions": 12,
        "shown": ["inputs=[k, v]", "timestamp=TS", "order_by=t", "time_sorted=true",
                  "side_outputs={bad: why string}", "backend=(state=heap)", "partitions=12"],
    }  # fmt: skip
    from pyspark import cloudpickle

    sent = cloudpickle.loads(command)
    assert (sent.form, sent.key_schema.names, sent.input_schema.names) == (
        "row",
        ["k"],
        ["k", "v"],
    )


def test_a_stream_names_its_event_time_if_an_option_does(stream, asked):
    apply(stream)
    apply(stream.withWatermark("timestamp", "5 seconds"), time_sorted=True)
    named = [(spec["names_event_time"], spec["timestamp"]) for _, _, spec, _ in asked]
    assert named == [(False, None), (True, None)]


def test_a_function_of_the_jvm_goes_by_its_name(df, asked):
    apply(df, pb.JvmFunction("com.acme.Fn", {"a": "b"}))
    ((_, command, spec, _),) = asked
    assert command is None
    assert (spec["form"], spec["class_name"], spec["options"]) == (
        "jvm",
        "com.acme.Fn",
        {"a": "b"},
    )


def test_a_scan_is_expressions(df, asked):
    pb.scan(df, by="k", state={"n": ("0L", "n + 1")}, select=["k", "n"], ttl="2 days")
    ((_, command, spec, _),) = asked
    assert command is None
    assert spec["form"] == "scan"
    scan = spec["scan"]
    assert scan["state"] == [{"name": "n", "init": "0L", "update": "n + 1"}]
    assert scan["select"] == ["k", "n"]
    assert scan["ttl"]["ms"] == 172_800_000


def test_side_outputs_are_taken_apart(spark, asked):
    options = KeyedOptions.of("f", "id", {"side_outputs": {"bad": "why string"}})
    found = keyed_input.check_input(spark.range(1), options)
    schema = keyed_input.parse_outputs("k string, n bigint", found, spark)
    from pillarbox._keyed.output import wire_schema

    rows = [("main", "a", 1, None), ("bad", None, None, ("no",))]
    whole = spark.createDataFrame(rows, wire_schema(*schema))
    assert pb.main_output(whole).collect() == [("a", 1)]
    assert pb.side_output(whole, "bad").collect() == [("no",)]
    assert pb.side_output(whole, "bad").columns == ["why"]
    with pytest.raises(pb.InvalidOption, match=r"no side output 'late'; there are bad"):
        pb.side_output(whole, "late")
    with pytest.raises(pb.InvalidOption, match="there are none"):
        pb.main_output(spark.range(1))


class Columns(pb.ArrowKeyedProcessFunction):
    def process(self, batch, state, ctx):
        return None


class Calls(pb.AsyncKeyedProcessFunction):
    async def process(self, row, ctx):
        return None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "x"}, "by names the column x, but there is only k, t, v, ts, m"),
        ({"by": []}, "by must be the name of a column"),
        ({"by": 5}, "by must be the name of a column"),
        ({"by": "m"}, "by names the column m of type map<string,int>"),
        ({"timestamp": "x"}, "timestamp names the column x"),
        ({"timestamp": "t"}, "timestamp_millis"),
        ({"order_by": ["x"]}, "order_by names the column x"),
        ({"order_by": ["v", "m"]}, "order_by names the column m of type map<string,int>"),
        ({"inputs": ["x"]}, "inputs names the column x"),
        ({"backend": "redis"}, 'backend must be one of "rocksdb", "heap"'),
        ({"backend": pb.Backend}, 'backend must be "rocksdb", "heap" or a pb.Backend'),
        ({"timers": "heap"}, 'Meant is backend=pb.Backend("rocksdb", timers="heap")'),
        ({"time_sorted": 1}, "time_sorted must be True or False"),
        ({"time_sorted": True}, "neither timestamp nor a watermark"),
        ({"partitions": 0}, "partitions must be a whole number from 1"),
        ({"partitions": 20_000}, "partitions must be at most 10000"),
        ({"name": ""}, "name must be a name"),
        ({"returns": "n"}, "returns must be a DDL string"),
        ({"returns": "n int, N int"}, "two columns named N"),
        ({"side_outputs": {"k": "why string"}}, "two columns named k"),
        ({"side_outputs": {"tag": "why string"}}, "two columns named tag"),
        (
            {"side_outputs": {"main": "why string"}},
            "another one than main, late, error, but it is 'main'",
        ),
        ({"side_outputs": {"late": "why string"}}, "but it is 'late'"),
        ({"side_outputs": {"error": "why string"}}, "but it is 'error'"),
        ({"side_outputs": {"bad": "why"}}, "side_outputs['bad'] must be a DDL string"),
        ({"function": CountAndSum}, "not its class"),
        ({"function": Columns(), "time_sorted": True}, "The column form has no order of rows"),
        (
            {"function": Columns(), "side_outputs": {"bad": "x int"}},
            "has one output; use pb.process",
        ),
        ({"retry": 3}, "Its function makes no calls; use pb.process_keyed_async."),
        ({"carry_over": True}, "pb.process_keyed has no option carry_over"),
        ({"state_backend": "heap"}, "Meant is backend."),
    ],
)
def test_what_can_not_work_is_refused_before_any_work(df, asked, options, message):
    with pytest.raises(pb.PillarboxError) as problem:
        apply(df, **options)
    assert message in str(problem.value)
    assert asked == []


def test_a_stream_needs_a_watermark_to_be_sorted_by_time(stream, asked):
    with pytest.raises(pb.InvalidOption, match="withWatermark"):
        apply(stream, timestamp="timestamp", time_sorted=True)


def test_a_stream_is_sorted_by_the_column_of_its_watermark_only(stream, asked):
    from pyspark.sql import functions as F

    two = stream.withWatermark("timestamp", "5 seconds").withColumn(
        "seen", F.col("timestamp") + F.expr("INTERVAL 1 SECOND")
    )
    with pytest.raises(pb.InvalidOption, match=r"BY_OTHER_COLUMN.*'seen'.*that of 'timestamp'"):
        apply(two, timestamp="seen", time_sorted=True)
    apply(two, timestamp="timestamp", time_sorted=True)
    apply(two, timestamp="seen")


def test_a_function_that_can_not_be_sent_is_named(df, asked):
    fn = CountAndSum()
    fn.lock = threading.Lock()
    with pytest.raises(pb.InvalidFunction, match="CountAndSum can't be sent"):
        apply(df, fn)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": {}}, "state must be a dict"),
        ({"state": {"n": "0L"}}, "state must be a dict"),
        ({"state": {"n": ("0L", "")}}, "state must be a dict"),
        ({"state": {"V": ("0L", "1L")}}, "two columns named V"),
        ({"select": []}, "select must be a list of SQL expressions"),
        ({"select": "n"}, "select must be a list of SQL expressions"),
        ({"ttl": 5}, "ttl must be a pb.StateTtl"),
        ({"ttl": pb.StateTtl("1 s", on_expire=print)}, "which runs no Python"),
        ({"by": "x"}, "by names the column x"),
    ],
)
def test_a_scan_that_can_not_work_is_refused(df, asked, options, message):
    with pytest.raises(pb.PillarboxError) as problem:
        pb.scan(df, **{"by": "k", "state": {"n": ("0L", "n + 1")}, **options})
    assert message in str(problem.value)
    assert asked == []


def test_without_the_jar_the_remedy_is_told(df, monkeypatch):
    client = type(client_of(df.sparkSession))
    monkeypatch.setattr(client, "jar", lambda self: None)
    with pytest.raises(pb.EngineUnavailable, match=r"pb\.configure|Start the server"):
        apply(df, Split(), returns="k string, v double")


class Base(pb.KeyedProcessFunction):
    def process(self, row, ctx):
        return None


class Misspelt(pb.KeyedProcessFunction):
    def proces(self, row, ctx):
        return None


class Without(pb.KeyedProcessFunction):
    pass


class WithoutColumns(pb.ArrowKeyedProcessFunction):
    def process_batch(self, batch, state, ctx):
        return None


class AsyncProcess(pb.KeyedProcessFunction):
    async def process(self, row, ctx):
        return None


class AsyncRows(pb.KeyedProcessFunction):
    async def process(self, row, ctx):
        yield None


class AsyncTimer(Base):
    async def on_timer(self, timestamp, ctx):
        return None


class AsyncOpen(Base):
    async def open(self, ctx):
        return None


class AsyncColumns(pb.ArrowKeyedProcessFunction):
    async def process(self, batch, state, ctx):
        return None


class Short(pb.KeyedProcessFunction):
    def process(self, row):
        return None


class ShortTimer(Base):
    def on_timer(self, timestamp):
        return None


class LongOpen(Base):
    def open(self, ctx, more):
        return None


class RowsOfColumns(pb.ArrowKeyedProcessFunction):
    def process(self, row, ctx):
        return None


class Inherits(Base):
    """Has its process from another function."""


class Attribute(pb.KeyedProcessFunction):
    """Has its process as an attribute of the object."""

    def __init__(self):
        self.process = lambda row, ctx: None


class Number(pb.KeyedProcessFunction):
    process = 5


class NoTimer(Base):
    on_timer = None


class TextOpen(pb.ArrowKeyedProcessFunction):
    open = "state"

    def process(self, batch, state, ctx):
        return None


class YieldsInOpen(Base):
    def open(self, ctx):
        yield ctx


class YieldsInClose(Base):
    def close(self):
        yield


class YieldsColumns(pb.ArrowKeyedProcessFunction):
    def process(self, batch, state, ctx):
        yield batch


UNFIT = [
    (Number(), "METHOD_NOT_CALLABLE", "Write def process(self, row, ctx)."),
    (NoTimer(), "METHOD_NOT_CALLABLE", "NoTimer.on_timer must be a method, but it is None."),
    (TextOpen(), "METHOD_NOT_CALLABLE", "TextOpen.open must be a method, but it is 'state'."),
    (YieldsInOpen(), "GENERATOR_METHOD", "YieldsInOpen.open has a yield"),
    (YieldsInClose(), "GENERATOR_METHOD", "YieldsInClose.close has a yield"),
    (YieldsColumns(), "GENERATOR_METHOD", "YieldsColumns.process has a yield"),
    (Misspelt(), "METHOD_MISSING", "Misspelt has no method process, but a proces."),
    (
        Without(),
        "METHOD_MISSING",
        "Without has no method process. Write it: def process(self, row, ",
    ),
    (
        WithoutColumns(),
        "METHOD_MISSING",
        "Write it: def process(self, batch, state, ctx)",
    ),
    (AsyncProcess(), "ASYNC_METHOD", "AsyncProcess.process is `async def`"),
    (AsyncRows(), "ASYNC_METHOD", "AsyncRows.process is `async def`"),
    (AsyncTimer(), "ASYNC_METHOD", "AsyncTimer.on_timer is `async def`"),
    (AsyncOpen(), "ASYNC_METHOD", "AsyncOpen.open is `async def`"),
    (AsyncColumns(), "ASYNC_METHOD", "AsyncColumns.process is `async def`"),
    (
        Short(),
        "WRONG_METHOD_PARAMETERS",
        "Short.process(row) can't be called as Short.process(row, ",
    ),
    (ShortTimer(), "WRONG_METHOD_PARAMETERS", "ShortTimer.on_timer(timestamp, ctx)"),
    (
        LongOpen(),
        "WRONG_METHOD_PARAMETERS",
        "LongOpen.open(ctx, more) can't be called as",
    ),
    (
        RowsOfColumns(),
        "WRONG_METHOD_PARAMETERS",
        "RowsOfColumns.process(batch, state, ctx)",
    ),
]


@pytest.mark.parametrize(("fn", "name", "message"), UNFIT)
def test_methods_that_can_not_be_called_are_named_before_any_work(df, asked, fn, name, message):
    with pytest.raises(pb.InvalidFunction) as problem:
        apply(df, fn)
    assert problem.value.condition == name
    assert message in str(problem.value)
    assert asked == []
    if isinstance(fn, pb.KeyedProcessFunction):
        with pytest.raises(pb.InvalidFunction) as again:
            KeyedHarness(fn, by="k", schema="k string", returns="x int")
        assert str(again.value) == str(problem.value)


@pytest.mark.parametrize("fn", [Inherits(), Attribute()])
def test_a_process_may_come_from_anywhere(df, asked, fn):
    apply(df, fn)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Base, "Pass an object, such as Base(), not its class."),
        (lambda row: row, "for a plain function of a row there is pb.async_io"),
        (None, "Write a class that extends pb.KeyedProcessFunction"),
        (Columns(), "Use pb.process_keyed_arrow."),
        (Columns, "Use pb.process_keyed_arrow."),
        (Calls(), "Use pb.process_keyed_async."),
    ],
)
def test_what_is_no_function_is_told_with_what_to_pass(df, asked, value, advice):
    with pytest.raises(pb.InvalidFunction, match="must be an object of a") as problem:
        df.transform(pb.process_keyed, value, by="k", returns="x int")
    assert advice in str(problem.value)


@pytest.mark.parametrize("process", [pb.process_keyed_async, pb.process_keyed_arrow])
@pytest.mark.parametrize("function", [Base(), pb.JvmFunction("com.acme.Function")])
def test_a_function_by_rows_is_for_process_keyed_alone(df, asked, process, function):
    with pytest.raises(pb.InvalidFunction, match=r"Use pb\.process_keyed\."):
        df.transform(process, function, by="k", returns="x int")


def test_columns_may_be_one_name_or_several(df, asked):
    apply(df, inputs="v", order_by="t", by="k", backend=pb.Backend("heap", timers="rocksdb"))
    apply(df, inputs=["v"], order_by=["t"], by=["k"], backend=pb.Backend("heap", timers="rocksdb"))
    specs = [json.loads(call[2]) if isinstance(call[2], str) else call[2] for call in asked]
    assert specs[0] == specs[1]
    assert (specs[0]["backend"], specs[0]["timers"]) == ("heap", "rocksdb")


class Half(pb.AggregateFunction):
    def create_accumulator(self):
        return 0

    def ad(self, value, accumulator):
        return accumulator + value


def test_an_aggregate_that_lacks_a_method_is_named_when_it_is_declared():
    with pytest.raises(pb.InvalidFunction, match=r"Half has no method add, but a ad\. Write it"):
        AtKeys(lambda ctx: ctx.aggregating_state("s", "bigint", Half()))


def test_an_operator_of_a_checkpoint_is_found_or_told_with_those_there_are():
    there = [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}, {"id": 2, "name": "b"}]
    assert (_operator(there, "x", "a"), _operator(there, "x", 2)) == (0, 2)
    known = r"0 \(a\), 1 \(b\), 2 \(b\)"
    for wanted in (3, "c", None):
        wanted_text = rf"has no keyed operator {wanted!r}; there .*{known}"
        with pytest.raises(pb.InvalidOption, match=wanted_text):
            _operator(there, "x", wanted)
    with pytest.raises(pb.InvalidOption, match=f"2 keyed operators of .* called 'b': {known}"):
        _operator(there, "x", "b")
