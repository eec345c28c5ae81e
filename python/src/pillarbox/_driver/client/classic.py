"""The client to a JVM in reach: everything that touches py4j is in this module."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..jars import how_to_add_jar
from ..told import accumulator_of
from .client import DriverClient, MicroBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BRIDGE = "io.pillarbox.spark.PythonBridge"


class ClassicClient(DriverClient):
    """The client of a session whose driver is a JVM that py4j reaches."""

    # Spark's own bar stays away for half a second after it was hidden.
    progress_period_s = 0.4
    no_jar = "the Pillarbox jar is not on the class path of this session"

    def jar(self) -> tuple[str, str] | None:
        bridge = self._bridge()
        return None if bridge is None else (str(bridge.buildVersion()), str(bridge.sparkVersion()))

    def remedy(self) -> str:
        return how_to_add_jar(str(self._spark.version))

    def owns(self, df: DataFrame) -> bool:
        """Return True for all sessions of the JVM, which share plans."""
        return hasattr(df, "_jdf")

    def async_io(self, df: DataFrame, command: bytes | None, spec: dict[str, Any]) -> DataFrame:
        function = self._python_function(command)
        return self._frame(self._listening().asyncIO(df._jdf, function, json.dumps(spec)))

    def plan_udfs(self, command: bytes, spec: dict[str, Any]) -> None:
        self._listening().planUdfs(self._spark._jsparkSession, spec["journal"])

    def process_keyed(
        self, df: DataFrame, command: bytes | None, spec: dict[str, Any], initial: DataFrame | None
    ) -> DataFrame:
        function = self._python_function(command)
        start = None if initial is None else initial._jdf
        return self._frame(
            self._listening().processKeyed(df._jdf, function, json.dumps(spec), start)
        )

    def read_state(self, address: dict[str, Any]) -> DataFrame:
        session = self._spark._jsparkSession
        return self._frame(self._bridge().readState(session, json.dumps(address)))

    def purge_journal(self, purge: dict[str, Any]) -> int:
        session = self._spark._jsparkSession
        return int(self._bridge().purgeJournal(session, json.dumps(purge)))

    def _look_up(self, kind: str, address: dict[str, Any]) -> str:
        session = self._spark._jsparkSession
        return str(self._bridge().lookUp(session, kind, json.dumps(address)))

    def _progress(self, tag: str, goes_on: bool) -> str:
        session = self._spark._jsparkSession
        return str(self._bridge().progress(session, tag, goes_on))

    def _usage(self, df: DataFrame | None, query: str | None) -> str:
        return str(self._bridge().usage(None if df is None else df._jdf, query))

    def analyzed_plan(self, df: DataFrame) -> str:
        return str(df._jdf.queryExecution().analyzed().treeString())

    def micro_batch(self) -> MicroBatch | None:
        tell = self._spark.sparkContext.getLocalProperty
        query, number = tell("sql.streaming.queryId"), tell("streaming.sql.batchId")
        if not query or not number:
            return None
        return MicroBatch(query, number, tell("spark.sql.execution.id"))

    def accumulator(self) -> Any:
        return accumulator_of(self._spark.sparkContext)

    def _listening(self) -> Any:
        """Return the bridge, which tells the accumulator what the JVM logs."""
        bridge = self._bridge()
        bridge.listen(self._spark.sparkContext._javaAccumulator, self.accumulator().aid)
        return bridge

    def _owner_of_files(self) -> Any:
        return self._spark.sparkContext

    def _send_python_file(self, name: str, content: bytes) -> None:
        context = self._spark.sparkContext
        path = Path(context._temp_dir, name)  # executors fetch it as long as the context lives
        path.write_bytes(content)
        context.addPyFile(str(path))

    def forget_broadcasts(self) -> None:
        self._spark.sparkContext._pickled_broadcast_vars.clear()

    def _frame(self, jdf: Any) -> DataFrame:
        from pyspark.sql import DataFrame

        return DataFrame(jdf, self._spark)

    def _python_function(self, command: bytes | None) -> Any:
        """Make Spark's function, with the broadcasts that pickling the command registered."""
        if command is None:
            return None
        sc = self._spark.sparkContext
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

    def _bridge(self) -> Any:
        """Return the JVM's PythonBridge, or None where the class can't be loaded."""
        jvm = self._spark.sparkContext._jvm
        return None if _bridge_class(jvm) is None else getattr(jvm, _BRIDGE)


def is_running() -> bool:
    """Return True if this process has a JVM, whose jars can't change any more."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def running_jar() -> str | None:
    """Return the path of the running JVM's jar of Pillarbox; None if it has none."""
    loaded = _bridge_class(_running())
    if loaded is None:
        return None
    return str(loaded.getProtectionDomain().getCodeSource().getLocation().toURI().getPath())


def recent_failure(text: str) -> str | None:
    """Return the JSON of the report of a recent error of this process's JVM; None if there is none.

    ``text`` begins with the error's text.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    try:
        if jvm is None or _bridge_class(jvm) is None:
            return None
        found = getattr(jvm, _BRIDGE).failureOf(text)
    except (Py4JError, OSError):  # the JVM may be gone, or have an older jar
        return None
    return None if found is None else str(found)


def running_master() -> str | None:
    """Return the master that the running JVM was started with; None if it was given none."""
    master = _running().java.lang.System.getProperty("spark.master")
    return None if master is None else str(master)


def _running() -> Any:
    """Return the running JVM, and connect to it as the first session would."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    return SparkContext._jvm


def _bridge_class(jvm: Any) -> Any:
    from py4j.protocol import Py4JError

    try:
        return jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_BRIDGE)
    except Py4JError:
        return None
