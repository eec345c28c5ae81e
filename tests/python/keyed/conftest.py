"""Fixtures of keyed functions' tests."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_support import FILE_MANAGER

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.fixture
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """Files of state go by Spark's manager, as they do where the checkpoint isn't local."""
    spark.conf.set(MANAGER, FILE_MANAGER)
    yield spark
    spark.conf.unset(MANAGER)
