"""One Spark session for all tests, and the engines that the behaviour suites run on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pillarbox as pb
from java_jars import compiled

# Workers must be the Python that runs the tests, not the first one on the PATH.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

# Of each JVM that a test starts. It runs for some minutes on small data: what the second compiler
# and a collector with threads take, they don't give back.
os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Shared with the JVM's tests.
FILES = Path(__file__).parents[1] / "jvm/spark/java/io/pillarbox/files/LocalFilesInProcess.java"


# Few tests that take minutes: they come first, so that no lane of xdist ends with them alone.
LONG = {
    "test_async_functions_spark",
    "test_async_io_spark_deployments",
    "test_carry_over_kills",
    "test_carry_over_retries",
    "test_carry_over_spark",
    "test_configure_spark",
    "test_exactly_once",
    "test_flight_rotation",
    "test_flight_weather",
    "test_journal_cluster",
    "test_journal_spark",
    "test_limits_cluster",
    "test_local_folders_spark",
    "test_random_programs_spark",
    "test_speculation",
}


# What depends on Spark's inner workings: on each other line of Spark than the main one, CI runs the
# first of these, and `make test-all` all.
SMOKE = {
    "test_async_io_spark_calls",
    "test_async_io_spark_ending",
    "test_async_io_spark_streaming",
    "test_metrics_spark",
    "test_outputs_spark",
    "test_package",
    "test_parity_spark",
    "test_read_state",
    "test_real_time_spark",
    "test_restart_forms_spark",
    "test_scan_spark",
    "test_session",
    "test_types_round_trip",
}
LINES = SMOKE | {
    "test_carry_over_spark",
    "test_checkpoints_spark",
    "test_configure_spark",
    "test_stored_checkpoints",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONG)
    for item in items:
        if item.path.stem in LINES:
            item.add_marker(pytest.mark.lines)
        if item.path.stem in SMOKE:
            item.add_marker(pytest.mark.smoke)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    files = compiled(
        tmp_path_factory.mktemp("files"), "files.jar", {"LocalFilesInProcess": FILES.read_text()}
    )
    builder = pb.configure(
        SparkSession.builder.master("local[2]")
        .appName("pillarbox tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.timeType.enabled", "true")
        .config("spark.jars", str(files))
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    java: Any = session.sparkContext
    java._jvm.io.pillarbox.files.LocalFilesInProcess.install(java._jsc.hadoopConfiguration())
    yield session
    session.stop()


@pytest.fixture(params=["python", "jvm"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn: one suite tells whether they behave alike."""
    return str(request.param)
