"""``usage``: what calls have cost so far."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from .._base.checks import check, column_names
from .._base.unknown_options import answers_unknown
from .._keyed.input_columns import quoted
from ..errors import error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructField

_COUNTS = "calls", "rows", "retries", "rate_limited", "from_journal", "shared", "limit_wait_ms"
_SCHEMA = ", ".join(
    ["operator string", *(f"{name} bigint" for name in _COUNTS), "usage map<string,double>"]
)


@answers_unknown
def usage(
    df_or_query: DataFrame | StreamingQuery, *, by: str | Sequence[str] | None = None
) -> DataFrame:
    """Return what calls have cost so far, a row for each operator that makes some.

    The columns are ``operator``, ``calls`` (what the service sees: attempts that were started,
    retries included, a list of the batch form as one), ``rows`` (those that these calls were for,
    at each attempt), ``retries``, ``rate_limited`` (calls that the service refused by 429, 503 or a
    :class:`RetryAfter`), ``from_journal`` and ``shared`` (rows that needed
    no call of their own), ``limit_wait_ms`` (the time for which calls waited for a limit, summed
    over tasks), and ``usage``, a map with the sum of each unit that calls have reported.

    It is read when this is called: call it again, from another thread, while an action or a query
    runs; tasks report every five seconds and at their end, and with ``carry_over`` at the end of a
    micro-batch. Calls of tasks that failed count, since they were made.

    The driver keeps the counts of the last 10,000 operators and runs, for engine "jvm".

    Parameters
    ----------
    df_or_query: of a DataFrame the operators in its plan, in all actions of this application so far
        that used them, also by DataFrames made from it; of a streaming query its operators, since
        the application started it first.
    by: columns of the rows. The usage is then read from the rows of the DataFrame, by a job: from
        the sums of a ``call_column``. The result has to have been written with one and read back,
        or be cached, since computing it makes the calls. These columns are behind the operator.
        It has the calls of rows alone, not those of tasks that failed; ``rate_limited``,
        ``shared`` and ``limit_wait_ms`` are null, and ``calls`` and ``retries`` where calls were of
        lists, since their rows don't tell which of them were together.

    Raises :class:`InvalidOption` (NO_CALLS_TO_COUNT, NO_CALL_COLUMN, CALLS_BY_COLUMN_AGAIN), and
    :class:`EngineUnavailable` without the jar.
    """
    is_frame = hasattr(df_or_query, "sparkSession") and hasattr(df_or_query, "schema")
    is_query = hasattr(df_or_query, "runId") and hasattr(df_or_query, "lastProgress")
    expected = "a DataFrame or a StreamingQuery"
    check(is_frame or is_query, "df_or_query", expected, df_or_query, "df")
    if by is not None:
        check(is_frame, "df_or_query", "a DataFrame with by", df_or_query, "df")
        return _by_columns(df_or_query, column_names("by", by))
    spark, told = _told(df_or_query)
    if not told and is_frame:
        raise error("NO_CALLS_TO_COUNT")
    rows = [(one["operator"], *(one[name] for name in _COUNTS), one["usage"]) for one in told]
    return spark.createDataFrame(rows, _SCHEMA)


def _told(df_or_query: Any) -> tuple[SparkSession, list[dict[str, Any]]]:
    from .engine import require_jvm

    if hasattr(df_or_query, "sparkSession"):
        spark = df_or_query.sparkSession
        return spark, require_jvm(spark).usage(df_or_query, None)
    spark = _session_of(df_or_query)
    return spark, require_jvm(spark).usage(None, str(df_or_query.id))


def _session_of(query: Any) -> Any:
    """Return the session of a query, which a classic one doesn't tell."""
    from pyspark.sql import SparkSession

    connected = getattr(query, "_session", None)
    return SparkSession.active() if connected is None else connected


def _by_columns(df: Any, by: Sequence[str]) -> DataFrame:
    from .._arrow.schema import OPERATOR, find_columns, is_case_sensitive

    sensitive = is_case_sensitive(df.sparkSession)
    groups = [column.name for column in find_columns(df.schema, by, "by", sensitive)]
    for name in groups:
        own = name.lower() in ("operator", *_COUNTS, "usage")
        check(not own, "by", "no column of pb.usage itself (rename it)", name, "tenant")
    calls = [field for field in df.schema.fields if OPERATOR in (field.metadata or {})]
    if not calls:
        raise error("NO_CALL_COLUMN", columns=", ".join(df.columns))
    storage = df.storageLevel
    if not (storage.useMemory or storage.useDisk) and _makes_calls(df):
        raise error("CALLS_BY_COLUMN_AGAIN")
    parts = [_sums(df, groups, field) for field in calls]
    whole: DataFrame = reduce(lambda one, other: one.unionByName(other), parts)
    return whole


def _makes_calls(df: Any) -> bool:
    from .client import client_of

    client = client_of(df.sparkSession)
    return client.jar() is not None and bool(client.usage(df, None))


def _sums(df: Any, groups: list[str], field: StructField) -> Any:
    """Return the sums of a group: first those of each of its units, by which a call has a row."""
    from pyspark.sql import functions as F

    from .._arrow.schema import BATCH, OPERATOR

    is_batch = (field.metadata or {}).get(BATCH, False)
    call = df[quoted(field.name)]
    keys = [df[quoted(name)].alias(f"g{at}") for at, name in enumerate(groups)]
    used = F.posexplode_outer(F.map_entries(call["usage"])).alias("at", "used")
    units = df.select(*keys, call.alias("call"), used)
    first, attempts = F.coalesce("at", F.lit(0)) == 0, F.col("call.attempts")
    made = F.when(first, attempts)
    none = F.lit(None).cast("bigint")
    counts = {
        "calls": none if is_batch else F.sum(made),
        "rows": F.sum(made),
        "retries": none if is_batch else F.sum(F.when(first, F.greatest(attempts - 1, F.lit(0)))),
        "from_journal": F.sum(F.when(first, F.col("call.from_journal").cast("bigint"))),
    }
    by = [f"g{at}" for at in range(len(groups))]
    parts = units.groupBy(*by, F.col("used.key").alias("unit")).agg(
        F.sum("used.value").alias("amount"), *(sum.alias(name) for name, sum in counts.items())
    )
    amounts = F.collect_list(F.when(F.col("unit").isNotNull(), F.struct("unit", "amount")))
    sums = parts.groupBy(*by).agg(
        F.lit(field.metadata[OPERATOR]).alias("operator"),
        *(F.sum(name).alias(name) for name in counts),
        *(none.alias(name) for name in _COUNTS if name not in counts),
        F.map_from_entries(amounts).alias("usage"),
    )
    named = [F.col(key).alias(name) for key, name in zip(by, groups, strict=True)]
    return sums.select("operator", *named, *_COUNTS, "usage")
