"""Async I/O on a Spark Connect server without our plugin: the Python engine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import pillarbox as pb
from spark_apps import run_app

pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio: install pyspark[connect]")

# The application below is sent as text; this name is its own.
build: Any = None


def on_a_connect_server(folder):  # type: ignore[no-untyped-def]
    spark = build({"spark.remote": "local[2]"}).getOrCreate()
    answers = {"session": type(spark).__module__}

    class Client:
        async def __aenter__(self):
            return 10

        async def __aexit__(self, *error):
            pass

    async def scaled(row, scale):
        await asyncio.sleep(0.001)
        if row.id % 10 == 3:
            raise LookupError(str(row.id))
        return row.id * scale

    def enrich(df, engine="auto", **options):
        options = {"returns": "scaled long", "capacity": 20, "resource": Client, **options}
        return pb.async_io(df, scaled, engine=engine, **options)

    rows = spark.range(0, 40, 1, 2)
    answers["auto"] = [
        [row.id, row.scaled, row.error and [row.error.kind, row.error.attempts]]
        for row in enrich(
            rows, retry=pb.Retry(2, backoff="1ms", on=Exception), on_error="column"
        ).collect()
    ]
    answers["python"] = [
        [row.id, row.scaled] for row in enrich(rows, "python", on_error="null").collect()
    ]

    async def text(row):
        return "x"

    def failure(error):
        found = pb.failure_of(error)
        kinds = [type(error).__name__, type(error).__module__, type(found).__name__]
        return kinds, {name: value for name, value in vars(found).items() if name != "elapsed_ms"}

    def failures(action):
        try:
            action()
        except Exception as problem:
            return failure(problem)

    def refusal(action):
        try:
            action()
        except Exception as problem:
            return [type(problem).__name__, str(problem)]

    answers["raised"] = refusal(lambda: enrich(rows).collect())
    answers["jvm"] = refusal(lambda: enrich(rows, "jvm"))
    answers["gated"] = refusal(lambda: enrich(rows, limit=pb.Limit(concurrency=3)))
    function = pb.JvmFunction("com.acme.F")
    answers["jvm function"] = refusal(lambda: pb.async_io(rows, function, returns="x long"))

    three = rows.where("id = 3")
    answers["batch failure"] = failures(lambda: enrich(three).collect())
    misfit = pb.async_io(three, text, returns="x long")
    answers["misfit failure"] = failures(misfit.collect)
    spark.conf.set("spark.sql.connect.enrichError.enabled", "false")
    answers["cut failure"] = failures(lambda: enrich(three).collect())
    spark.conf.set("spark.sql.connect.enrichError.enabled", "true")

    rows.write.parquet(folder + "/in")
    stream = spark.readStream.schema("id long").parquet(folder + "/in")
    failing = enrich(stream).writeStream.trigger(availableNow=True).format("noop")
    failing = failing.option("checkpointLocation", folder + "/failing").start()
    answers["stream failure"] = failures(failing.awaitTermination)
    answers["exception() failure"] = failure(failing.exception())
    query = enrich(stream, on_error="null").writeStream.trigger(availableNow=True)
    query = query.option("checkpointLocation", folder + "/checkpoint").format("parquet")
    query.start(folder + "/out").awaitTermination()
    out = spark.read.parquet(folder + "/out").collect()
    answers["stream"] = sorted((row.id, row.scaled) for row in out)
    spark.stop()
    return answers


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run_app(on_a_connect_server, str(tmp_path_factory.mktemp("connect")))


SCALED = [[i, None if i % 10 == 3 else 10 * i] for i in range(40)]


def test_auto_takes_the_python_engine(answers: Any) -> None:
    assert answers["session"].startswith("pyspark.sql.connect.")
    errors = [["LookupError", 2] if i % 10 == 3 else None for i in range(40)]
    assert answers["auto"] == [[*row, e] for row, e in zip(SCALED, errors, strict=True)]


def test_the_python_engine_in_a_batch_and_in_a_stream(answers: Any) -> None:
    assert answers["python"] == SCALED
    assert answers["stream"] == SCALED


def test_an_error_of_the_function_reaches_the_client(answers: Any) -> None:
    kind, text = answers["raised"]
    assert kind == "PythonException"
    assert "LookupError" in text


@pytest.mark.parametrize("way", ["batch", "cut", "stream", "exception()"])
def test_failure_of_finds_ours_in_what_the_client_raises(answers: Any, way: str) -> None:
    (kind, module, ours), found = answers[f"{way} failure"]
    raised = "PythonException" if way in ("batch", "cut") else "StreamingQueryException"
    assert (kind, module) == (raised, "pyspark.errors.exceptions.connect")
    assert (ours, found["condition"]) == ("CallFailed", "ASYNC_CALL_FAILED")
    assert found["operator"].startswith("async_io(")
    assert found["row"] in ("id=3", "id=13", "id=23", "id=33")
    assert (found["kind"], found["attempts"]) == ("LookupError", 1)
    assert found["message"] == found["row"].removeprefix("id=")
    assert found["traceback"].endswith(f"LookupError: {found['message']}")


def test_failure_of_finds_an_answer_that_does_not_fit(answers: Any) -> None:
    (kind, _, ours), found = answers["misfit failure"]
    assert (kind, ours) == ("PythonException", "ResultTypeMismatch")
    assert (found["condition"], found["row"]) == ("RESULT_TYPE_MISMATCH", "id=3")


def test_what_needs_the_jvm_is_refused_and_says_why(answers: Any) -> None:
    for what in ("jvm", "jvm function"):
        kind, text = answers[what]
        assert kind == "EngineUnavailable"
        assert "Spark Connect server of this session has no Pillarbox plugin" in text
        assert "Start the server with --jars" in text
    assert 'scope="task"' in answers["gated"][1]
    assert 'engine="jvm"' in answers["gated"][1]
