"""One Spark session for all tests, and the engines that the behaviour suites run on."""

from __future__ import annotations

import functools
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from py4j.java_gateway import JavaPackage, JVMView
from pyspark import SparkContext
from pyspark.sql import SparkSession

import pillarbox as pb
from hangs import ending_after
from java_jars import compiled
from java_options import java_options
from spark_support import CallLog

# Machines are busy: how long an example takes means nothing.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")

# Workers must be the Python that runs the tests, not the first one on the PATH.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

os.environ["JDK_JAVA_OPTIONS"] = java_options(Path(sys.prefix))

# What a name in the JVM is, package or class, py4j asks at each use, and the JVM looks for it in
# all jars: an eighth of its time.
for named in (JVMView, JavaPackage):
    named.__getattr__ = functools.cache(named.__getattr__)

# Where workers of the session find the module of their daemon.
DAEMON = Path(__file__).parent / "daemon/preloading_daemon.py"
PYTHONPATH = [str(DAEMON.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(PYTHONPATH)

# Shared with the JVM's tests.
FILES = Path(__file__).parents[1] / "jvm/spark/java/io/pillarbox/files"


# The modules that take longest come first, the longest of them at the front: so that all processes
# of xdist end at about one time. Some are long in the nightly suite only.
LONG = (
    "test_exactly_once",
    "test_carry_over_spark",
    "test_docs",
    "test_async_io",
    "test_partitions_spark",
    "test_connect_server",
    "test_call_ids_spark",
    "test_async_functions_spark",
    "test_failure_of_spark",
    "test_task_retries",
    "test_odd_calls_spark",
    "test_limits_in_units",
    "test_async_io_spark_limits",
    "test_initial_state",
    "test_process",
    "test_spark_connect",
    "test_checkpoints_spark",
    "test_async_io_spark_streaming",
    "test_journal_spark",
    "test_limit_keys_spark",
    "test_keyed_limits_spark",
    "test_usage_spark",
    "test_order_spark",
    "test_random_programs_spark",
    "test_carry_over_kills",
    "test_standalone_cluster",
    "test_async_io_spark_deployments",
    "test_carry_over_masters",
    "test_journal_cluster",
    "test_limits_cluster",
    "test_speculation",
)


# Beside the modules whose name says spark, these start Spark or servers, or build a wheel.
STARTING = {
    "test_carry_over_kills",
    "test_carry_over_masters",
    "test_connect_server",
    "test_exactly_once",
    "test_flight_rotation",
    "test_flight_weather",
    "test_journal_cluster",
    "test_jvm_function",
    "test_limits_cluster",
    "test_package",
    "test_speculation",
    "test_standalone_cluster",
    "test_stored_checkpoints",
    "test_task_retries",
}


# Of a test that starts Spark and has several cases, `make test` runs one for each engine: the
# first or the last, which are opposite corners of its parameters, as the test's name falls; the
# others are nightly. In these modules all cases run, since they have no job of their own, or are
# the pages of the docs.
CHEAP = {
    "test_api",
    "test_async_io",
    "test_bad_input",
    "test_configure",
    "test_connect_server",
    "test_ddl",
    "test_tagged_union",
    "test_docs",
    "test_flight_rotation",
    "test_flight_weather",
    "test_jvm_function",
    "test_package",
    "test_spark_connect",
    "test_task_retries",
    "test_time_zones_spark",
}


# What depends on Spark's inner workings: on each other line of Spark than the main one, CI runs the
# first of these, and `make test-all` all. The second ones run in a session of Spark Connect.
SMOKE = {
    "test_async_io_spark_calls",
    "test_async_io_spark_ending",
    "test_outputs_spark",
    "test_package",
    "test_read_state",
    "test_restart_forms_spark",
    "test_session",
}
CONNECT = SMOKE | {
    "test_read_offsets_spark",
    "test_async_io_spark_streaming",
    "test_async_parity_spark",
    "test_async_udf_spark",
    "test_caching_spark",
    "test_failure_of_spark",
    "test_metrics_spark",
    "test_parity_spark",
    "test_progress_spark",
    "test_random_programs_spark",
    "test_scan_spark",
    "test_state_types_spark",
    "test_stored_journal_spark",
    "test_tagged_union",
    "test_tagged_union_spark",
    "test_types_round_trip",
    "test_values_spark",
}
LINES = CONNECT | {
    "test_async_functions_spark",
    "test_real_time_spark",
    "test_real_time_keyed_spark",
    "test_carry_over_spark",
    "test_checkpoints_spark",
    "test_configure_spark",
    "test_partitions_spark",
    "test_stored_checkpoints",
}


# What runs only where the command names it, with all that its target brings.
ASKED_FOR = ("soak", "kafka", "stores", "yarn", "integration", "types")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.getoption("markexpr")
    unasked = [mark for mark in ASKED_FOR if mark not in asked]
    deselect(config, items, lambda item: any(map(item.get_closest_marker, unasked)))
    if config.getoption("--session") == "connect":
        deselect(config, items, lambda item: not runs_on_connect(item))
    places = {module: place for place, module in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))
    for (_, test), cases in cases_by_test(items).items():
        for item in others(test, cases):
            item.add_marker(pytest.mark.nightly)
    for item in items:
        if not starts_spark(item):
            item.add_marker(pytest.mark.quick)
        if item.path.stem in LINES:
            item.add_marker(pytest.mark.lines)
        if item.path.stem in SMOKE:
            item.add_marker(pytest.mark.smoke)
        if item.path.stem in CONNECT:
            item.add_marker(pytest.mark.connect)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Give each test ten minutes, one that runs on demand four hours."""
    on_demand = any(map(item.get_closest_marker, (*ASKED_FOR, "nightly")))
    with ending_after(4 * 3600 if on_demand else 600):
        return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--session",
        choices=("classic", "connect"),
        default="classic",
        help="what the tests' session is; the server of a connect one is started by PySpark",
    )


def cases_by_test(items: list[pytest.Item]) -> dict[tuple[str, str], list[pytest.Item]]:
    """The cases by day of each test that starts a job in each of them."""
    tests: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        is_nightly = item.get_closest_marker("nightly")
        if starts_spark(item) and item.path.stem not in CHEAP and not is_nightly:
            test = str(item.path), getattr(item, "originalname", item.name)
            tests.setdefault(test, []).append(item)
    return tests


def others(test: str, cases: list[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases but the first, or but the last, of each engine."""
    engines = set()
    for item in cases if zlib.crc32(test.encode()) % 2 else reversed(cases):
        engine = getattr(getattr(item, "callspec", None), "params", {}).get("engine")
        if engine in engines:
            yield item
        engines.add(engine)


def has_session(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def starts_spark(item: pytest.Item) -> bool:
    return has_session(item) or "spark" in item.path.stem or item.path.stem in STARTING


def runs_on_connect(item: pytest.Item) -> bool:
    """Whether the test has a session, and wants no JVM in reach of it."""
    return has_session(item) and not item.get_closest_marker("classic")


def deselect(
    config: pytest.Config, items: list[pytest.Item], which: Callable[[pytest.Item], bool]
) -> None:
    config.hook.pytest_deselected(items=[item for item in items if which(item)])
    items[:] = [item for item in items if not which(item)]


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    sources = {file.stem: file.read_text() for file in FILES.glob("*.java")}
    files = compiled(tmp_path_factory.mktemp("files"), "files.jar", sources)
    builder = pb.configure(
        started(request.config.getoption("--session"))
        .appName("pillarbox tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.timeType.enabled", "true")
        .config("spark.jars", str(files))
    )
    if request.config.getoption("--session") != "connect":
        # A server has a daemon for each session and query, for ever: 68 MB each, if they preload.
        builder = builder.config("spark.python.daemon.module", DAEMON.stem)
    with warnings.catch_warnings():
        # PySpark hands the settings of the server that it started to the session once more.
        warnings.filterwarnings("ignore", "Failed to set")
        session = builder.getOrCreate()
    java: Any = SparkContext._active_spark_context
    java.setLogLevel("OFF")
    java._jvm.io.pillarbox.files.LocalFilesInProcess.install(java._jsc.hadoopConfiguration())
    yield session
    session.stop()


def started(session: str) -> Any:
    """The builder of a session on a server, or of one with a JVM in reach."""
    builder: Any = SparkSession.builder
    return builder.remote("local[2]") if session == "connect" else builder.master("local[2]")


@pytest.fixture
def log(tmp_path: Path) -> CallLog:
    """Where calls of the test write when they start and end."""
    return CallLog(str(tmp_path / "calls"))


@pytest.fixture(scope="module", params=["s3", "hdfs"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Each of the stores in turn, while its process runs."""
    from stores import S3, Hdfs, running

    kind = {"s3": S3, "hdfs": Hdfs}[request.param]
    with running(kind, tmp_path_factory.mktemp("store") / request.param) as store:
        yield store


@pytest.fixture(params=["python", "jvm"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn: one suite tells whether they behave alike."""
    return str(request.param)
