"""The one door from Python to the JVM: everything that touches py4j is in this module."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BRIDGE = "io.pillarbox.spark.PythonBridge"


def is_classic(spark: SparkSession) -> bool:
    """Whether the session has a JVM in reach (a Spark Connect session has not)."""
    return hasattr(spark, "_jsparkSession")


def is_available(spark: SparkSession) -> bool:
    """Whether the session's JVM has Pillarbox's jar on its class path."""
    return is_classic(spark) and jar_version(spark) is not None


def jar_version(spark: SparkSession) -> str | None:
    """The version of the jar on the session's class path; None without a jar."""
    bridge = _bridge(spark)
    return None if bridge is None else str(bridge.version())


def jar_spark_version(spark: SparkSession) -> str | None:
    """The line of Spark, as in "4.2", that the jar was built for; None without a jar."""
    bridge = _bridge(spark)
    return None if bridge is None else str(bridge.sparkVersion())


def async_io(df: DataFrame, command: bytes | None, spec: dict[str, Any]) -> DataFrame:
    """Plans the async I/O operator over ``df``.

    ``command`` is the pickled function, if it is Python; broadcast variables that it captured were
    registered with the SparkContext while it was pickled, and are taken from there.
    """
    from pyspark.sql import DataFrame as ClassicDataFrame

    spark = df.sparkSession
    bridge = _bridge(spark)
    if command is None:
        jdf = bridge.asyncIOByClass(df._jdf, json.dumps(spec))
    else:
        jdf = bridge.asyncIO(df._jdf, _python_function(spark, command), json.dumps(spec))
    return ClassicDataFrame(jdf, spark)


def analyzed_plan(df: DataFrame) -> str:
    """The text of the analysed plan, also of a Spark Connect DataFrame; needs no jar."""
    if is_classic(df.sparkSession):
        return str(df._jdf.queryExecution().analyzed().treeString())
    remote: Any = df
    return str(remote._explain_string(extended=True)).partition("== Optimized Logical Plan ==")[0]


def process_keyed(
    df: DataFrame, command: bytes | None, spec: dict[str, Any], initial: DataFrame | None
) -> DataFrame:
    """Plans a keyed operator over ``df``; ``command`` is the pickled function, if it is Python.

    ``initial`` has the state that it starts with, as the spec's ``initial`` describes it.
    """
    from pyspark.sql import DataFrame as ClassicDataFrame

    spark = df.sparkSession
    function = None if command is None else _python_function(spark, command)
    jdf = _bridge(spark).processKeyed(
        df._jdf, function, json.dumps(spec), None if initial is None else initial._jdf
    )
    return ClassicDataFrame(jdf, spark)


def stored_operators(spark: SparkSession, checkpoint: str) -> list[dict[str, Any]]:
    """The keyed operators of a checkpoint, as ``{"id", "name"}``; none where there is no such."""
    return json.loads(_bridge(spark).storedOperators(spark._jsparkSession, checkpoint))  # type: ignore[no-any-return]


def stored_versions(spark: SparkSession, checkpoint: str, operator: int) -> list[int]:
    """The versions of an operator's state that can be read, in order."""
    return json.loads(_bridge(spark).storedVersions(spark._jsparkSession, checkpoint, operator))  # type: ignore[no-any-return]


def stored_states(spark: SparkSession, checkpoint: str, operator: int, version: int) -> list[str]:
    """The names of the states that a version holds."""
    jspark: Any = spark._jsparkSession
    return json.loads(_bridge(spark).storedStates(jspark, checkpoint, operator, version))  # type: ignore[no-any-return]


def read_state(
    spark: SparkSession, checkpoint: str, operator: int, name: str, version: int
) -> DataFrame:
    """A state, or the timers, as a DataFrame."""
    from pyspark.sql import DataFrame as ClassicDataFrame

    jspark: Any = spark._jsparkSession
    jdf = _bridge(spark).readState(jspark, checkpoint, operator, name, version)
    return ClassicDataFrame(jdf, spark)


def _python_function(spark: SparkSession, command: bytes) -> Any:
    sc: Any = spark.sparkContext
    broadcasts = [variable._jbroadcast for variable in sc._pickled_broadcast_vars]
    sc._pickled_broadcast_vars.clear()
    return sc._jvm.SimplePythonFunction(
        bytearray(command),
        sc.environment,
        sc._python_includes,
        sc.pythonExec,
        sc.pythonVer,
        broadcasts,
        sc._javaAccumulator,
    )


def is_running() -> bool:
    """Whether this process has a JVM, so that the jars of its driver are settled."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def running_jar() -> str | None:
    """Where the running JVM has the jar from; None if it has none."""
    loaded = _bridge_class(_running())
    return None if loaded is None else str(_location(loaded).getPath())


def running_master() -> str | None:
    """The master that the running JVM was started for, as far as that was told to it."""
    master = _running().java.lang.System.getProperty("spark.master")
    return None if master is None else str(master)


def _running() -> Any:
    """The running JVM; connects to it as the first session would."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    return SparkContext._jvm


def _location(loaded: Any) -> Any:
    return loaded.getProtectionDomain().getCodeSource().getLocation()


def _bridge(spark: SparkSession) -> Any:
    """The JVM's PythonBridge, or None where the class can't be loaded."""
    jvm: Any = spark.sparkContext._jvm
    return None if _bridge_class(jvm) is None else jvm.io.pillarbox.spark.PythonBridge


def _bridge_class(jvm: Any) -> Any:
    from py4j.protocol import Py4JError

    try:
        return jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_BRIDGE)
    except Py4JError:
        return None
