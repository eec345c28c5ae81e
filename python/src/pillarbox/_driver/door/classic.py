"""The door to a JVM in reach: everything that touches py4j is in this module."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..jars import how_to_add_jar
from .door import Door, MicroBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BRIDGE = "io.pillarbox.spark.PythonBridge"

_added: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


class ClassicDoor(Door):
    """Of a session whose driver is a JVM that py4j reaches."""

    no_jar = "the Pillarbox jar is not on the class path of this session"

    def jar(self) -> tuple[str, str] | None:
        bridge = self._bridge()
        return None if bridge is None else (str(bridge.version()), str(bridge.sparkVersion()))

    def remedy(self) -> str:
        return how_to_add_jar()

    def async_io(self, df: DataFrame, command: bytes | None, spec: dict[str, Any]) -> DataFrame:
        function = self._python_function(command)
        return self._frame(self._bridge().asyncIO(df._jdf, function, json.dumps(spec)))

    def process_keyed(
        self,
        df: DataFrame,
        command: bytes | None,
        spec: dict[str, Any],
        initial: DataFrame | None,
    ) -> DataFrame:
        function = self._python_function(command)
        start = None if initial is None else initial._jdf
        return self._frame(self._bridge().processKeyed(df._jdf, function, json.dumps(spec), start))

    def stored_operators(self, checkpoint: str) -> list[dict[str, Any]]:
        told = self._bridge().storedOperators(self._spark._jsparkSession, checkpoint)
        return json.loads(told)  # type: ignore[no-any-return]

    def stored_versions(self, checkpoint: str, operator: int) -> list[int]:
        told = self._bridge().storedVersions(self._spark._jsparkSession, checkpoint, operator)
        return json.loads(told)  # type: ignore[no-any-return]

    def stored_states(self, checkpoint: str, operator: int, version: int) -> list[str]:
        session = self._spark._jsparkSession
        told = self._bridge().storedStates(session, checkpoint, operator, version)
        return json.loads(told)  # type: ignore[no-any-return]

    def read_state(self, checkpoint: str, operator: int, name: str, version: int) -> DataFrame:
        session = self._spark._jsparkSession
        return self._frame(self._bridge().readState(session, checkpoint, operator, name, version))

    def analyzed_plan(self, df: DataFrame) -> str:
        return str(df._jdf.queryExecution().analyzed().treeString())

    def micro_batch(self) -> MicroBatch | None:
        tell = self._spark.sparkContext.getLocalProperty
        query, number = tell("sql.streaming.queryId"), tell("streaming.sql.batchId")
        if not query or not number:
            return None
        return MicroBatch(query, number, tell("spark.sql.execution.id"))

    def add_python_file(self, name: str, make: Callable[[], bytes]) -> None:
        """Once a SparkContext: executors fetch the file as long as it lives."""
        context = self._spark.sparkContext
        added = _added.setdefault(context, set())
        if name in added:
            return
        path = os.path.join(context._temp_dir, name)
        with open(path, "wb") as file:
            file.write(make())
        context.addPyFile(path)
        added.add(name)

    def forget_broadcasts(self) -> None:
        self._spark.sparkContext._pickled_broadcast_vars.clear()

    def _frame(self, jdf: Any) -> DataFrame:
        from pyspark.sql import DataFrame

        return DataFrame(jdf, self._spark)

    def _python_function(self, command: bytes | None) -> Any:
        """Takes the broadcast variables that were registered while the command was pickled."""
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
        """The JVM's PythonBridge, or None where the class can't be loaded."""
        jvm = self._spark.sparkContext._jvm
        return None if _bridge_class(jvm) is None else jvm.io.pillarbox.spark.PythonBridge


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


def _bridge_class(jvm: Any) -> Any:
    from py4j.protocol import Py4JError

    try:
        return jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_BRIDGE)
    except Py4JError:
        return None
