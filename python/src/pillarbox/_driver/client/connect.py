"""The client to a Spark Connect server, whose plugin plans our operators from messages."""

from __future__ import annotations

import sys
import tempfile
import weakref
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import error
from ..jars import jar_for
from .client import DriverClient, MicroBatch
from .operator import Operator
from .plugin import PLUGIN, SETTING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What the client of Spark sends at most in one message.
_MESSAGE_LIMIT = 128 << 20
# Functions below it are not looked at.
_LARGE = _MESSAGE_LIMIT - (64 << 10)

_jars: weakref.WeakKeyDictionary[Any, tuple[str, str]] = weakref.WeakKeyDictionary()

_FOREACH_BATCH = "pyspark.sql.connect.streaming.worker.foreach_batch_worker"


class ConnectClient(DriverClient):
    """The client of a session whose driver is a server that answers gRPC."""

    # Each question is an action of the server.
    progress_period_s = 1.0
    no_jar = "the Spark Connect server of this session has no Pillarbox plugin"

    def jar(self) -> tuple[str, str] | None:
        """Ask the server once a session, and again as long as it has no jar."""
        if self._spark not in _jars:
            from pyspark.errors.exceptions.connect import SparkConnectException

            try:
                _jars[self._spark] = tuple(self._rows("hello", {})[0])
            except SparkConnectException as problem:
                if not _tells_of_no_plugin(str(problem)):
                    raise
        return _jars.get(self._spark)

    def remedy(self) -> str:
        return (
            f"Start the server with --jars {jar_for(self._spark.version)} "
            f"--conf {SETTING}={PLUGIN} (several plugins with commas between them)."
        )

    def owns(self, df: DataFrame) -> bool:
        return bool(getattr(df.sparkSession, "session_id", None) == self._spark.session_id)

    def async_io(self, df: DataFrame, command: bytes | None, spec: dict[str, Any]) -> DataFrame:
        self._check_size(command, spec)
        return self._analysed(Operator("async_io", spec, _plan(df), pickled=command))

    def plan_udfs(self, command: bytes, spec: dict[str, Any]) -> None:
        self._check_size(command, spec)
        self._rows("plan_udfs", spec)

    def process_keyed(
        self, df: DataFrame, command: bytes | None, spec: dict[str, Any], initial: DataFrame | None
    ) -> DataFrame:
        self._check_size(command, spec)
        start = None if initial is None else _plan(initial)
        return self._analysed(Operator("process_keyed", spec, _plan(df), start, command))

    def _check_size(self, command: bytes | None, spec: dict[str, Any]) -> None:
        """Refuse a function that no message of gRPC can hold: Spark sends a plan as one, compressed
        from Spark 4.1 on, and its client limits the size."""
        sent = (command or b"") + (spec.get("estimator") or "").encode()
        if len(sent) < _LARGE:
            return
        client = self._spark.client
        compresses = hasattr(client, "_try_compress_and_set_plan")
        size = len(zlib.compress(sent, 1) if compresses else sent)
        if size > _MESSAGE_LIMIT:
            mib = [f"{number / (1 << 20):.1f} MiB" for number in (len(sent), _MESSAGE_LIMIT)]
            raise error("FUNCTION_TOO_LARGE", name=spec["name"], size=mib[0], limit=mib[1])

    def read_state(self, address: dict[str, Any]) -> DataFrame:
        return self._frame(Operator("read_state", address))

    def purge_journal(self, purge: dict[str, Any]) -> int:
        return int(self._rows("purge_journal", purge)[0][0])

    def _look_up(self, kind: str, address: dict[str, Any]) -> str:
        return str(self._rows(kind, address)[0][0])

    def _progress(self, tag: str, goes_on: bool) -> str:
        return str(self._rows("progress", {"progress": tag, "goes_on": goes_on})[0][0])

    def _usage(self, df: DataFrame | None, query: str | None) -> str:
        below = None if df is None else _plan(df)
        asked = Operator("usage", {"query": query}, below)
        return str(self._frame(asked).collect()[0][0])

    def analyzed_plan(self, df: DataFrame) -> str:
        remote: Any = df
        return str(remote._explain_string(extended=True)).partition("== Optimized Logical Plan ==")[
            0
        ]

    def micro_batch(self) -> MicroBatch | None:
        return None  # a client isn't told

    def in_foreach_batch(self) -> bool:
        # The server runs these functions, and nothing else, in processes of this module.
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        return getattr(spec, "name", None) == _FOREACH_BATCH

    def accumulator(self) -> Any:
        return None  # a client isn't told

    def _owner_of_files(self) -> Any:
        return self._spark

    def _send_python_file(self, name: str, content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(content)
            self._spark.addArtifacts(str(path), pyfile=True)

    def forget_broadcasts(self) -> None:
        """Do nothing: a client has none."""

    def _analysed(self, operator: Operator) -> DataFrame:
        """Analyse at once, so that errors show the user's call, as in a classic session."""
        df = self._frame(operator)
        _ = df.schema
        return df

    def _frame(self, operator: Operator) -> DataFrame:
        from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

        return ConnectDataFrame(operator, self._spark)

    def _rows(self, kind: str, spec: dict[str, Any]) -> Any:
        return self._frame(Operator(kind, spec)).collect()


def recent_failure(text: str) -> str | None:
    """Return the JSON of the report of a recent error of the server; None if there is none.

    ``text`` begins with the error's text. The server is that of the active session.
    """
    from pyspark.sql.connect.session import SparkSession

    try:
        session: Any = SparkSession.getActiveSession()
        return str(ConnectClient(session)._rows("failure", {"text": text})[0][0]) or None
    except Exception:  # there may be no session, no plugin, or no server any more
        return None


def _plan(df: Any) -> Any:
    return df._plan


def _tells_of_no_plugin(message: str) -> bool:
    """Return True if the server lacks the plugin's setting, or has it without the jar."""
    return "No handler found for extension" in message or PLUGIN in message
