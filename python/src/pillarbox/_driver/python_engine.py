"""engine="python": ``async_io`` over ``mapInArrow``, with nothing of ours in the JVM."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from .._arrow.schema import check_type
from .._async.command import Command, Shipped
from .._async.options import AsyncOptions
from .._async.python_task import CallScope, run_task
from .door import door_of
from .identity import Identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBERS = re.compile(r"#\d+L?|@[0-9a-f]+")


def async_io_in_python(
    df: DataFrame,
    command: Command,
    options: AsyncOptions,
    output: StructType,
    identity: Identity,
) -> DataFrame:
    """``df`` with ``async_io`` applied by Python workers. Plans only, starts no job.

    Raises ``InvalidSchema`` (UNSUPPORTED_TYPE) for a column that can't pass through Python.
    """
    from pyspark.sql import functions as F

    from .ship import ship_package

    for column in df.schema.fields:
        check_type(column.dataType, column.name, 'the input, which engine="python" takes whole,')
    command.dumps()  # an error now, naming the function, not in the middle of planning
    shipped = Shipped(command)
    door_of(df.sparkSession).forget_broadcasts()
    ship_package(df.sparkSession)
    columns = positions(df.schema, options.inputs, command.input_schema)
    scope = _scope(df, identity)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from run_task(shipped, options, columns, made.names, scope, batches)

    # Plans show the name, and those of operators above tell by it what they are applied to.
    run.__name__ = run.__qualname__ = f"async_io({options.name})"
    # Spark looks columns up by name here, which fails for names that come twice or have dots.
    made = _numbered(output)
    given = df.toDF(*made.names[: len(df.columns)])
    # A task may read several partitions after each other, and knows only one number.
    given = given.select("*", F.spark_partition_id().alias("partition"))
    return given.mapInArrow(run, made).toDF(*output.names)


def _numbered(schema: StructType) -> StructType:
    """The same columns, with names that tell their places."""
    return StructType(
        [StructField(f"c{i}", f.dataType, f.nullable, f.metadata) for i, f in enumerate(schema)]
    )


def positions(schema: StructType, inputs: Sequence[str] | None, chosen: StructType) -> list[int]:
    """Where in a row the columns are that the function sees."""
    if inputs is None:
        return list(range(len(schema.names)))
    return [schema.names.index(name) for name in chosen.names]


def _scope(df: DataFrame, identity: Identity) -> CallScope:
    """Nobody here knows an operator's place in its query. So it is told by its kind and the plan of
    its input, and, should two be alike in both, by the task's partition, which is another one where
    they stand side by side in a union.
    """
    if identity.calls is not None:
        return CallScope(identity.calls, in_stream=False)
    return CallScope(f"{identity.signature}-{_fingerprint(df)}", in_stream=True)


def _fingerprint(df: DataFrame) -> str:
    """Of the analysed plan, without what is another one in each run of a program."""
    plan = _NUMBERS.sub("", door_of(df.sparkSession).analyzed_plan(df))
    return hashlib.blake2s(plan.encode(), digest_size=4).hexdigest()
