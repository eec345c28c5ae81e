"""What ``process_keyed`` and ``scan`` ask the JVM for, and what they refuse before any work."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as t

import pillarbox as pb
from keyed.scripts import CountAndSum, Split
from pillarbox import _engine, _jvm
from pillarbox._keyed import plan


@pytest.fixture
def df(spark):
    return spark.createDataFrame(
        [], "k string, t bigint, v double, ts timestamp, m map<string,int>"
    )


@pytest.fixture
def stream(spark):
    return spark.readStream.format("rate").load().withColumn("k", F.lit("a"))


@pytest.fixture
def asked(monkeypatch):
    """The calls that would have gone to the JVM."""
    calls = []
    monkeypatch.setattr(_engine, "require_jvm", lambda spark: None)
    monkeypatch.setattr(_jvm, "process_keyed", lambda *call: calls.append(call) or call[0])
    return calls


def apply(df, fn=None, **options):
    defaults = {"by": "k", "returns": "k string, n bigint"}
    return df.transform(pb.process_keyed, fn or CountAndSum(), **{**defaults, **options})


def test_the_spec_says_all_that_the_operator_needs(df, asked):
    apply(df, by=["K"], timestamp="TS", order_by="t", inputs=["k", "v"], time_sorted=True,
          backend="heap", side_outputs={"bad": "why string"}, name="rotations")  # fmt: skip
    ((_, command, spec, _),) = asked
    returns = t.StructType.fromJson(json.loads(spec.pop("returns")))
    assert returns.simpleString() == "struct<tag:string,k:string,n:bigint,bad:struct<why:string>>"
    assert spec == {
        "kind": "keyed", "name": "rotations", "form": "row", "class_name": None, "options": {},
        "by": ["k"], "timestamp": "ts", "backend": "heap", "timers": "rocksdb", "order_by": ["t"],
        "time_sorted": True, "inputs": ["k", "v"], "tags": ["bad"], "streaming": False,
        "event_time": True, "blocked_loop_ms": 5000, "initial": [],
    }  # fmt: skip
    from pyspark import cloudpickle

    sent = cloudpickle.loads(command)
    assert (sent.form, sent.key_schema.names, sent.input_schema.names) == ("row", ["k"], ["k", "v"])


def test_a_stream_has_event_time_if_it_has_a_watermark(stream, asked):
    apply(stream)
    apply(stream.withWatermark("timestamp", "5 seconds"), time_sorted=True)
    first, second = (spec for _, _, spec, _ in asked)
    assert (first["event_time"], first["timestamp"], first["streaming"]) == (False, None, True)
    assert (second["event_time"], second["timestamp"]) == (True, None)


def test_a_function_of_the_jvm_goes_by_its_name(df, asked):
    apply(df, pb.jvm_function("com.acme.Fn", {"a": "b"}))
    ((_, command, spec, _),) = asked
    assert command is None
    assert (spec["form"], spec["class_name"], spec["options"]) == ("jvm", "com.acme.Fn", {"a": "b"})


def test_a_scan_is_expressions(df, asked):
    pb.scan(df, by="k", state={"n": ("0L", "n + 1")}, emit=["k", "n"], ttl="2 days")
    ((_, command, spec, _),) = asked
    assert command is None
    assert spec["form"] == "scan"
    assert spec["state"] == [{"name": "n", "init": "0L", "update": "n + 1"}]
    assert spec["emit"] == ["k", "n"]
    assert spec["ttl"]["ms"] == 172_800_000


def test_side_outputs_are_taken_apart(spark, asked):
    schema = plan.parse_outputs("k string, n bigint", {"bad": "why string"}, False)
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


class Columns(pb.BatchProcessFunction):
    pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "x"}, "by names the column x, but there is only k, t, v, ts, m"),
        ({"by": []}, "by must be the name of a column"),
        ({"by": 5}, "by must be the name of a column"),
        ({"by": "m"}, "key column m has the type map<string,int>"),
        ({"timestamp": "x"}, "timestamp names the column x"),
        ({"timestamp": "t"}, "timestamp_millis"),
        ({"order_by": ["x"]}, "order_by names the column x"),
        ({"inputs": ["x"]}, "inputs names the column x"),
        ({"backend": "redis"}, 'backend must be one of "rocksdb", "heap"'),
        ({"timers": "redis"}, 'timers must be one of "rocksdb", "heap"'),
        ({"time_sorted": 1}, "time_sorted must be True or False"),
        ({"time_sorted": True}, "neither timestamp nor a watermark"),
        ({"name": ""}, "name must be a name"),
        ({"returns": "n"}, "returns must be a DDL string"),
        ({"returns": "n int, N int"}, "two columns named N"),
        ({"side_outputs": {"k": "why string"}}, "two columns named k"),
        ({"side_outputs": {"tag": "why string"}}, "two columns named tag"),
        ({"side_outputs": {"bad": "why"}}, "returns must be a DDL string"),
        ({"fn": CountAndSum}, "not its class"),
        ({"fn": Columns(), "time_sorted": True, "timestamp": "ts"}, "for the column form"),
        ({"fn": Columns(), "side_outputs": {"bad": "x int"}}, "for the column form"),
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


def test_a_function_that_can_not_be_sent_is_named(df, asked, spark):
    fn = CountAndSum()
    fn.session = spark
    with pytest.raises(pb.InvalidFunction, match="CountAndSum can't be sent"):
        apply(df, fn)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": {}}, "state must be a dict"),
        ({"state": {"n": "0L"}}, "state must be a dict"),
        ({"state": {"n": ("0L", "")}}, "state must be a dict"),
        ({"state": {"V": ("0L", "1L")}}, "two columns named V"),
        ({"emit": []}, "emit must be a list of SQL expressions"),
        ({"emit": "n"}, "emit must be a list of SQL expressions"),
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
    monkeypatch.setattr(_jvm, "is_available", lambda spark: False)
    with pytest.raises(pb.EngineUnavailable, match=r"pb\.configure"):
        apply(df, Split(), returns="k string, v double")
