"""One of our operators in the plan of a Spark Connect client.

It travels as a message in Spark's own ``Relation``; ``operator.proto`` describes it. All its fields
are bytes, so it is written by hand, without protoc and code that depends on a version of protobuf.
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
    """``kind`` of operator or look-up over the plans of one or two DataFrames, or of none."""

    def __init__(
        self,
        kind: str,
        spec: dict[str, Any],
        below: LogicalPlan | None = None,
        initial: LogicalPlan | None = None,
        pickled: bytes | None = None,
    ) -> None:
        super().__init__(below)
        self._kind = kind
        self._other_child = initial
        self._told = {_VERSION: __version__.encode(), _KIND: kind.encode()}
        self._told[_SPEC] = json.dumps(spec).encode()
        if pickled is not None:
            self._told[_FUNCTION] = _function(str(spec["name"]), pickled)

    def plan(self, session: Any) -> proto.Relation:
        """The message, with what it is applied to. Spark asks for it in each action and
        analysis."""
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
        """Those of what it is applied to."""
        other = self._other_child
        return {**super().observations, **({} if other is None else other.observations)}


def _function(name: str, command: bytes) -> bytes:
    """The pickle as the function that it is to Spark's planner, which adds the session's files."""
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
    """As protobuf writes a field of bytes (wire type 2)."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
