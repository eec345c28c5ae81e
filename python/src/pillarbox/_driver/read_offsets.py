"""``read_offsets``: the position of a streaming query in its sources, from its checkpoint."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from os import PathLike
from typing import TYPE_CHECKING

from .._base.checks import check
from .._base.unknown_options import answers_unknown
from ..errors import error
from .read_state import batch_ranges, check_batch_id, checkpoint_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Offsets(dict[str, str]):
    """The offset of each source, and the ``watermark`` of the micro-batch after which they are."""

    watermark: datetime | None
    """The time, in UTC, up to which rows were late and timers due; None if there was none yet."""


@answers_unknown
def read_offsets(
    spark: SparkSession, checkpoint: str | PathLike[str], *, batch_id: int | None = None
) -> Offsets:
    """Return the position of a streaming query in each of its sources, as Spark has stored it.

    With :func:`read_state` it moves a query to a new checkpoint: the state after a micro-batch goes
    into ``initial_state``, and the new query reads from the end of that micro-batch. The text for a
    Kafka source is a value of its option ``startingOffsets``; that for the source
    ``rate-micro-batch`` has a ``timestamp`` for ``startTimestamp``. Spark's file source has no such
    option.

    Parameters
    ----------
    spark: any session that reads the checkpoint's file system, also of Spark Connect; it needs no
        jar.
    checkpoint: the query's ``checkpointLocation``.
    batch_id: the offsets after that micro-batch, by ``query.lastProgress["batchId"]``. The newest
        that is committed by default. While the query runs pass the same one to
        :func:`read_state`.

    Returns the offset of each source, JSON as the source writes it, by the source's number in the
    query ("0" is the first that the query reads), or by its name where Spark keeps names. A source
    that has given nothing yet is left out. The dict's attribute ``watermark`` is that of the
    micro-batch, a datetime in UTC, or None if there was none yet: a new query begins without a
    watermark, and rows at or before this one were late for the old query.

    Raises :class:`InvalidOption` if the checkpoint has no such micro-batch, saying which there are.
    """
    is_session = isinstance(getattr(spark, "version", None), str)
    check(is_session, "spark", "a SparkSession", spark, "spark")
    path = checkpoint_path(checkpoint)
    check_batch_id(batch_id)
    known = _committed(spark, path)
    if not known:
        raise error("NO_STORED_BATCHES", checkpoint=path)
    wanted = known[-1] if batch_id is None else batch_id
    if wanted not in known:
        raise error("NO_STORED_BATCH", batch_id=wanted, there=batch_ranges(known))
    log = _files(spark, f"{path}/offsets/{wanted}").first()
    assert log is not None
    return _offsets(log["value"])


def _committed(spark: SparkSession, path: str) -> list[int]:
    from pyspark.errors import AnalysisException

    try:
        # Spark opens the files for their names, and a query that runs deletes the oldest meanwhile.
        files = _files(spark, f"{path}/commits", ignoreMissingFiles=True)
        names = files.select("_metadata.file_name").collect()
    except AnalysisException as problem:
        if problem.getCondition() != "PATH_NOT_FOUND":
            raise
        return []
    return sorted(int(name) for (name,) in names if name.isdigit())


def _files(spark: SparkSession, path: str, **options: bool) -> DataFrame:
    literal = re.sub(r"([\\*?{}\[\]])", r"\\\1", path)
    return spark.read.options(**options).text(literal, wholetext=True)


def _offsets(log: str) -> Offsets:
    """Return the offsets by source in Spark's ``OffsetSeqLog``: a version, the metadata, and a line
    for each source, which begins with the source's name from version 2 on."""
    version, metadata, *lines = log.split("\n")
    if version == "v1":
        named = [(str(number), line) for number, line in enumerate(lines)]
    elif version == "v2":
        named = [(name, line) for name, _, line in (line.partition(":") for line in lines)]
    else:
        raise error("OFFSETS_FORMAT_UNKNOWN", found=version)
    found = Offsets((name, offset) for name, offset in named if offset not in ("", "-"))
    watermark_ms = json.loads(metadata).get("batchWatermarkMs", 0)
    found.watermark = _EPOCH + timedelta(milliseconds=watermark_ms) if watermark_ms > 0 else None
    return found


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
