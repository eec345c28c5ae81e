"""The specs of operators in the JVM, as JSON-able values. Scala reads the fields by these names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from .._async.command import Command
from .._async.estimators import udf_of
from .._async.keywords import KeyedCallKeywords
from .._async.options import BLOCKED_LOOP_MS, AsyncOptions
from .._base.functions import JvmFunction
from .._base.keywords import options_shown
from .._keyed.options import KeyedKeywords
from .identity import Identity

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from .._keyed_async.options import KeyedCalls
    from .initial import InitialState
    from .keyed_input import KeyedInput


def async_spec(
    options: AsyncOptions,
    function: Command | JvmFunction,
    inputs: StructType,
    by: list[StructField],
    returns: StructType,
    identity: Identity,
) -> dict[str, Any]:
    """Return the spec of an ``async_io``."""
    return {
        **options.to_spec(),
        **_of_jvm(function),
        "form": form_of(function),
        "estimator": udf_of(options),
        "inputs": [] if options.inputs is None else inputs.names,
        "returns": returns.json(),
        "by": [column.name for column in by],
        "signature": identity.signature,
        "operator_id": identity.operator,
        "call_scope": identity.calls,
    }


def form_of(function: Command | JvmFunction) -> str:
    """Return how the function of an ``async_io`` or ``async_udf`` is called, as a word."""
    if isinstance(function, JvmFunction):
        return "jvm"
    if function.is_batch:
        return "batch"
    return "row" if function.is_async else "thread"


def keyed_spec(
    found: KeyedInput,
    form: str,
    function: object,
    returns: StructType | None,
    tags: list[str],
    initial: InitialState | None,
    *,
    calls: dict[str, Any] | None = None,
    scan: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the spec of a ``process_keyed`` or ``scan``; ``form`` is "row", "arrow", "jvm" or
    "scan", which has expressions."""
    options = found.options
    return {
        "name": options.name,
        "form": form,
        **_of_jvm(function),
        "by": found.keys.names,
        "returns": (returns or StructType()).json(),
        "timestamp": found.timestamp,
        "backend": options.backend.state,
        "timers": options.backend._of_timers,
        "order_by": found.order_by,
        "time_sorted": options.time_sorted,
        "on_late": options.on_late,
        "inputs": [] if options.inputs is None else found.inputs.names,  # []: all columns
        "tags": tags,
        "names_event_time": found.timestamp is not None or options.time_sorted,
        "blocked_loop_ms": BLOCKED_LOOP_MS,
        "initial": [] if initial is None else initial.states,
        "partitions": options.partitions,
        "late": (found.late or StructType()).json(),
        "calls": calls,
        "scan": scan,
        # The text of a DataFrame may ask Spark for its rows.
        "shown": options_shown(KeyedKeywords, options, ("name", "initial_state")),
    }


def calls_spec(calls: KeyedCalls, identity: Identity) -> dict[str, Any]:
    """Return the spec of the calls of a ``process_keyed_async``, which is that of an ``async_io``
    as far as limits, budget and usage go."""
    return {
        **calls.options.to_spec(),
        "shown": options_shown(KeyedCallKeywords, calls.options),
        "form": "keyed",
        "returns": calls.returns.json(),
        "signature": identity.signature,
        "operator_id": identity.operator,
        "call_scope": identity.calls,
    }


def _of_jvm(function: object) -> dict[str, Any]:
    if isinstance(function, JvmFunction):
        return {"class_name": function.class_name, "options": dict(function.options or {})}
    return {"class_name": None, "options": {}}
