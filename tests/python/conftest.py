"""One Spark session for all tests, and the engines that the behaviour suites run on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import pillarbox as pb
from pillarbox._jars import find_jar

# Workers must be the Python that runs the tests, not the first one on the PATH.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def jar_is_built() -> bool:
    try:
        find_jar()
    except pb.EngineUnavailable:
        return False
    return True


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("pillarbox tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.timeType.enabled", "true")
    )
    if jar_is_built():
        builder = pb.configure(builder)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(params=["python", "jvm"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn: one suite tells whether they behave alike."""
    if request.param == "jvm" and not jar_is_built():
        pytest.skip("the jar isn't built")
    return str(request.param)
