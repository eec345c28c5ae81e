"""The package as executors see it."""

import email
import importlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import pillarbox as pb
from pillarbox._base.spark_versions import SUPPORTED, installed
from pillarbox._driver import jars
from pillarbox._driver.ship import _zipped

HEAVY = ("pandas", "pyarrow", "aiohttp", "pyspark.pandas", "numpy")
SOURCES = Path(pb.__file__).parents[1]
ROOT = SOURCES.parents[1]


def python(code, path):
    environment = {**os.environ, "PYTHONPATH": str(path)}
    run = subprocess.run(
        [sys.executable, "-S", "-c", code] if path is None else [sys.executable, "-c", code],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_importing_the_package_loads_nothing_heavy():
    # PySpark itself loads numpy where it finds it, in some releases.
    loaded = python(
        "import pyspark.version, sys; before = set(sys.modules); import pillarbox;"
        f"print(*(set({HEAVY}) & (set(sys.modules) - before)))",
        SOURCES,
    )
    assert loaded == []


def test_the_worker_runs_from_an_archive_on_the_path(tmp_path):
    archive = tmp_path / "pillarbox.jar"
    archive.write_bytes(_zipped())
    with zipfile.ZipFile(archive, "a") as jar:
        jar.write(SOURCES / "pyspark_pillarbox.py", "pyspark_pillarbox.py")
    code = (
        "import pyspark_pillarbox, pillarbox, pillarbox._worker.main as m;"
        "from pillarbox.errors import error; error('EMPTY_LIMIT');"
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
    line = installed()
    for age, name in enumerate((f"{line}-new", f"{line}-old", "3.9-newest")):
        jar = tmp_path / "target" / f"pillarbox-spark_{name}.jar"
        jar.touch()
        os.utime(jar, (1000 - age % 2, 1000 - age % 2))
    assert jars.find_jar().endswith(f"target/pillarbox-spark_{line}-new.jar")
    (package / "jars" / f"pillarbox-spark_{line}-1.jar").touch()
    assert jars.find_jar().endswith(f"jars/pillarbox-spark_{line}-1.jar")


def test_without_a_jar_for_the_installed_line_it_is_named(monkeypatch, tmp_path):
    package = tmp_path / "python" / "src" / "pillarbox"
    (package / "jars").mkdir(parents=True)
    (package / "jars" / "pillarbox-spark_3.9-1.jar").touch()
    monkeypatch.setattr(jars.importlib.resources, "files", lambda _: package)
    with pytest.raises(pb.EngineUnavailable, match=rf"jar for Spark {installed()} was found"):
        jars.find_jar()


@pytest.mark.parametrize("found", ["3.5.8", "4.4.0", "5.0.0"])
def test_another_pyspark_is_refused_with_those_that_are_supported(found):
    code = f"import pyspark.version; pyspark.version.__version__ = {found!r};import pillarbox"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"runs with PySpark 4.0 to 4.3, and PySpark {found} is installed" in run.stderr
    assert 'pip install "pyspark>=4.0,<4.4"' in run.stderr


def test_the_lines_of_spark_are_those_of_the_build_and_of_the_requirements():
    text = (ROOT / "project" / "lines.properties").read_text()
    assert re.findall(r"^([\d.]+)=", text, re.MULTILINE) == list(SUPPORTED)
    assert '"pyspark>=4.0,<4.4"' in (ROOT / "python" / "pyproject.toml").read_text()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Of this checkout."""
    return built("wheel", SOURCES.parent, tmp_path_factory.mktemp("dist"))


def built(target, project, folder):
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (archive,) = folder.iterdir()
    return archive


def test_the_wheel_holds_a_jar_for_each_line_that_was_built_with_the_workers_sources(
    wheel, tmp_path
):
    with zipfile.ZipFile(wheel) as archive:
        jars = [name for name in archive.namelist() if name.endswith(".jar")]
        name = f"pillarbox/jars/pillarbox-spark_{installed()}-{pb.__version__}.jar"
        assert name in jars
        assert len({line for line in SUPPORTED if f"spark_{line}-" in str(jars)}) == len(jars)
        archive.extract(name, tmp_path)
        if (ROOT / ".git").exists():
            command = ["git", "rev-parse", "--short=12", "HEAD"]
            head = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            assert archive.read("pillarbox/_commit.txt") == head.stdout
    with zipfile.ZipFile(tmp_path / name) as jar:
        assert "pyspark_pillarbox.py" in jar.namelist()


def test_an_sdist_away_from_the_checkout_builds_the_same_wheel(wheel, tmp_path):
    sdist = built("sdist", SOURCES.parent, tmp_path / "dist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    project = tmp_path / sdist.name.removesuffix(".tar.gz")
    assert contents(built("wheel", project, tmp_path / "wheel")) == contents(wheel)


def contents(wheel):
    """Path and checksum of each file but the list of them, which has their order."""
    with zipfile.ZipFile(wheel) as archive:
        files = archive.infolist()
    return {file.filename: file.CRC for file in files if not file.filename.endswith("/RECORD")}


def test_the_wheel_says_what_it_is_and_carries_the_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        told = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        licence = archive.read(f"{info}/licenses/LICENSE")
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Description-Content-Type"] == "text/markdown"
    # The page of an index has no folder that a relative link could lead to.
    assert "](docs" not in told.get_payload()
    pythons = [one.rpartition(" :: ")[2] for one in told.get_all("Classifier") if " :: 3." in one]
    assert told["Requires-Python"] == f">={pythons[0]}"
    size = int(re.search(r"The wheel \((\d+) MB\)", told.get_payload()).group(1))
    if all(f"spark_{line}-" in str(contents(wheel)) for line in SUPPORTED):
        assert abs(wheel.stat().st_size / 1e6 - size) < 1.5


INSTALL = re.compile(r"make wheel LINES=(\S+)(?: && |\n)pip install (.+)")


def test_the_docs_install_one_line_of_spark_with_its_jar():
    for page in ("README.md", "docs/quickstart.md"):
        line, packages = INSTALL.search((ROOT / page).read_text()).groups()
        assert line in SUPPORTED
        assert packages == f'dist/pillarbox-*.whl "pyspark=={line}.*"'


@pytest.mark.nightly
def test_what_the_readme_installs_finds_its_jar(tmp_path):
    _, packages = INSTALL.search((ROOT / "README.md").read_text()).groups()
    built("wheel", SOURCES.parent, tmp_path / "dist")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    binaries = tmp_path / "env" / "bin"
    command = f"{binaries}/pip install -q {packages}"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, capture_output=True)
    shown = [str(binaries / "python"), "-m", "pillarbox", "jar"]
    jar = subprocess.run(shown, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert Path(jar.strip()).is_relative_to(tmp_path / "env")


@pytest.mark.nightly
def test_all_that_the_jar_names_is_in_every_release_of_its_line():
    command = [sys.executable, str(ROOT / "tools" / "link_check.py"), installed()]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"Spark {installed()}: 0 references of" in run.stdout


def test_a_link_check_finds_what_a_jar_of_another_line_names(monkeypatch):
    other = "4.3" if installed() != "4.3" else "4.2"
    monkeypatch.syspath_prepend(ROOT / "tools")
    link_check = importlib.import_module("link_check")
    lacks = link_check.check(other, link_check.jar_of(installed()))
    assert any(one.startswith("org/apache/spark/sql/execution/streaming/") for one in lacks)


def test_a_link_check_takes_a_private_method_of_another_library_as_none(monkeypatch):
    """As Spark 4.0.0 has it, where a later patch release made the method public."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    link_check = importlib.import_module("link_check")

    class Jars(dict):
        def __init__(self, access):
            members = {("f", "()V"): access}
            self["a/A"] = link_check.ClassFile("a/A", (), False, members, frozenset())

    public, private = Jars(0x0001), Jars(link_check.PRIVATE)
    assert link_check.World({}, public).has("a/A.f ()V")
    assert not link_check.World({}, private).has("a/A.f ()V")
    assert link_check.World(private, {}).has("a/A.f ()V")


@pytest.mark.nightly
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


@pytest.mark.parametrize(
    ("pyspark", "told"),
    [
        ("sys.modules['pyspark'] = None", "[PYSPARK_MISSING] Pillarbox runs with PySpark 4.0 to"),
        (
            "import pyspark.version\npyspark.version.__version__ = '3.5.1'",
            "and PySpark 3.5.1 is installed",
        ),
        (
            "import pyspark.version\npyspark.version.__version__ = '5.0.0'",
            "and PySpark 5.0.0 is installed",
        ),
    ],
)
def test_another_pyspark_is_refused_at_the_import(pyspark: str, told: str) -> None:
    code = f"import sys\n{pyspark}\nimport pillarbox"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert told in done.stderr
    assert 'pip install "pyspark>=4.0,<4.4"' in done.stderr
