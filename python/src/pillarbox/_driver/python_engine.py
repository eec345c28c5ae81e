"""engine="python": ``async_io`` over ``mapInArrow``, without Pillarbox in the JVM."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from .._arrow.schema import check_type, is_case_sensitive, positions
from .._async.command import Command, Shipped
from .._async.guarded import Guarded
from .._async.options import AsyncOptions
from .._async.python_task import CallScope, run_task
from .._base.values import REDACTION, SHOW_VALUES, Values
from .._metered.limit_keys import LimitKeys
from .._metered.told import ToldByTasks
from ..errors import error
from .client import client_of
from .identity import Identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Those of PillarboxConf.scala; what else begins so is misspelt, or of tests.
SETTINGS = (
    "spark.pillarbox.state.snapshotEvery",
    "spark.pillarbox.state.rocksdb.memory",
    "spark.pillarbox.state.maintenanceInterval",
    SHOW_VALUES,
)
_PREFIX, _INTERNAL = "spark.pillarbox.", "spark.pillarbox.internal."

_NUMBERS = re.compile(r"#\d+L?|@[0-9a-f]+")  # the parts of a plan that differ from run to run


def async_io_in_python(
    df: DataFrame, command: Command, options: AsyncOptions, output: StructType, identity: Identity
) -> DataFrame:
    """Apply ``async_io`` to ``df`` in Python workers. Plans only, starts no job.

    Raises ``InvalidSchema`` (UNSUPPORTED_TYPE) for a column that can't pass through Python.
    """
    from pyspark.sql import functions as F

    from .ship import ship_package

    for column in df.schema.fields:
        check_type(column.dataType, column.name, 'the input, which engine="python" takes whole,')
    command.dumps()  # raises its error here, where it names the function
    shipped = Shipped(command)
    client_of(df.sparkSession).forget_broadcasts()
    ship_package(df.sparkSession)
    columns = positions(df.schema, options.inputs, command.input_schema)
    scope, values = _scope(df, identity), _values(df.sparkSession)
    told = ToldByTasks(client_of(df.sparkSession).accumulator())

    # mapInArrow looks columns up by name, which fails for names that come twice or have dots.
    made = _numbered(output)
    keys = LimitKeys.of(df.schema, options.keys_of_limits, is_case_sensitive(df.sparkSession))
    asked = partial(run_task, shipped, options, columns, keys, made.names, scope, values, told)
    task = Guarded(asked, f"async_io({options.name})")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from task(batches)

    # Plans show the name, and so it counts in the scopes of operators above.
    run.__name__ = run.__qualname__ = f"async_io({options.name})"
    given = df.toDF(*made.names[: len(df.columns)])
    # A task may read several partitions one after the other, but its context has one number.
    given = given.select("*", F.spark_partition_id().alias("partition"))
    return given.mapInArrow(run, made).toDF(*output.names)


def _values(spark: SparkSession) -> Values:
    """Return what errors show. Refuses settings as the JVM does, which reads them itself."""
    settings = spark.conf.getAll
    for key in settings:
        if key.startswith(_PREFIX) and key not in SETTINGS and not key.startswith(_INTERNAL):
            raise error("UNKNOWN_SETTING", key=key, known=", ".join(SETTINGS))
    given = settings.get(SHOW_VALUES, "true")
    told = given.strip().lower()
    if told not in ("true", "false"):
        asked = {"key": SHOW_VALUES, "default": "true", "expected": "true or false"}
        raise error("INVALID_SETTING", value=given, **asked)
    return Values(told == "true", settings.get(REDACTION, Values.redaction))


def _numbered(schema: StructType) -> StructType:
    """Return the same columns under names by position."""
    return StructType(
        [StructField(f"c{i}", f.dataType, f.nullable, f.metadata) for i, f in enumerate(schema)]
    )


def _scope(df: DataFrame, identity: Identity) -> CallScope:
    """Return what the ids of an operator's calls are made of.

    In a stream its place in the query is unknown here. Its kind and the plan of its input stand for
    it; two operators that are equal in both have different partitions in their union.
    """
    if identity.calls is not None:
        return CallScope(identity.calls, in_stream=False)
    plan = _NUMBERS.sub("", client_of(df.sparkSession).analyzed_plan(df))
    fingerprint = hashlib.blake2s(plan.encode(), digest_size=4).hexdigest()
    return CallScope(f"{identity.signature}-{fingerprint}", in_stream=True)
