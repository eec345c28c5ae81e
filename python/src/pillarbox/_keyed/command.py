"""Everything of a ``process_keyed`` that only Python understands; pickled once, sent to workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import error

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class KeyedCommand:
    """``form`` is "row" or "batch"; the schemas hold the Spark types, which Arrow does not tell."""

    function: Any
    form: str
    input_schema: StructType
    key_schema: StructType
    returns: StructType
    side_outputs: dict[str, StructType]

    def dumps(self) -> bytes:
        """Cloudpickled bytes. Raises ``InvalidFunction`` (NOT_PICKLABLE) naming the function."""
        from pyspark import cloudpickle

        try:
            return bytes(cloudpickle.dumps(self))  # type: ignore[no-untyped-call]
        except Exception as problem:
            raise error(
                "NOT_PICKLABLE",
                function=type(self.function).__qualname__,
                reason=f"{type(problem).__name__}: {problem}",
            ) from problem
