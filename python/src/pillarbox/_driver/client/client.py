"""The interface to the driver of a session."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch of a query. ``execution`` differs each time that Spark runs it."""

    query: str
    number: str
    execution: str | None


_added: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


class DriverClient(ABC):
    """The requests to the driver of ``spark``. Calls block, and start no job, if not said so."""

    no_jar: str
    """The reason why there is no engine "jvm" where ``jar`` returns None, as half a sentence."""

    progress_period_s: float
    """The seconds between two questions of ``progress``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark

    @abstractmethod
    def jar(self) -> tuple[str, str] | None:
        """Return the version and line of Spark (as in "4.2") of the driver's jar, if it has one.

        The version of a development build has its commit behind a ``+``, if that is known.
        """

    @abstractmethod
    def remedy(self) -> str:
        """Return sentences that say how the driver gets the right jar."""

    @abstractmethod
    def owns(self, df: DataFrame) -> bool:
        """Return True if ``df`` can be part of a plan of this session."""

    @abstractmethod
    def async_io(self, df: DataFrame, command: bytes | None, spec: dict[str, Any]) -> DataFrame:
        """Apply the async I/O operator to ``df``; ``command`` is the pickled Python function."""

    @abstractmethod
    def plan_udfs(self, command: bytes, spec: dict[str, Any]) -> None:
        """Make the driver plan the calls of an ``async_udf``.

        ``spec`` has its "name", and the path of its "journal", or None.
        """

    @abstractmethod
    def process_keyed(
        self, df: DataFrame, command: bytes | None, spec: dict[str, Any], initial: DataFrame | None
    ) -> DataFrame:
        """Apply a keyed operator to ``df``; ``command`` is the pickled Python function.

        ``initial`` is the state that it starts with, which the spec's ``initial`` describes.
        """

    @abstractmethod
    def read_state(self, address: dict[str, Any]) -> DataFrame:
        """Return the state or the timers at the ``address`` as a DataFrame."""

    @abstractmethod
    def purge_journal(self, purge: dict[str, Any]) -> int:
        """Delete answers of a journal, and return their number. Runs jobs."""

    def look_up(self, kind: str, address: dict[str, Any]) -> list[Any]:
        """Return what a checkpoint has of a ``kind``: "stored_operators" are ``{"id", "name"}``,
        "stored_versions" the numbers of those that can be read, in order, "stored_states" names."""
        found: list[Any] = json.loads(self._look_up(kind, address))
        return found

    @abstractmethod
    def _look_up(self, kind: str, address: dict[str, Any]) -> str:
        """Return the answer of the bridge's ``lookUp``."""

    def progress(self, tag: str, goes_on: bool) -> list[dict[str, Any]]:
        """Return the figures of the calls of actions with a ``tag``, which begins as those of
        ``progress`` do. Without ``goes_on`` they are forgotten."""
        found: list[dict[str, Any]] = json.loads(self._progress(tag, goes_on))
        return found

    @abstractmethod
    def _progress(self, tag: str, goes_on: bool) -> str:
        """Return the answer of the bridge's ``progress``."""

    def usage(self, df: DataFrame | None, query: str | None) -> list[dict[str, Any]]:
        """Return what the calls of operators have cost so far: those in the plan of ``df``, or of
        the ``query`` with this id."""
        found: list[dict[str, Any]] = json.loads(self._usage(df, query))
        return found

    @abstractmethod
    def _usage(self, df: DataFrame | None, query: str | None) -> str:
        """Return the answer of the bridge's ``usage``."""

    @abstractmethod
    def analyzed_plan(self, df: DataFrame) -> str:
        """Return the text of the analysed plan. Needs no jar."""

    @abstractmethod
    def micro_batch(self) -> MicroBatch | None:
        """Return the micro-batch whose ``foreachBatch`` function this thread runs, if known."""

    def in_foreach_batch(self) -> bool:
        """Whether this thread runs a ``foreachBatch`` function, as far as is known."""
        return self.micro_batch() is not None

    @abstractmethod
    def accumulator(self) -> Any:
        """Return the accumulator that logs what tasks tell; None where Spark has none."""

    def add_python_file(self, name: str, make: Callable[[], bytes]) -> None:
        """Make a module or zip importable in Python workers, unless it was added before."""
        added = _added.setdefault(self._owner_of_files(), set())
        if name not in added:
            self._send_python_file(name, make())
            added.add(name)

    @abstractmethod
    def _owner_of_files(self) -> Any:
        """Return the object with whose life the files that were sent end."""

    @abstractmethod
    def _send_python_file(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def forget_broadcasts(self) -> None:
        """Drop the broadcasts that pickling for a check registered; the plan registers its own."""
