"""Everything of a ``process_keyed`` that only Python understands; pickled once, sent to workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._base.functions import pickled

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class KeyedCommand:
    """``form`` is "row" or "arrow"; the schemas hold the Spark types, which Arrow does not tell.

    ``calls`` is the ``KeyedCalls`` of an asynchronous function.
    """

    function: Any
    form: str
    input_schema: StructType
    key_schema: StructType
    returns: StructType
    side_outputs: dict[str, StructType]
    calls: Any = None

    def dumps(self) -> bytes:
        """Cloudpickled bytes. Raises ``InvalidFunction`` (NOT_PICKLABLE) naming the function."""
        return pickled(self, type(self.function).__qualname__)
