"""Which engine runs an operator: the one asked for, if it can."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from .._base.lines import line_of
from .._version import __version__
from ..errors import error
from .configure import how_to_add_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("pillarbox")

_NO_JAR = "the Pillarbox jar is not on the class path of this session"
_CONNECT = "this is a Spark Connect session, which gives no access to the driver's JVM"


def on_jvm_if_there(spark: SparkSession) -> bool:
    """Whether ``engine="auto"`` takes the JVM. The log says so once, with the reason.

    Raises ``EngineUnavailable`` if a jar is there that doesn't fit.
    """
    from . import jvm

    if not jvm.is_classic(spark):
        _tell(logging.INFO, f'takes "python": {_CONNECT}')
    elif not jvm.is_available(spark):
        advice = f'{how_to_add_jar()} engine="python" asks for this one, and says nothing.'
        _tell(logging.WARNING, f'takes "python": {_NO_JAR}. {advice}')
    else:
        require_jvm(spark)
        _tell(logging.INFO, f'takes "jvm": the session has the jar of version {__version__}')
        return True
    return False


def require_jvm(spark: SparkSession) -> None:
    """Raises ``EngineUnavailable`` unless the session has the jar that fits."""
    from . import jvm

    if not jvm.is_classic(spark):
        advice = 'Use a classic session; pb.async_io has engine="python", too.'
        raise error("ENGINE_UNAVAILABLE", reason=_CONNECT, advice=advice)
    if not jvm.is_available(spark):
        raise error("ENGINE_UNAVAILABLE", reason=_NO_JAR, advice=how_to_add_jar())
    jar, supported = jvm.jar_version(spark), jvm.jar_spark_version(spark)
    if jar != __version__:
        raise error("JAR_VERSION_MISMATCH", jar=jar, package=__version__)
    if supported is not None and line_of(spark.version) != supported:
        raise error("SPARK_VERSION_UNSUPPORTED", spark=spark.version, supported=supported)


@cache
def _tell(level: int, what: str) -> None:
    _LOG.log(level, 'engine="auto" %s', what)
