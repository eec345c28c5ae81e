"""What a door does."""

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
    """``execution`` is another one each time that Spark runs the micro-batch."""

    query: str
    number: str
    execution: str | None


_added: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


class Door(ABC):
    """What we ask of the driver of ``spark``. Calls block, and start no job."""

    #: Why there is no engine "jvm" where ``jar`` gives None, as half a sentence.
    no_jar: str

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark

    @abstractmethod
    def jar(self) -> tuple[str, str] | None:
        """The version of the jar that the driver has, and the line of Spark, as in "4.2", that it
        was built for; None without one."""

    @abstractmethod
    def remedy(self) -> str:
        """How the driver gets the jar that fits, in sentences."""

    @abstractmethod
    def owns(self, df: DataFrame) -> bool:
        """Whether ``df`` can be part of a plan of this session."""

    @abstractmethod
    def async_io(self, df: DataFrame, command: bytes | None, spec: dict[str, Any]) -> DataFrame:
        """The async I/O operator over ``df``. ``command`` is the pickled function if it is
        Python."""

    @abstractmethod
    def process_keyed(
        self,
        df: DataFrame,
        command: bytes | None,
        spec: dict[str, Any],
        initial: DataFrame | None,
    ) -> DataFrame:
        """A keyed operator over ``df``. ``command`` is the pickled function if it is Python;
        ``initial`` has the state that it starts with, as the spec's ``initial`` describes it."""

    def stored_operators(self, checkpoint: str) -> list[dict[str, Any]]:
        """The keyed operators of a checkpoint, as ``{"id", "name"}``; empty without any."""
        found: list[dict[str, Any]] = self._listed("stored_operators", checkpoint=checkpoint)
        return found

    def stored_versions(self, checkpoint: str, operator: int) -> list[int]:
        """The versions of an operator's state that can be read, in order."""
        return self._listed("stored_versions", checkpoint=checkpoint, operator=operator)

    def stored_states(self, checkpoint: str, operator: int, version: int) -> list[str]:
        """The names of the states that a version holds."""
        place = {"checkpoint": checkpoint, "operator": operator, "version": version}
        return self._listed("stored_states", **place)

    def read_state(self, checkpoint: str, operator: int, name: str, version: int) -> DataFrame:
        """A state, or the timers, as a DataFrame."""
        place = {"checkpoint": checkpoint, "operator": operator, "version": version}
        return self._read_state({**place, "name": name})

    @abstractmethod
    def _read_state(self, address: dict[str, Any]) -> DataFrame: ...

    def _listed(self, kind: str, **address: Any) -> list[Any]:
        found: list[Any] = json.loads(self._look_up(kind, address))
        return found

    @abstractmethod
    def _look_up(self, kind: str, address: dict[str, Any]) -> str:
        """What the bridge's ``lookUp`` answers."""

    @abstractmethod
    def analyzed_plan(self, df: DataFrame) -> str:
        """The text of the analysed plan; needs no jar."""

    @abstractmethod
    def micro_batch(self) -> MicroBatch | None:
        """The one that this thread runs a ``foreachBatch`` function for, if that is known."""

    def add_python_file(self, name: str, make: Callable[[], bytes]) -> None:
        """Makes a module or zip importable in Python workers, unless it was added before."""
        added = _added.setdefault(self._owner_of_files(), set())
        if name not in added:
            self._send_python_file(name, make())
            added.add(name)

    @abstractmethod
    def _owner_of_files(self) -> Any:
        """Whose workers have a file that was sent, as long as it lives."""

    @abstractmethod
    def _send_python_file(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def forget_broadcasts(self) -> None:
        """Drops what pickling for a check registered; the real plan registers its own."""
