"""Async I/O on a Spark Connect server: another process, reached over gRPC, without our jar."""

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
    spark = pb.configure(build({"spark.remote": "local[2]"})).getOrCreate()
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
        for row in enrich(rows, retry=pb.Retry(2, backoff="1ms"), on_error="column").collect()
    ]
    answers["python"] = [
        [row.id, row.scaled] for row in enrich(rows, "python", on_error="null").collect()
    ]

    def refusal(action):
        try:
            action()
        except Exception as problem:
            return [type(problem).__name__, str(problem)]

    answers["raised"] = refusal(lambda: enrich(rows).collect())
    answers["jvm"] = refusal(lambda: enrich(rows, "jvm"))
    answers["gated"] = refusal(lambda: enrich(rows, max_concurrency=3))
    function = pb.jvm_function("com.acme.F")
    answers["jvm function"] = refusal(lambda: pb.async_io(rows, function, returns="x long"))

    rows.write.parquet(folder + "/in")
    stream = spark.readStream.schema("id long").parquet(folder + "/in")
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


def test_what_needs_the_jvm_is_refused_and_says_why(answers: Any) -> None:
    for what in ("jvm", "jvm function"):
        kind, text = answers[what]
        assert kind == "EngineUnavailable"
        assert "Spark Connect session" in text
    assert "max_concurrency" in answers["gated"][1]
    assert 'engine="jvm"' in answers["gated"][1]
