"""An operator of Pillarbox in the plan of a Spark Connect client.

It travels as the message ``operator.proto`` in Spark's own ``Relation``. All its fields are bytes,
so it is encoded by hand, without protoc and code that depends on a version of protobuf.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql.connect import proto
from pyspark.sql.connect.plan import LogicalPlan
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import BinaryType
from pyspark.util import PythonEvalType

from ..._version import __version__

_TYPE_URL = "type.googleapis.com/pillarbox.Operator"
_VERSION, _KIND, _SPEC, _INPUT, _INITIAL, _FUNCTION = range(1, 7)


class Operator(LogicalPlan):
    """An operator or look-up of a ``kind`` over the plans of up to two DataFrames."""

    def __init__(
        self,
        kind: str,
        spec: dict[str, Any],
        below: LogicalPlan | None = None,
        initial: LogicalPlan | None = None,
        pickled: bytes | None = None,
    ) -> None:
        super().__init__(below)
        self._other_child = initial
        self._told = {_VERSION: __version__.encode(), _KIND: kind.encode()}
        self._told[_SPEC] = json.dumps(spec).encode()
        if pickled is not None:
            self._told[_FUNCTION] = _function(str(spec["name"]), pickled)

    def plan(self, session: Any) -> proto.Relation:
        """Return the message with its inputs. Spark asks for it in each action and analysis."""
        fields = dict(self._told)
        for number, child in ((_INPUT, self._child), (_INITIAL, self._other_child)):
            if child is not None:
                fields[number] = child.plan(session).SerializeToString()
        relation = self._create_proto_relation()
        relation.extension.type_url = _TYPE_URL
        relation.extension.value = b"".join(_field(*field) for field in fields.items())
        return relation

    @property
    def observations(self) -> dict[str, Any]:
        other = self._other_child
        return {**super().observations, **({} if other is None else other.observations)}


def _function(name: str, command: bytes) -> bytes:
    """Return the pickle as a function of Spark, whose planner adds the session's files to it."""
    expression = proto.Expression()
    function = expression.common_inline_user_defined_function
    function.function_name = name
    function.deterministic = False
    udf = function.python_udf
    udf.output_type.CopyFrom(pyspark_types_to_proto_types(BinaryType()))
    udf.eval_type = PythonEvalType.SQL_BATCHED_UDF
    udf.command = command
    udf.python_ver = "{}.{}".format(*sys.version_info)
    return bytes(expression.SerializeToString())


def _field(number: int, value: bytes) -> bytes:
    """Encode a field of bytes (wire type 2 of protobuf)."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
