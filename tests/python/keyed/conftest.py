"""Property tests here run on machines that are busy: how long an example takes means nothing."""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from spark_support import FILE_MANAGER

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

settings.register_profile("keyed", deadline=None)
settings.load_profile("keyed")


@pytest.fixture
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """Files of state go by Spark's manager, as they do where the checkpoint isn't local."""
    spark.conf.set(MANAGER, FILE_MANAGER)
    yield spark
    spark.conf.unset(MANAGER)
