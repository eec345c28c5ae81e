"""The package as executors see it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pillarbox as pb
from pillarbox._driver import jars
from pillarbox._driver.ship import _zipped

HEAVY = ("pandas", "pyarrow", "aiohttp", "pyspark.pandas", "numpy")
SOURCES = Path(pb.__file__).parents[1]


def python(code, path):
    environment = {**os.environ, "PYTHONPATH": str(path)}
    run = subprocess.run(
        [sys.executable, "-S", "-c", code] if path is None else [sys.executable, "-c", code],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_importing_the_package_loads_nothing_heavy():
    loaded = python(f"import pillarbox, sys; print(*(set({HEAVY}) & set(sys.modules)))", SOURCES)
    assert loaded == []


def test_the_worker_runs_from_an_archive_on_the_path(tmp_path):
    archive = tmp_path / "pillarbox.jar"
    archive.write_bytes(_zipped())
    with zipfile.ZipFile(archive, "a") as jar:
        jar.write(SOURCES / "pyspark_pillarbox.py", "pyspark_pillarbox.py")
    code = (
        "import pyspark_pillarbox, pillarbox, pillarbox._worker.main as m;"
        "from pillarbox.errors import error; error('INVALID_RATE', value=1);"
        "print(pillarbox.__file__, m.__name__)"
    )
    where, name = python(code, archive)
    assert where.startswith(str(archive))
    assert name == "pillarbox._worker.main"


def test_all_public_names_are_there_and_documented():
    for name in pb.__all__:
        assert getattr(pb, name) is not None
        assert name == "__version__" or getattr(pb, name).__doc__


def test_the_bundled_jar_wins_over_a_built_one_and_the_newest_build_over_others(
    monkeypatch, tmp_path
):
    package = tmp_path / "python" / "src" / "pillarbox"
    (package / "jars").mkdir(parents=True)
    (tmp_path / "target").mkdir()
    monkeypatch.setattr(jars.importlib.resources, "files", lambda _: package)
    for age, name in enumerate(("new", "old")):
        jar = tmp_path / "target" / f"pillarbox-{name}.jar"
        jar.touch()
        os.utime(jar, (1000 - age, 1000 - age))
    assert jars.find_jar().endswith("target/pillarbox-new.jar")
    (package / "jars" / "pillarbox-1.jar").touch()
    assert jars.find_jar().endswith("jars/pillarbox-1.jar")


def test_the_wheel_holds_exactly_one_jar_with_the_workers_sources(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=SOURCES.parent, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        jars = [name for name in archive.namelist() if name.endswith(".jar")]
        assert jars == [f"pillarbox/jars/pillarbox-{pb.__version__}.jar"]
        archive.extract(jars[0], tmp_path)
    with zipfile.ZipFile(tmp_path / jars[0]) as jar:
        assert "pyspark_pillarbox.py" in jar.namelist()


def test_a_session_of_the_python_engine_leaves_no_files(tmp_path):
    code = (
        "from pyspark.sql import SparkSession; import pillarbox as pb;"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".getOrCreate();"
        "out = spark.range(3).transform(pb.async_io, lambda row: row.id, returns='y long',"
        " engine='python');"
        "assert out.count() == 3; spark.stop()"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "TMPDIR": str(tmp_path)}
    environment["SPARK_LOCAL_DIRS"] = str(tmp_path)
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    left = [path for path in tmp_path.rglob("*") if path.is_file() and "pillarbox" in path.name]
    assert left == []
