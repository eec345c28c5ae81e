"""``read_journal`` and ``purge_journal``: the answers that a journal keeps."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from .._base.checks import check, check_name, needs_other, path_text
from .._base.durations import milliseconds
from .._base.unknown_options import answers_unknown
from ..errors import error
from .failure_of import reported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..options import Duration
    from .client import DriverClient

FORMAT = "pillarbox-journal"


@answers_unknown
def read_journal(
    spark: SparkSession,
    path: str | PathLike[str],
    *,
    name: str | None = None,
    version: str | None = None,
) -> DataFrame:
    """Return the answers that a journal keeps.

    There is a row for each answer that was kept, with the columns ``name`` and ``version`` (of the
    operator and of its :class:`Journal`; a version is null without one), ``call_id`` (what
    :func:`call_id` gave), ``written_at``, ``attempts``, and ``usage`` (what the call's attempts
    reported, by unit). A call that two tasks made at the same time is there twice: both were paid
    for, and the later answer counts. Answers past their ``ttl`` are there until their file goes.

    With ``name`` there are the columns ``key`` and ``answer`` too, structs of the columns of
    ``call_key`` and of ``returns``, and a row for each *row* of an answer: those of ``explode``
    have several, and one without rows is null. Operators of that name that differ in ``returns``
    or in the key are put together by the names of columns, with nulls where one has none.

    Each action reads the folder as it is when it begins; but of one DataFrame object, ``collect()``
    and ``toPandas()`` may read the files that the first of them found. For ``key`` and ``answer``
    it is also read at once, since their columns are told there. Jobs may write to the journal
    meanwhile. If ``purge_journal`` takes answers from it meanwhile, the read fails, or shows an
    answer twice. The same in a reader's words:
    ``spark.read.format("pillarbox-journal").option("name", name).load(path)``.

    Parameters
    ----------
    spark: a session with the jar, or of a Spark Connect server with it.
    path: the folder of a journal; that of ``journal=True`` is ``pillarbox-journal`` in the query's
        checkpoint.
    name: the ``name`` of an operator; only its answers are read.
    version: the ``version`` of a :class:`Journal`; only its answers are read.

    Raises :class:`InvalidOption` if there is no such folder or operator (the message lists those
    there are), or a column has two types, and :class:`EngineUnavailable` without the jar.
    """
    given = _given(spark, path, name, version)
    _client(spark)
    options = {key: value for key, value in given.items() if key != "path" and value is not None}
    with reported():
        df = spark.read.format(FORMAT).options(**options).load(given["path"])
        _ = df.schema  # analyses it also where Spark Connect would wait
    return df


@answers_unknown
def purge_journal(
    spark: SparkSession,
    path: str | PathLike[str],
    *,
    name: str | None = None,
    version: str | None = None,
    older_than: Duration | None = None,
    where: str | None = None,
) -> int:
    """Delete answers from a journal, and return how many.

    Deleted is what all of the conditions hold for. ::

        pb.purge_journal(spark, path, name="risk", where="key.customer = 4711")
        pb.purge_journal(spark, path, older_than="90 days")

    When it returns, the answers that were there when it began are in no file of the folder any
    more. The others stay, also if it fails; then it can be run again. Files whose answers are past
    three times their ``ttl`` go as well, and don't count. Jobs may use the journal meanwhile, and
    what they keep from then on stays. A task that runs may use an answer that it has read before
    once more. Run one purge of a folder at a time on an object store: of two at once the one can
    bring back what the other has deleted.

    Parameters
    ----------
    spark: a session with the jar, or of a Spark Connect server with it. It runs a job that reads
        the whole journal; then the driver writes the files anew that had such an answer.
    path, name, version: as of :func:`read_journal`.
    older_than: the age of an answer, such as "90 days".
    where: a SQL condition on what :func:`read_journal` gives with this ``name``, such as
        "key.customer = 4711".

    Raises :class:`InvalidOption` if there is no such folder or operator, or nothing to choose
    answers by, :class:`StateError` (JOURNAL_CHANGED) if another purge runs on the same folder, and
    Spark's error for a condition that it can't read.
    """
    given = _given(spark, path, name, version)
    age = None if older_than is None else milliseconds(older_than, "older_than")
    if where is not None:
        check_name("where", where, "key.customer = 4711", "a SQL condition")
        if name is None:
            advice = "Pass name=, too: the columns of key are those of one operator."
            raise needs_other("where", where, "without name", advice)
    if (name, version, age, where) == (None, None, None, None):
        raise error("PURGE_OF_EVERYTHING", path=given["path"])
    client = _client(spark)
    with reported():
        return client.purge_journal({**given, "older_than_ms": age, "where": where})


def _given(spark: object, path: object, name: object, version: object) -> dict[str, Any]:
    is_session = isinstance(getattr(spark, "version", None), str)
    check(is_session, "spark", "a SparkSession", spark, "spark")
    text = path_text("path", path, "hdfs:///journals/weather", "the folder of a journal")
    for option, value, example in (("name", name, "weather"), ("version", version, "model 3")):
        if value is not None:
            check_name(option, value, example, "a text that isn't empty")
    return {"path": text, "name": name, "version": version}


def _client(spark: SparkSession) -> DriverClient:
    from .engine import require_jvm

    return require_jvm(spark)
