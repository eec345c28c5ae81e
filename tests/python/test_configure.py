"""``pb.configure``: the jar among those that others name, whoever starts the JVM."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import pillarbox as pb
from pillarbox._base.spark_versions import SUPPORTED, installed
from pillarbox._driver import engine, jars
from pillarbox._driver.client import classic
from pillarbox._driver.jars import find_jar
from pillarbox._driver.submit import SubmitArguments
from spark_apps import SOURCES, environment

OURS = "/x/pillarbox-1.jar"


class FakeBuilder:
    def __init__(self, **options: str) -> None:
        self._options = {key.replace("_", "."): value for key, value in options.items()}

    def config(self, key: str, value: str) -> FakeBuilder:
        self._options[key] = value
        return self

    def getOrCreate(self) -> str | None:
        """What a JVM that is started now is told."""
        return SubmitArguments({}).value("--jars", "spark.jars")

    create = getOrCreate


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No JVM has been started yet, and Spark's defaults are in a folder of the test's own."""
    monkeypatch.setattr(classic, "is_running", lambda: False)
    monkeypatch.setattr(jars, "find_jar", lambda: OURS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # undone at the end, whether it was set or not
    for variable in ("MASTER", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(variable, raising=False)
    return monkeypatch


def jars_after(*, arguments: str | None = None, **options: str) -> tuple[list[str], str | None]:
    """What the JVM is given, and what the builder says."""
    builder: Any = FakeBuilder(**options)
    assert pb.configure(pb.configure(builder)) is builder
    told = started(builder, arguments)
    return (told or "").split(","), builder._options.get("spark.jars")


def started(builder: Any, arguments: str | None = None) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        if arguments is not None:
            patch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
        told = builder.getOrCreate()
        assert os.environ.get("PYSPARK_SUBMIT_ARGS") == arguments
    return told


@pytest.mark.usefixtures("no_jvm")
@pytest.mark.parametrize(
    "arguments",
    [
        "--master local[2] --jars /a.jar,/b.jar --driver-memory 1g pyspark-shell",
        "--jars=/a.jar,/b.jar pyspark-shell",
        "--verbose --jars /c.jar --jars '/a.jar,/b.jar' pyspark-shell",
        "--conf spark.jars=/a.jar,/b.jar pyspark-shell",
        "-c spark.jars=/c.jar -c 'spark.jars=/a.jar, /b.jar' pyspark-shell",
    ],
)
def test_the_jars_of_the_submit_arguments_stay(arguments: str) -> None:
    assert jars_after(arguments=arguments) == (["/a.jar", "/b.jar", OURS], None)


def test_other_submit_arguments_stay(no_jvm: pytest.MonkeyPatch) -> None:
    text = "--master local[2] --jars /a.jar --name 'two words' --driver-memory=1g pyspark-shell x"
    no_jvm.setenv("PYSPARK_SUBMIT_ARGS", text)
    assert SubmitArguments({}).changed(["/a.jar", OURS], {}) == (
        f"--jars /a.jar,{OURS} --master 'local[2]' --name 'two words' "
        "--driver-memory=1g pyspark-shell x"
    )


@pytest.mark.usefixtures("no_jvm")
def test_submit_arguments_with_an_open_quote_are_refused() -> None:
    with pytest.raises(pb.InvalidOption, match=r"PYSPARK_SUBMIT_ARGS must be .*No closing quot"):
        jars_after(arguments="--name 'two words pyspark-shell")


@pytest.mark.usefixtures("no_jvm")
def test_the_jars_of_the_builder_stay_for_the_driver_and_for_executors() -> None:
    """PySpark overwrites what spark-submit made of the list with what the builder says."""
    assert jars_after(spark_jars="/a.jar") == (["/a.jar", OURS], f"/a.jar,{OURS}")
    # What spark-submit is told by --jars wins over the builder's, but for executors.
    both = jars_after(arguments="--jars /b.jar pyspark-shell", spark_jars="/a.jar")
    assert both == (["/b.jar", OURS], f"/a.jar,{OURS}")


@pytest.mark.usefixtures("no_jvm")
def test_jars_that_the_builder_is_told_after_configure_stay_too() -> None:
    builder: Any = FakeBuilder()
    assert started(pb.configure(builder).config("spark.jars", "/a.jar")) == f"/a.jar,{OURS}"
    assert builder._options["spark.jars"] == f"/a.jar,{OURS}"


@pytest.mark.usefixtures("no_jvm")
@pytest.mark.parametrize(
    "line",
    ["spark.jars /a.jar,/b.jar", "spark.jars=/a.jar,/b.jar", "  spark.jars : /a.jar,\\\n   /b.jar"],
)
def test_the_jars_of_the_defaults_stay(tmp_path: Path, line: str) -> None:
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text(
        f"# spark.jars /x.jar\n! no\n\nspark.master local[3]\n{line}\nspark.jarsx 1"
    )
    assert jars_after() == (["/a.jar", "/b.jar", OURS], None)
    other = tmp_path / "other.conf"
    other.write_text("spark.jars /o.jar")
    named = f"--properties-file {other} pyspark-shell"
    assert jars_after(arguments=named) == (["/o.jar", OURS], None)
    other.write_text("spark.x 1")
    assert jars_after(arguments=named) == ([OURS], None)
    both = f"--properties-file {other} --load-spark-defaults pyspark-shell"
    assert jars_after(arguments=both) == (["/a.jar", "/b.jar", OURS], None)


@pytest.mark.usefixtures("no_jvm")
@pytest.mark.parametrize("there", ["s3a://lib/pillarbox.jar", "hdfs://h/pillarbox-0.1.0.dev0.jar"])
def test_a_jar_of_ours_that_is_named_already_is_taken(
    there: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pillarbox")
    arguments = f"--jars /a.jar,{there} pyspark-shell"
    assert jars_after(arguments=arguments) == (["/a.jar", there], None)
    assert caplog.messages == [f"pb.configure: {there} is among the session's jars already"]
    assert jars_after(arguments=arguments, spark_jars="/b.jar")[1] == f"/b.jar,{there}"


@pytest.mark.usefixtures("no_jvm")
def test_what_was_done_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pillarbox")
    assert jars_after() == ([OURS], None)
    assert caplog.messages == [f"pb.configure: {OURS} is added to the session's jars"]


@pytest.mark.usefixtures("no_jvm")
def test_spark_connect_needs_no_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    def no() -> str:
        raise AssertionError

    monkeypatch.setattr(jars, "find_jar", no)
    assert jars_after(spark_remote="sc://localhost") == ([""], None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    assert jars_after() == ([""], None)


@pytest.mark.parametrize(
    ("arguments", "master", "taken"),
    [
        ("pyspark-shell", None, True),
        ("pyspark-shell", "local[2]", True),
        ("--master local[2] pyspark-shell", None, True),
        ("--master spark://h:7077 pyspark-shell", None, False),
        ("--conf spark.master=yarn pyspark-shell", None, False),
        ("pyspark-shell", "local-cluster[2,1,1024]", False),
    ],
)
def test_local_workers_run_on_this_python_unless_another_is_named(
    no_jvm: pytest.MonkeyPatch, arguments: str, master: str | None, taken: bool
) -> None:
    options = {} if master is None else {"spark_master": master}
    no_jvm.delenv("PYSPARK_PYTHON")
    jars_after(arguments=arguments, **options)
    assert os.environ.get("PYSPARK_PYTHON") == (sys.executable if taken else None)
    no_jvm.setenv("PYSPARK_PYTHON", "python3.99")
    jars_after(arguments=arguments, **options)
    assert os.environ["PYSPARK_PYTHON"] == "python3.99"


@pytest.mark.parametrize("master", ["local[2]", "spark://h:7077"])
def test_workers_run_on_the_python_that_the_settings_name(
    no_jvm: pytest.MonkeyPatch, master: str, tmp_path: Path
) -> None:
    no_jvm.delenv("PYSPARK_PYTHON")
    jars_after(spark_master=master, spark_pyspark_python="builder/python")
    assert os.environ.pop("PYSPARK_PYTHON") == "builder/python"
    jars_after(arguments=f"--master {master} --conf spark.pyspark.python=conf/python pyspark-shell")
    assert os.environ.pop("PYSPARK_PYTHON") == "conf/python"
    (tmp_path / "spark-defaults.conf").write_text("spark.pyspark.python defaults/python")
    jars_after(spark_master=master)
    assert os.environ.pop("PYSPARK_PYTHON") == "defaults/python"


def test_each_session_of_a_process_may_name_another_python(no_jvm: pytest.MonkeyPatch) -> None:
    no_jvm.delenv("PYSPARK_PYTHON")
    jars_after(spark_master="local[2]")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    jars_after(spark_master="local[2]", spark_pyspark_python="another/python")
    assert os.environ["PYSPARK_PYTHON"] == "another/python"
    jars_after(spark_master="spark://h:7077")
    assert "PYSPARK_PYTHON" not in os.environ


def test_a_missing_jar_is_an_error_that_says_where_was_looked(
    no_jvm: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "python" / "src" / "pillarbox"
    package.mkdir(parents=True)
    no_jvm.setattr(jars, "find_jar", find_jar)
    no_jvm.setattr(jars.importlib.resources, "files", lambda _: package)
    builder: Any = FakeBuilder()
    with pytest.raises(pb.EngineUnavailable, match="JAR_NOT_FOUND") as no:
        pb.configure(builder).getOrCreate()
    assert str(tmp_path / "target") in str(no.value)
    assert "there is no jar at all" in str(no.value)
    (package / "jars").mkdir()
    (package / "jars" / "pillarbox-spark_3.9-1.jar").touch()
    with pytest.raises(pb.EngineUnavailable, match=r'Spark 3.9.*pip install "pyspark==3.9'):
        pb.configure(builder).getOrCreate()


def jar_of(path: Path, line: str = installed(), version: str = pb.__version__) -> str:
    """One of ours, as far as it says."""
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("io/pillarbox/spark/PythonBridge.class", b"")
        told = {"Implementation-Vendor-Id": "io.pillarbox", "Implementation-Version": version}
        lines = [f"{key}: {value}\r\n" for key, value in {**told, "Spark-Line": line}.items()]
        jar.writestr("META-INF/MANIFEST.MF", "".join(lines))
    return str(path)


@pytest.mark.usefixtures("no_jvm")
def test_a_jar_is_ours_by_what_is_in_it(tmp_path: Path) -> None:
    renamed = jar_of(tmp_path / "flows.jar")
    assert jars_after(spark_jars=renamed)[0] == [renamed]
    assert jars_after(spark_jars=f"file:{renamed}")[0] == [f"file:{renamed}"]
    spaced = tmp_path / "my libs" / f"pillarbox-spark_{installed()}-1.jar"
    spaced.parent.mkdir()
    jar_of(spaced)
    assert jars_after(spark_jars=spaced.as_uri())[0] == [spaced.as_uri()]
    pattern = f"/opt/jars/pillarbox-spark_{installed()}-{pb.__version__}*.jar"
    assert jars_after(spark_jars=pattern)[0] == [pattern, OURS]
    users = tmp_path / "pillarbox-enrichers.jar"
    with zipfile.ZipFile(users, "w") as jar:
        jar.writestr("com/acme/Enrich.class", b"")
    assert jars_after(spark_jars=str(users))[0] == [str(users), OURS]
    assert jars_after(spark_jars="hdfs://h/pillarbox-enrichers.jar")[0][1:] == [OURS]


@pytest.mark.usefixtures("no_jvm")
@pytest.mark.parametrize("setting", ["spark.jars", "spark.driver.extraClassPath"])
def test_a_jar_that_can_not_serve_is_named_with_its_setting(tmp_path: Path, setting: str) -> None:
    option = setting.replace(".", "_")
    other = jar_of(tmp_path / "other.jar", line="3.9")
    for jar, what in [
        (other, rf"{setting} names {other}, which is Pillarbox .* for Spark 3.9"),
        (jar_of(tmp_path / "old.jar", version="0.0.1"), "Pillarbox 0.0.1 for Spark"),
        (f"{tmp_path}/pillarbox-spark_{installed()}-1.jar", "there is no such jar"),
    ]:
        with pytest.raises(pb.EngineUnavailable, match=what):
            jars_after(**{option: jar})
    if setting != "spark.jars":
        with pytest.raises(pb.EngineUnavailable, match=r"other\.jar"):
            jars_after(**{option: f"/nowhere:{tmp_path}/*"})


@pytest.mark.parametrize("sign", [",", "#", os.pathsep])
def test_a_path_that_sparks_list_can_not_hold_is_refused(
    no_jvm: pytest.MonkeyPatch, sign: str
) -> None:
    no_jvm.setattr(jars, "find_jar", lambda: f"/home/a{sign}b/pillarbox.jar")
    with pytest.raises(pb.EngineUnavailable, match="JAR_PATH_UNUSABLE"):
        jars_after()


def test_the_class_of_builders_is_no_builder() -> None:
    with pytest.raises(pb.InvalidOption, match="builder must be a builder of sessions"):
        pb.configure(FakeBuilder)  # type: ignore[arg-type]


def test_the_package_s_jar_says_what_it_is() -> None:
    with zipfile.ZipFile(find_jar()) as jar:
        assert jars._told_by(jar) == (installed(), pb.__version__)


@pytest.mark.parametrize("has_classes", [True, False])
def test_a_package_that_was_loaded_from_the_jar_finds_that_jar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_classes: bool
) -> None:
    jar = tmp_path / "p.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("pillarbox/__init__.py", "")
        if has_classes:
            archive.writestr("io/pillarbox/spark/PythonBridge.class", "")
    package = zipfile.Path(str(jar), "pillarbox/")
    monkeypatch.setattr(jars.importlib.resources, "files", lambda _: package)
    if has_classes:
        assert find_jar() == str(jar)
    else:
        with pytest.raises(pb.EngineUnavailable, match=r"p\.jar, which has no classes"):
            find_jar()


def test_a_command_prints_where_the_jar_is() -> None:
    command = [sys.executable, "-m", "pillarbox", "jar"]
    done = subprocess.run(
        command, env=environment(SOURCES), capture_output=True, text=True, check=True
    )
    assert done.stdout == find_jar() + "\n"


def test_a_running_jvm_with_the_jar_is_taken_as_it_is(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pillarbox")
    builder: Any = FakeBuilder(spark_jars="/a.jar")
    assert started(pb.configure(builder), "pyspark-shell") is None
    assert caplog.messages == [f"pb.configure: the JVM that runs has {find_jar()} already"]
    assert builder._options["spark.jars"] == f"/a.jar,{find_jar()}"


def test_the_remedy_under_spark_submit_is_a_jar_for_spark_submit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "kernel" in jars.how_to_add_jar()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert f"spark-submit --jars {find_jar()} " in jars.how_to_add_jar()


def test_the_remedy_for_another_line_is_its_pyspark_and_its_jar() -> None:
    other = next(line for line in SUPPORTED if line != installed())
    told = jars.how_to_add_jar(f"{other}.1")
    assert f"PySpark {installed()} runs on Spark {other}.1" in told
    assert f"install PySpark {other} for it" in told
    assert f"pillarbox-spark_{other}-" in told
    assert jars.how_to_add_jar(f"{installed()}.9") == jars.how_to_add_jar()


async def unused(row: Any) -> int:
    return 0


def test_the_log_says_once_that_auto_takes_the_jvm(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine._tell.cache_clear()
    caplog.set_level(logging.INFO, "pillarbox")
    for _ in range(2):
        pb.async_io(spark.range(3), unused, returns="x long")
    assert caplog.messages == [
        f'engine="auto" takes "jvm": the session has the jar of version {pb.__version__}'
    ]
