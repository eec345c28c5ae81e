"""Functions in Java by class name, from a jar of the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pillarbox as pb
from java_jars import compiled
from spark_support import add_jar, by_value

by_value(__name__)

SOURCES = {
    "Price": """
        package com.acme;

        import io.pillarbox.api.AsyncFunction;
        import io.pillarbox.api.OpenContext;
        import io.pillarbox.api.ResultFuture;
        import java.util.ArrayList;
        import java.util.List;
        import java.util.Map;
        import java.util.concurrent.ExecutorService;
        import java.util.concurrent.Executors;
        import org.apache.spark.sql.Row;
        import org.apache.spark.sql.RowFactory;

        /** A row for each piece; fails at the first attempt for every third row. */
        public class Price implements AsyncFunction<Row, Row> {
          private final double factor;
          private ExecutorService pool;

          public Price(Map<String, String> options) {
            factor = Double.parseDouble(options.get("factor"));
          }

          @Override public void open(OpenContext context) {
            pool = Executors.newFixedThreadPool(2);
          }

          @Override public void close() { pool.shutdown(); }

          @Override public void asyncInvoke(Row row, ResultFuture<Row> future) {
            pool.execute(() -> {
              long id = row.getLong(row.fieldIndex("id"));
              if (id % 3 == 0 && future.attempt() == 1) {
                future.completeExceptionally(new IllegalStateException("busy"));
                return;
              }
              List<Row> rows = new ArrayList<>();
              for (long i = 0; i < id % 4; i++) {
                rows.add(RowFactory.create(id * factor, "piece " + i));
              }
              future.complete(rows);
            });
          }
        }
    """,
    "Told": """
        package com.acme;

        import io.pillarbox.api.AsyncFunction;
        import io.pillarbox.api.OpenContext;
        import io.pillarbox.api.ResultFuture;
        import io.pillarbox.api.RetryAfter;
        import java.util.HashMap;
        import java.util.Map;
        import org.apache.spark.sql.Row;
        import org.apache.spark.sql.RowFactory;

        /** Answers with the id that each attempt had, and the operator's name. */
        public class Told implements AsyncFunction<Row, Row> {
          private final Map<Long, String> first = new HashMap<>();
          private String operator;

          static class Later extends RuntimeException implements RetryAfter {
            @Override public long retryAfterMs() { return 1; }
          }

          @Override public void open(OpenContext context) { operator = context.operatorName(); }

          @Override public void asyncInvoke(Row row, ResultFuture<Row> future) {
            String id = future.callId();
            String before = first.putIfAbsent(row.getLong(0), id);
            if (before == null) future.completeExceptionally(new Later());
            else future.completeOne(RowFactory.create(id, id.equals(before) ? operator : before));
          }
        }
    """,
    "KeyedTold": """
        package com.acme;

        import io.pillarbox.api.Collector;
        import io.pillarbox.api.KeyedProcessFunction;
        import org.apache.spark.sql.Row;
        import org.apache.spark.sql.RowFactory;

        public class KeyedTold extends KeyedProcessFunction<Row, Row, Row> {
          private String operator;

          @Override public void open(OpenContext context) { operator = context.operatorName(); }

          @Override public void processElement(Row row, Context<Row> context, Collector<Row> out) {
            String names = String.join(" ", row.schema().fieldNames());
            out.collect(RowFactory.create(operator, names, row.getLong(0)));
          }
        }
    """,
    "WrongType": """
        package com.acme;

        import io.pillarbox.api.AsyncFunction;
        import io.pillarbox.api.ResultFuture;
        import org.apache.spark.sql.Row;
        import org.apache.spark.sql.RowFactory;

        public class WrongType implements AsyncFunction<Row, Row> {
          @Override public void asyncInvoke(Row row, ResultFuture<Row> future) {
            future.completeOne(RowFactory.create("dear", "piece"));
          }
        }
    """,
    "Keyed": """
        package com.acme;

        import io.pillarbox.api.Collector;
        import io.pillarbox.api.KeyedProcessFunction;
        import io.pillarbox.api.OutputTag;
        import java.util.Map;
        import java.util.concurrent.CompletionException;
        import org.apache.spark.sql.Row;
        import org.apache.spark.sql.RowFactory;

        /** Fails in the way that its option says. */
        public class Keyed extends KeyedProcessFunction<Row, Row, Row> {
          private final String how;

          public Keyed(Map<String, String> options) {
            how = options.get("how");
            if (how.equals("constructor")) throw new IllegalStateException("no url");
          }

          @Override public void open(KeyedProcessFunction.OpenContext context) {
            if (how.equals("open")) throw new IllegalStateException("no port");
          }

          @Override public void processElement(
              Row row, KeyedProcessFunction.Context<Row> context, Collector<Row> out) {
            if (row.getLong(0) != 3) return;
            if (how.equals("process")) throw new IllegalStateException("no such row:\\n3");
            if (how.equals("wrapped")) {
              throw new CompletionException(new java.io.IOException("gone"));
            }
            if (how.equals("timer")) context.timerService().registerEventTimeTimer(77);
            if (how.equals("result")) out.collect(RowFactory.create("x"));
            if (how.equals("null row")) out.collect(null);
            if (how.equals("missing class")) throw new NoClassDefFoundError("com/acme/Gone");
          }

          @Override public void onTimer(
              long timestamp,
              KeyedProcessFunction.OnTimerContext<Row> context,
              Collector<Row> out) {
            throw new IllegalStateException("nothing at " + timestamp);
          }
        }
    """,
    "Expiring": """
        package com.acme;

        import io.pillarbox.api.Collector;
        import io.pillarbox.api.KeyedProcessFunction;
        import io.pillarbox.api.Serializers;
        import io.pillarbox.api.StateDescriptor;
        import io.pillarbox.api.StateTtl;
        import io.pillarbox.api.TimeDomain;
        import io.pillarbox.api.ValueState;
        import java.util.ArrayList;
        import java.util.List;
        import org.apache.spark.sql.Row;
        import org.apache.spark.sql.RowFactory;

        /** Emits what its listener of expired values was told, when its timer fires. */
        public class Expiring extends KeyedProcessFunction<Row, Row, Row> {
          private final List<String> told = new ArrayList<>();
          private ValueState<Long> seen;

          @Override public void open(OpenContext context) {
            StateTtl second = StateTtl.ofMillis(1000).withTimeDomain(TimeDomain.EVENT_TIME);
            seen = context.getState(
                StateDescriptor.value("seen", Serializers.ofLong())
                    .withTtl(second)
                    .withExpiryListener((key, userKey, value) ->
                        told.add("id " + ((Row) key).getLong(0) + " had " + value)));
          }

          @Override public void processElement(Row row, Context<Row> context, Collector<Row> out) {
            seen.update(row.getLong(0) * 10);
            context.timerService().registerEventTimeTimer(context.timestamp() + 60_000);
          }

          @Override public void onTimer(
              long timestamp, OnTimerContext<Row> context, Collector<Row> out) {
            out.collect(RowFactory.create(seen.value() + ": " + told));
            told.clear();
          }
        }
    """,
    "Silent": """
        package com.acme;

        import io.pillarbox.api.Collector;
        import io.pillarbox.api.KeyedProcessFunction;
        import java.util.Map;
        import org.apache.spark.sql.Row;

        /** Has no onTimer. */
        public class Silent extends KeyedProcessFunction<Row, Row, Row> {
          private final String how;

          public Silent(Map<String, String> options) { how = options.get("how"); }

          @Override public void processElement(Row row, Context<Row> context, Collector<Row> out) {
            if (how.equals("event")) context.timerService().registerEventTimeTimer(77);
            if (how.equals("processing")) context.timerService().registerProcessingTimeTimer(77);
          }
        }
    """,
    "Unlinked": """
        package com.acme;

        import io.pillarbox.api.AsyncFunction;
        import io.pillarbox.api.OpenContext;
        import io.pillarbox.api.ResultFuture;
        import java.util.Arrays;
        import java.util.Map;
        import org.apache.spark.sql.Row;

        /** As a class that was compiled against another version of a library than it finds. */
        public class Unlinked implements AsyncFunction<Row, Row> {
          private final String how;

          public Unlinked(Map<String, String> options) { how = options.get("how"); }

          @Override public void open(OpenContext context) {
            if (how.equals("open")) throw new NoSuchMethodError("Gone.get()");
          }

          @Override public void asyncInvoke(Row row, ResultFuture<Row> future) {
            if (how.equals("call")) throw new NoSuchMethodError("Gone.get()");
            future.complete(Arrays.asList((Row) null));
          }
        }
    """,
    "NoFunction": "package com.acme; public class NoFunction {}",
    "NeedsNumber": """
        package com.acme;

        import io.pillarbox.api.AsyncFunction;
        import io.pillarbox.api.ResultFuture;
        import org.apache.spark.sql.Row;

        public class NeedsNumber implements AsyncFunction<Row, Row> {
          public NeedsNumber(int number) {}
          @Override public void asyncInvoke(Row row, ResultFuture<Row> future) {}
        }
    """,
}


@pytest.fixture(scope="module")
def users_jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("java"), "acme.jar", SOURCES)


def calls_java(spark):  # type: ignore[no-untyped-def]
    rows = spark.range(0, 40, 1, 2)

    def call(class_name, options=None, **more):
        function = pb.JvmFunction(f"com.acme.{class_name}", options)
        more = {"returns": "price double, name string", "explode": True, **more}
        return [list(row) for row in rows.transform(pb.async_io, function, **more).collect()]

    def refusal(*arguments, **more):
        try:
            return ["no error", str(call(*arguments, **more))]
        except Exception as problem:
            return [type(problem).__name__, str(problem)]

    def keyed_refusal(class_name):
        try:
            function = pb.JvmFunction(class_name)
            rows.transform(pb.process_keyed, function, by="id", returns="x long").collect()
            return "no error"
        except Exception as problem:
            return [type(problem).__name__, str(problem)]

    def found(error):
        failure = pb.failure_of(error)
        told = {} if failure is None else vars(failure)
        return [type(error).__name__, type(failure).__name__, {**told, "text": str(failure)}]

    def keyed(df, how):
        function = pb.JvmFunction("com.acme.Keyed", {"how": how})
        return pb.process_keyed(df, function, by="id", returns="x long")

    def raised(action):
        try:
            action()
        except Exception as problem:
            return found(problem)

    def in_stream(how):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            rows.write.parquet(folder + "/in")
            source = spark.readStream.schema("id long").parquet(folder + "/in")
            query = keyed(source, how).writeStream.format("noop").trigger(availableNow=True)
            query = query.option("checkpointLocation", folder + "/checkpoint").start()
            return [raised(query.awaitTermination), found(query.exception())]

    async def told(row):
        return pb.call_id(), "told"

    def ids(function, **more):
        more = {"returns": "call string, operator string", "name": "told", **more}
        more["retry"] = pb.Retry(2, backoff="1ms")
        return [list(row) for row in rows.transform(pb.async_io, function, **more).collect()]

    def size(row):
        return None if row.id == 3 else 1

    def silent(how):
        timers = "SELECT struct(3L) AS key, 'event_time' AS time_domain, now() AS timestamp"
        initial = {pb.TIMERS: spark.sql(timers)} if how == "initial" else None
        function = pb.JvmFunction("com.acme.Silent", {"how": how})
        one = rows.where("id = 3")
        return pb.process_keyed(one, function, by="id", returns="x long", initial_state=initial)

    told_by_java = pb.JvmFunction("com.acme.Told")
    tokens = pb.Limit(per_second=1000, unit="tokens", estimate=size)
    by_key = {"call_key": "id", "share_calls": True}
    ways = ("constructor", "open", "process", "wrapped", "timer", "result", "null row")
    ways += ("missing class",)
    failures = {how: raised(keyed(rows, how).collect) for how in ways}
    factor = {"factor": "1.5"}
    return {
        "failures": failures,
        "silent": {how: raised(silent(how).collect) for how in ("initial", "event", "processing")},
        "stream failures": in_stream("process"),
        "call failures": {
            name: raised(lambda name=name, options=options: call(name, options))
            for name, options in {
                "Price": factor,
                "WrongType": None,
                "Missing": None,
            }.items()
        },
        "keyed": {
            name: keyed_refusal(name)
            for name in ("java.lang.String", "com.acme.Missing", "com.acme.Price")
        },
        "unlinked": {
            how: raised(lambda how=how: call("Unlinked", {"how": how}))
            for how in ("open", "call", "null row")
        },
        "ids of places": [ids(told_by_java), ids(told)],
        "ids of keys": [ids(told_by_java, **by_key), ids(told, **by_key)],
        "estimated": ids(told_by_java, limit=tokens, on_error="column"),
        "told to a keyed function": [
            list(
                pb.process_keyed(
                    rows.where("id = 3").selectExpr("id", "id + 1 AS a", "id + 2 AS b"),
                    pb.JvmFunction("com.acme.KeyedTold"),
                    by="id",
                    inputs=inputs,
                    returns="operator string, names string, first bigint",
                    name="told too",
                ).first()
            )
            for inputs in (None, ["b", "a"])
        ],
        "expired": [
            list(row)
            for row in pb.process_keyed(
                rows.limit(2).selectExpr("id", "timestamp_seconds(id) AS at"),
                pb.JvmFunction("com.acme.Expiring"),
                by="id",
                timestamp="at",
                returns="told string",
            ).collect()
        ],
        "rows": call("Price", factor, retry=pb.Retry(2, backoff="1ms"), capacity=5),
        "retried by a class above": call(
            "Price", factor, retry=pb.Retry(2, backoff="1ms", on="java.lang.RuntimeException")
        ),
        "not worth it": call(
            "Price",
            factor,
            retry=pb.Retry(2, backoff="1ms", on=("java.io.IOException", "com.acme.Busy")),
            on_error="column",
        )[0],
        "failed": call("Price", factor, on_error="column")[0],
        "raised": refusal("Price", factor),
        "missing": refusal("Missing"),
        "no function": refusal("NoFunction"),
        "constructor": refusal("NeedsNumber"),
        "options": refusal("Price", {"factor": "much"}),
        "wrong type": refusal("WrongType"),
        "too few columns": refusal("WrongType", returns="price string"),
    }


@pytest.fixture(scope="module")
def answers(spark: SparkSession, users_jar: Path) -> Any:
    add_jar(spark, users_jar)
    return json.loads(json.dumps(calls_java(spark)))


def test_a_java_class_answers_on_threads_of_its_own_with_options_and_retries(answers: Any) -> None:
    pieces = [[i, i * 1.5, f"piece {n}"] for i in range(40) for n in range(i % 4)]
    assert answers["rows"] == pieces


def test_a_function_in_python_estimates_what_its_calls_use(answers: Any) -> None:
    errors = {row[0]: row[-1] and row[-1][0] for row in answers["estimated"]}
    assert errors == {n: "ESTIMATE_FUNCTION_FAILED" if n == 3 else None for n in range(40)}


def test_only_exceptions_of_the_named_classes_are_retried(answers: Any) -> None:
    assert answers["retried by a class above"] == answers["rows"]
    *_, error = answers["not worth it"]
    assert error[:3] == ["IllegalStateException", "busy", 1]


def test_its_failures_are_rows_or_errors_as_those_of_python_are(answers: Any) -> None:
    *columns, error = answers["failed"]
    assert columns == [0, None, None]
    assert error[:3] == ["IllegalStateException", "busy", 1]
    kind, text = answers["raised"]
    assert kind == "PythonException"
    assert "[ASYNC_CALL_FAILED] async_io(com.acme.Price)" in text
    assert "IllegalStateException: busy" in text


@pytest.mark.parametrize(
    ("case", "condition", "reason"),
    [
        ("missing", "JVM_CLASS_NOT_FOUND", "com.acme.Missing is not on the executors' class path"),
        ("no function", "JVM_CLASS_UNSUITABLE", "does not implement io.pillarbox.api"),
        ("constructor", "JVM_CLASS_UNSUITABLE", "com.acme.NeedsNumber has no such constructor"),
        ("options", "FUNCTION_OPEN_FAILED", 'NumberFormatException: For input string: "much"'),
        ("wrong type", "JVM_RESULT_MISMATCH", "does not fit returns"),
        ("too few columns", "JVM_RESULT_MISMATCH", "a row of 2 columns, but returns has 1"),
    ],
    ids=lambda value: value.split(":")[0],
)
def test_what_does_not_fit_is_told(answers: Any, case: str, condition: str, reason: str) -> None:
    _, text = answers[case]
    assert condition in text
    assert reason in text


@pytest.mark.parametrize(
    ("class_name", "condition", "reason"),
    [
        ("java.lang.String", "JVM_CLASS_UNSUITABLE", "does not extend io.pillarbox.api.Keyed"),
        ("com.acme.Price", "JVM_CLASS_UNSUITABLE", "does not extend io.pillarbox.api.Keyed"),
        ("com.acme.Missing", "JVM_CLASS_NOT_FOUND", "is not on the executors' class path"),
    ],
)
def test_a_class_that_is_no_keyed_function_is_told_in_a_few_words(
    answers: Any, class_name: str, condition: str, reason: str
) -> None:
    kind, text = answers["keyed"][class_name]
    assert kind == "PythonException"
    assert f"[{condition}] process_keyed({class_name}): The class {class_name} {reason}" in text
    assert len(text) < 1000


@pytest.mark.parametrize("options", [{"factor": 1.5}, {1: "x"}], ids=str)
def test_options_that_are_not_strings_are_refused_at_once(options: Any) -> None:
    with pytest.raises(pb.InvalidOption, match="a dict of strings"):
        pb.JvmFunction("com.acme.Price", options)


@pytest.mark.parametrize("name", ["", " ", None, 5], ids=str)
def test_a_class_name_must_be_a_name(name: Any) -> None:
    with pytest.raises(pb.InvalidOption, match="class_name"):
        pb.JvmFunction(name)


@pytest.mark.parametrize(
    ("how", "ours", "name", "kind", "message"),
    [
        ("constructor", "WorkerFailed", "FUNCTION_OPEN_FAILED", "IllegalStateException", "no url"),
        ("open", "WorkerFailed", "FUNCTION_OPEN_FAILED", "IllegalStateException", "no port"),
        ("process", "CallFailed", "KEYED_CALL_FAILED", "IllegalStateException", "no such row:\n3"),
        ("wrapped", "CallFailed", "KEYED_CALL_FAILED", "IOException", "gone"),
        ("timer", "CallFailed", "KEYED_CALL_FAILED", "IllegalStateException", "nothing at 77"),
        ("result", "ResultTypeMismatch", "JVM_RESULT_MISMATCH", "JVM_RESULT_MISMATCH", None),
        ("null row", "ResultTypeMismatch", "JVM_RESULT_MISMATCH", "JVM_RESULT_MISMATCH", None),
        (
            "missing class",
            "CallFailed",
            "KEYED_CALL_FAILED",
            "NoClassDefFoundError",
            "com/acme/Gone",
        ),
    ],
)
def test_failure_of_tells_how_a_keyed_function_failed(
    answers: Any, how: str, ours: str, name: str, kind: str, message: str | None
) -> None:
    raised, found_type, found = answers["failures"][how]
    assert (raised, found_type) == ("PythonException", ours)
    assert (found["condition"], found["kind"]) == (name, kind)
    assert found["operator"] == "process_keyed(com.acme.Keyed)"
    if message is not None:
        assert found["message"] == message
        assert "com.acme.Keyed." in found["traceback"]
    of_no_row = ("constructor", "open", "timer")
    assert found["row"] == (None if how in of_no_row else "id=3")
    assert found["key"] == (None if how in ("constructor", "open") else "3")
    assert found["timer"] == ("77 in event time" if how == "timer" else None)


@pytest.mark.parametrize(
    ("how", "condition", "text"),
    [
        ("initial", "INITIAL_TIMER_INVALID", "key 3 with the time_domain event_time, whose timers"),
        ("event", "TIMER_WITHOUT_ON_TIMER", "Write public void onTimer(long timestamp, OnTimer"),
        ("processing", "TIMER_WITHOUT_ON_TIMER", "for the key 3 in process(id=3)"),
    ],
)
def test_timers_of_a_class_without_on_timer_are_refused(
    answers: Any, how: str, condition: str, text: str
) -> None:
    raised, _, found = answers["silent"][how]
    assert (raised, found["condition"]) == ("PythonException", condition)
    assert text in found["text"]


def test_failure_of_tells_it_of_a_stream_too(answers: Any) -> None:
    for raised, ours, found in answers["stream failures"]:
        assert (raised, ours) == ("StreamingQueryException", "CallFailed")
        assert (found["condition"], found["key"], found["row"]) == (
            "KEYED_CALL_FAILED",
            "3",
            "id=3",
        )
        assert found["message"] == "no such row:\n3"


def test_a_listener_of_expired_values_is_told_the_key_as_a_row(answers: Any) -> None:
    told = sorted(answers["expired"])
    assert told == [["null: [id 0 had 0]"], ["null: [id 1 had 10]"]]


@pytest.mark.parametrize(
    ("how", "ours", "name"),
    [
        ("open", "WorkerFailed", "FUNCTION_OPEN_FAILED"),
        ("call", "CallFailed", "ASYNC_CALL_FAILED"),
        ("null row", "ResultTypeMismatch", "JVM_RESULT_MISMATCH"),
    ],
)
def test_a_missing_method_or_row_is_told_as_a_failure_of_the_call(
    answers: Any, how: str, ours: str, name: str
) -> None:
    raised, found_type, found = answers["unlinked"][how]
    assert (raised, found_type, found["condition"]) == ("PythonException", ours, name)
    if how == "null row":
        assert "null instead of a row" in found["text"]
    else:
        assert (found["kind"], found["message"]) == ("NoSuchMethodError", "Gone.get()")


def test_a_call_has_the_id_that_it_has_in_python_in_every_attempt(answers: Any) -> None:
    java, python = answers["ids of keys"]
    assert java == python
    java, python = answers["ids of places"]
    assert len({call for _, call, _ in java}) == 40
    assert not {call for _, call, _ in java} & {call for _, call, _ in python}, "other operators"
    assert [[id, name] for id, _, name in java] == [[id, name] for id, _, name in python]


def test_a_function_is_told_its_operators_name(answers: Any) -> None:
    assert {name for _, _, name in answers["ids of places"][0]} == {"told"}
    assert {name for name, _, _ in answers["told to a keyed function"]} == {"told too"}


def test_a_keyed_function_gets_the_columns_that_it_asks_for_in_their_order(answers: Any) -> None:
    found = [names_and_first for _, *names_and_first in answers["told to a keyed function"]]
    assert found == [["id a b", 3], ["b a", 5]]


def test_failure_of_tells_how_a_call_of_java_failed(answers: Any) -> None:
    failures = answers["call failures"]
    raised, ours, found = failures["Price"]
    assert (raised, ours) == ("PythonException", "CallFailed")
    assert found["condition"] == "ASYNC_CALL_FAILED"
    assert found["row"] in ("id=0", "id=21")  # the first of each partition
    assert (found["kind"], found["message"]) == ("IllegalStateException", "busy")
    assert "com.acme.Price." in found["traceback"]
    raised, ours, found = failures["WrongType"]
    assert (raised, ours) == ("PythonException", "ResultTypeMismatch")
    assert found["condition"] == "JVM_RESULT_MISMATCH"
    assert found["row"] in ("id=0", "id=20")
    raised, ours, found = failures["Missing"]
    assert (raised, ours, found["condition"]) == (
        "PythonException",
        "CallFailed",
        "JVM_CLASS_NOT_FOUND",
    )
