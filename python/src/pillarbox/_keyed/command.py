"""The Python part of a ``process_keyed``, which is pickled once and sent to workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._base.functions import pickled

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class KeyedCommand:
    """The function and its schemas of Spark types, which Arrow's types don't determine.

    ``form`` is "row" or "arrow"; ``calls`` is the ``KeyedCalls`` of an asynchronous function.
    """

    function: Any
    form: str
    input_schema: StructType
    key_schema: StructType
    returns: StructType
    side_outputs: dict[str, StructType]
    calls: Any = None

    def dumps(self) -> bytes:
        """Cloudpickle it. Raises ``InvalidFunction`` (NOT_PICKLABLE) naming the function."""
        return pickled(self, type(self.function).__qualname__)
