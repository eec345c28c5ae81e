"""``read_state``: the state of a streaming query as a DataFrame, from its checkpoint."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from .._base.checks import check, check_name, is_number, path_text
from .._base.unknown_options import answers_unknown
from .._keyed.options import TIMERS
from ..errors import error, shown
from .failure_of import reported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .client.client import DriverClient


@answers_unknown
def read_state(
    spark: SparkSession,
    checkpoint: str | PathLike[str],
    operator: int | str,
    state: str,
    *,
    batch_id: int | None = None,
) -> DataFrame:
    """Return the state that a keyed operator of a streaming query has left in its checkpoint.

    There is a row for each value, accumulator, list element or map entry, with the columns ``key``
    (a struct of the key columns), ``value`` (lists also have ``index``, maps ``map_key``),
    ``timestamp`` (the time of the last write, or renewal under TTL; null without TTL),
    ``expires_at`` (null without TTL) and ``partition_id``. Expired entries that nothing has cleaned
    up yet are included: filter by ``expires_at``.

    The state is read when the DataFrame is, from the files of one micro-batch. The query may be
    running, and is not disturbed. State that the query deletes meanwhile is an error.

    Parameters
    ----------
    spark: a session with the jar, or of a Spark Connect server with it; any such session will do.
    checkpoint: the query's ``checkpointLocation``.
    operator: the number of the operator in the query, as in ``StreamingQueryProgress`` (0 if it is
        the only stateful one), or the ``name`` that the checkpoint has: that of its beginning, or
        of the last start that changed the number of partitions or the names of key columns.
    state: its name in the function; the state of a :func:`scan` is called "scan". ``pb.TIMERS``
        gives the timers, with the columns ``key``, ``time_domain`` ("event_time" or
        "processing_time"), ``timestamp``, ``epoch_ms`` and ``partition_id``; ``pb.WAITING_ROWS``
        the rows of time-sorted input that wait for the watermark: ``key``, ``value``,
        ``timestamp`` and ``partition_id``.
    batch_id: the micro-batch after which the state is read, as ``query.lastProgress["batchId"]``
        counts them, those without input included. The newest by default.

    Raises :class:`InvalidOption` if there is no such checkpoint, operator, micro-batch or state
    (the message lists those there are), and :class:`EngineUnavailable` without the jar. A struct
    with the only column ``value`` is read as that value; values of a custom serializer (JVM form)
    as binary.
    """
    from .engine import require_jvm

    is_session = isinstance(getattr(spark, "version", None), str)
    check(is_session, "spark", "a SparkSession", spark, "spark")
    path = checkpoint_path(checkpoint)
    client = require_jvm(spark)
    check_name("state", state, "count", "the name of a state")
    check_batch_id(batch_id)
    place: dict[str, Any] = {"checkpoint": path, "operator": 0, "version": 0, "name": ""}
    place["operator"] = _operator(_operators(client, place), path, operator)
    version = _version(client.look_up("stored_versions", place), path, batch_id)
    place["version"] = version
    names = client.look_up("stored_states", place)
    if state not in (TIMERS, *names):
        there = ", ".join(map(repr, names)) or "none"
        raise error("NO_STORED_STATE", state=shown(state), batch_id=version - 1, there=there)
    return client.read_state({**place, "name": state})


def checkpoint_path(checkpoint: str | PathLike[str]) -> str:
    return path_text("checkpoint", checkpoint, "/checkpoints/prices", "the folder of a checkpoint")


def check_batch_id(batch_id: int | None) -> None:
    is_number_or_none = batch_id is None or is_number(batch_id, int)
    check(is_number_or_none, "batch_id", "the number of a micro-batch", batch_id, "12")


def _operators(client: DriverClient, place: dict[str, Any]) -> list[dict[str, Any]]:
    with reported():
        return client.look_up("stored_operators", place)


def _operator(there: list[dict[str, Any]], path: str, wanted: object) -> int:
    if not there:
        raise error("NO_STORED_OPERATORS", checkpoint=path)
    by = "id" if is_number(wanted, int) else "name"
    matching = [one["id"] for one in there if one[by] == wanted]
    known = ", ".join(f"{one['id']} ({one['name']})" for one in there)
    if not matching:
        raise error("NO_STORED_OPERATOR", operator=shown(wanted), there=known)
    if len(matching) > 1:
        count = len(matching)
        raise error("AMBIGUOUS_STORED_OPERATOR", operator=shown(wanted), count=count, there=known)
    return cast(int, matching[0])


def _version(known: list[int], path: str, batch_id: int | None) -> int:
    """Return the version of the files, which is the number of finished micro-batches: id + 1."""
    if not known:
        raise error("NO_STORED_BATCHES", checkpoint=path)
    if batch_id is None:
        return known[-1]
    if batch_id + 1 not in known:
        there = batch_ranges([version - 1 for version in known])
        raise error("NO_STORED_BATCH", batch_id=batch_id, there=there)
    return batch_id + 1


def batch_ranges(numbers: list[int]) -> str:
    """Show ``[3, 4, 5, 9]`` as ``3 to 5, 9``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
