"""One script with ``pb.configure``, whoever starts the JVM: Python, spark-submit, a notebook."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

import pillarbox as pb
from java_jars import compiled
from local_cluster import cluster_environment, executor_logs
from pillarbox._driver.jars import find_jar
from spark_apps import SOURCES, answer_of, app_text, environment

# The applications below are sent as text; this name is theirs.
build: Any = None


def one_script():  # type: ignore[no-untyped-def]
    import logging
    import warnings

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", RuntimeWarning)
        spark = pb.configure(build({})).getOrCreate()

    async def double(row):
        return row.id * 2

    df = spark.range(0, 20, 1, 2)
    answers = df.transform(pb.async_io, double, returns="x long").collect()
    df.transform(pb.async_io, double, returns="x long")
    sees = spark.range(0, 20, 1, 2).selectExpr("java_method('com.acme.There', 'word') AS word")
    try:
        words = sorted({row.word for row in sees.collect()})
    except Exception as problem:
        words = [str(problem).splitlines()[0]]
    plan = df.transform(pb.async_io, double, returns="x long")._jdf.queryExecution().toString()
    return {
        "package": pb.__file__,
        "rows": sorted(row.x for row in answers),
        "jvm": "AsyncIO" in plan,
        "words": words,
        "jars": spark.sparkContext._jsc.sc().listJars().mkString(","),
        "warnings": [str(one.message) for one in told if one.category is RuntimeWarning],
    }


SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
DOUBLES = list(range(0, 40, 2))


@pytest.fixture(scope="module")
def users_jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = 'package com.acme; public class There { public static String word() { return "yes"; } }'
    return compiled(tmp_path_factory.mktemp("java"), "acme.jar", {"There": text})


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(app_text(one_script))
    return path


@pytest.mark.nightly
def test_python_app_py_keeps_the_jars_of_the_builder(
    tmp_path: Path, users_jar: Path, script: Path
) -> None:
    jars = {"spark.master": "local[2]", "spark.jars": str(users_jar)}
    script.write_text(script.read_text().replace("build({})", f"build({jars})"))
    runs_with_both(answered([sys.executable, str(script)], environment(SOURCES), tmp_path))


@pytest.mark.nightly
def test_python_app_py_on_a_cluster_keeps_the_jars_of_the_defaults(
    tmp_path: Path, users_jar: Path, script: Path
) -> None:
    env = cluster_environment(tmp_path, executors=1) | {"SPARK_CONF_DIR": str(tmp_path)}
    (tmp_path / "spark-defaults.conf").write_text(f"spark.jars {users_jar}")
    runs_with_both(answered([sys.executable, str(script)], env, tmp_path))


def test_spark_submit_on_a_cluster_with_our_jar_and_the_package_in_it(
    tmp_path: Path, users_jar: Path, script: Path
) -> None:
    env = cluster_environment(tmp_path) | {"PYTHONPATH": ""}
    del env["PYSPARK_SUBMIT_ARGS"]
    cluster = ["--master", "local-cluster[1,1,1024]", "--conf", "spark.executor.memory=1024m"]
    jars = ["--jars", f"{find_jar()},{users_jar}", "--py-files", find_jar()]
    answer = answered([SUBMIT, *cluster, *jars, str(script)], env, tmp_path)
    assert ".jar" in answer["package"]
    runs_with_both(answer)


@pytest.mark.nightly
def test_spark_submit_on_a_cluster_with_our_jar_among_those_of_spark(
    tmp_path: Path, users_jar: Path, script: Path
) -> None:
    """As in an image: no option names the jar, and the package is in it."""
    env = cluster_environment(tmp_path) | {"PYTHONPATH": ""}
    del env["PYSPARK_SUBMIT_ARGS"]
    jars = Path(env["SPARK_HOME"], "jars")
    sparks = jars.resolve()
    jars.unlink()
    jars.mkdir()
    for jar in (*sparks.iterdir(), Path(find_jar())):
        (jars / jar.name).symlink_to(jar)
    cluster = ["--master", "local-cluster[1,1,1024]", "--conf", "spark.executor.memory=1024m"]
    options = ["--jars", str(users_jar), "--py-files", f"local://{jars / Path(find_jar()).name}"]
    answer = answered([SUBMIT, *cluster, *options, str(script)], env, tmp_path)
    assert answer["rows"] == DOUBLES
    assert answer["jvm"]
    assert answer["words"] == ["yes"]
    assert Path(answer["jars"]).name == "acme.jar"
    assert answer["warnings"] == []


@pytest.mark.nightly
def test_spark_submit_with_our_jar_and_the_package_installed(
    tmp_path: Path, users_jar: Path, script: Path
) -> None:
    jars = ["--master", "local[2]", "--jars", f"{find_jar()},{users_jar}"]
    answer = answered([SUBMIT, *jars, str(script)], environment(SOURCES), tmp_path)
    assert ".jar" not in answer["package"]
    runs_with_both(answer)


def runs_with_both(answer: Any) -> None:
    """On the JVM's engine, with a class of another jar in the executors, and nothing to warn of."""
    assert answer["rows"] == DOUBLES
    assert answer["jvm"]
    assert answer["words"] == ["yes"]
    assert {jar.rsplit("/", 1)[-1] for jar in answer["jars"].split(",")} == {
        "acme.jar",
        Path(find_jar()).name,
    }
    assert answer["warnings"] == []


