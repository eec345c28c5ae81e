"""The choice of the engine that runs an operator."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from .._base.spark_versions import line_of
from ..errors import error
from .build import build_version, same_build
from .client import DriverClient, client_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("pillarbox")


def jvm_if_there(spark: SparkSession) -> DriverClient | None:
    """Return the client if the session has the jar, else None, and log the choice once.

    Raises ``EngineUnavailable`` if a jar is there that doesn't fit.
    """
    client = client_of(spark)
    if client.jar() is None:
        advice = f'{client.remedy()} engine="python" asks for this one, and says nothing.'
        _tell(logging.WARNING, f'takes "python": {client.no_jar}. {advice}')
        return None
    require_jvm(spark)
    _tell(logging.INFO, f'takes "jvm": the session has the jar of version {build_version()}')
    return client


def require_jvm(spark: SparkSession) -> DriverClient:
    """Return the client to a driver with the right jar. Raises ``EngineUnavailable``."""
    client = client_of(spark)
    found = client.jar()
    if found is None:
        raise error("ENGINE_UNAVAILABLE", reason=client.no_jar, advice=client.remedy())
    (version, line), package = found, build_version()
    if not same_build(version, package):
        advice = client.remedy()
        raise error("JAR_VERSION_MISMATCH", jar=version, package=package, advice=advice)
    if line_of(spark.version) != line:
        release, advice = spark.version, client.remedy()
        raise error("SPARK_VERSION_UNSUPPORTED", spark=release, supported=line, advice=advice)
    return client


@cache
def _tell(level: int, what: str) -> None:
    _LOG.log(level, 'engine="auto" %s', what)
