"""The specs of operators in the JVM, as JSON-able values. Scala reads the fields by these names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._async.command import Command
from .._async.options import BLOCKED_LOOP_MS, AsyncOptions
from .._base.functions import JvmFunction
from .._keyed.ttl import StateTtl
from .identity import Identity

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

    from .initial import InitialState
    from .keyed_input import KeyedInput


@dataclass(frozen=True)
class AsyncSpec:
    """The spec of an ``async_io``."""

    options: AsyncOptions
    function: Command | JvmFunction
    inputs: StructType
    by: list[StructField]
    returns: StructType
    identity: Identity

    def to_spec(self) -> dict[str, Any]:
        return {
            **self.options.to_spec(),
            **_of_jvm(self.function),
            "form": self._form(),
            "inputs": [] if self.options.inputs is None else self.inputs.names,  # []: all columns
            "returns": self.returns.json(),
            "call_key": list(self.options.call_key or ()),  # []: the inputs
            "by": [column.name for column in self.by],
            "signature": self.identity.signature,
            "operator_id": self.identity.operator,
            "call_scope": self.identity.calls,
        }

    def _form(self) -> str:
        if isinstance(self.function, JvmFunction):
            return "jvm"
        if self.function.is_batch:
            return "batch"
        return "row" if self.function.is_async else "thread"


@dataclass(frozen=True)
class ScanSpec:
    """The SQL expressions of a ``scan``."""

    state: list[dict[str, str]]
    select: list[str] | None
    ttl: StateTtl | None

    def to_spec(self) -> dict[str, Any]:
        ttl = None if self.ttl is None else self.ttl._to_spec()
        return {"state": self.state, "select": self.select, "ttl": ttl}


@dataclass(frozen=True)
class KeyedSpec:
    """The spec of a ``process_keyed`` or ``scan``. ``form`` is "row", "arrow", "jvm" or "scan"."""

    found: KeyedInput
    form: str
    function: object
    returns: StructType | None
    tags: list[str]
    initial: InitialState | None

    def to_spec(self) -> dict[str, Any]:
        found, options = self.found, self.found.options
        return {
            "kind": "keyed",
            "name": options.name,
            "form": self.form,
            **_of_jvm(self.function),
            "by": found.keys.names,
            "returns": None if self.returns is None else self.returns.json(),
            "timestamp": found.timestamp,
            "backend": options.storage.state,
            "timers": options.storage._of_timers,
            "order_by": found.order_by,
            "time_sorted": options.time_sorted,
            "on_late": options.on_late,
            "inputs": [] if options.inputs is None else found.inputs.names,  # []: all columns
            "tags": self.tags,
            "streaming": found.streaming,
            "event_time": found.has_event_time,
            "blocked_loop_ms": BLOCKED_LOOP_MS,
            "initial": [] if self.initial is None else self.initial.states,
            **({} if found.late is None else {"late": found.late.json()}),
            **(self.function.to_spec() if isinstance(self.function, ScanSpec) else {}),
        }


def _of_jvm(function: object) -> dict[str, Any]:
    if isinstance(function, JvmFunction):
        return {"class_name": function.class_name, "options": dict(function.options or {})}
    return {"class_name": None, "options": {}}