@pytest.mark.nightly
def test_spark_submit_without_our_jar_warns_and_says_what_to_write(
    tmp_path: Path, users_jar: Path, script: Path
) -> None:
    command = [SUBMIT, "--master", "local[2]", "--jars", str(users_jar), str(script)]
    answer = answered(command, environment(SOURCES), tmp_path)
    assert answer["rows"] == DOUBLES
    assert not answer["jvm"]
    assert answer["words"] == ["yes"]
    (warning,) = answer["warnings"]
    assert warning.startswith("[JAR_TOO_LATE]")
    assert f"spark-submit --jars {find_jar()} " in warning


def on_a_server_of_our_own():  # type: ignore[no-untyped-def]
    import logging

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    spark = pb.configure(build({})).getOrCreate()

    async def double(row):
        return row.id * 2

    df = pb.async_io(spark.range(0, 20, 1, 2), double, returns="x long", engine="jvm")
    word = spark.range(1).selectExpr("java_method('com.acme.There', 'word') AS word").first().word
    return [type(spark).__module__, sorted(row.x for row in df.collect()), word]


@pytest.mark.nightly
@pytest.mark.parametrize("ours", [False, True])
def test_spark_submit_with_a_remote_that_it_starts(
    tmp_path: Path, users_jar: Path, ours: bool
) -> None:
    """PySpark hands the options of spark-submit over to Python, which starts the server."""
    script = tmp_path / "app.py"
    script.write_text(app_text(on_a_server_of_our_own))
    jars = f"{users_jar},{find_jar()}" if ours else str(users_jar)
    mode = ["--remote", "local[2]", "--conf", "spark.api.mode=connect"]
    command = [SUBMIT, *mode, "--jars", jars, str(script)]
    told = answered(command, environment(SOURCES), tmp_path)
    assert told == ["pyspark.sql.connect.session", DOUBLES, "yes"]


def creates_a_session():  # type: ignore[no-untyped-def]
    first = pb.configure(build({"spark.master": "local[1]"})).create()
    again = pb.configure(build({})).create()

    async def double(row):
        return row.id * 2

    return [
        [
            row.x
            for row in pb.async_io(spark.range(3), double, returns="x long", engine="jvm").collect()
        ]
        for spark in (first, again)
    ]


@pytest.mark.nightly
@pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2),
    reason="older ones create none with a JVM in reach",
)
def test_a_session_that_is_created(tmp_path: Path) -> None:
    command = [sys.executable, "-c", app_text(creates_a_session)]
    assert answered(command, environment(SOURCES), tmp_path) == [[0, 2, 4]] * 2


def session_runs_already(log):  # type: ignore[no-untyped-def]
    import logging
    import warnings

    logging.basicConfig(level=logging.INFO, filename=log, format="%(levelname)s %(message)s")
    running = build({"spark.master": "local[1]"}).getOrCreate()
    running.range(1).collect()

    async def double(row):
        return row.id * 2

    def refusal(action):
        try:
            action(running.range(3))
        except pb.EngineUnavailable as problem:
            return str(problem)

    def on_the_jvm(df):
        return pb.async_io(df, double, returns="x long", engine="jvm")

    before = refusal(on_the_jvm)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        spark = pb.configure(build({})).getOrCreate()

    answers = [
        [row.x for row in spark.range(3).transform(pb.async_io, double, returns="x long").collect()]
        for _ in range(2)
    ]
    refused = refusal(lambda df: pb.scan(df, by="id", state={"n": ("0L", "n + 1")}))
    # A second session of the process is no other JVM.
    spark.stop()
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("always")
        pb.configure(build({})).getOrCreate()
    texts = [str(one.message) for one in (*told, *again) if one.category is RuntimeWarning]
    return [answers, texts, before, refused]


@pytest.mark.nightly
def test_a_session_that_runs_already_is_a_warning_with_the_remedy(tmp_path: Path) -> None:
    """As in a notebook. The log says once which engine was taken, and why."""
    log = tmp_path / "log"
    command = [sys.executable, "-c", app_text(session_runs_already, str(log))]
    answers, warned, before, refused = answer_of(command, environment(SOURCES))
    assert answers == [[0, 2, 4]] * 2
    assert len(warned) == 2
    for text in warned:
        assert text.startswith("[JAR_TOO_LATE]")
        assert "kernel" in text
    assert "jar is not on the class path" in before
    assert "pb.configure" in before
    assert "kernel" in refused
    assert "Start it with pb.configure" not in refused
    (line,) = [line for line in log.read_text().splitlines() if 'engine="auto"' in line]
    assert line.startswith('WARNING engine="auto" takes "python": the Pillarbox jar is not on')


def answered(command: list[str], env: dict[str, str], folder: Path) -> Any:
    try:
        return answer_of(command, env)
    except Exception as problem:
        raise AssertionError(f"{problem}\n{executor_logs(folder)}") from problem
