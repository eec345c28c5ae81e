"""``failure_of``: the error of Pillarbox in an error that Spark raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._base.report import Report, report_of
from .._base.unknown_options import answers_unknown
from ..errors import PillarboxError
from ..errors import error as error_of
from .client import recent_failure
from .failure_text import read

# Spark and py4j write these texts before the message of an error that they pass on. Nothing else is
# skipped, so that a report counts only where an error's own message begins.
_WRAPPERS = re.compile(
    r"""
      \[STREAM_FAILED\]\ Query\ \[[^\]\n]*\]\ terminated\ with\ exception:\s*
    | \[PYTHON_EXCEPTION\]\s*
    | \s*An\ exception\ was\ thrown\ from\ the\ Python\ worker
      (?::|\.\ Please\ see\ the\ stack\ trace\ below\.)\s*
    | \[FOREACH_BATCH_USER_FUNCTION_ERROR\]\ [^\n]*?\ Reason:\s*
    | \[session:\ [^\]\n]*\]\ \[userId:\ [^\]\n]*\]\ Found\ error\ inside\ \w+\ Python\ process:\s*
    | An\ exception\ was\ raised\ by\ the\ Python\ Proxy\.\ Return\ Message:\s*
    | Job\ aborted\ due\ to\ stage\ failure:\ [^\n]*?:\ (?=org\.apache\.spark\.)
    | (?:org\.apache\.spark|py4j)\.[\w.$]+:\s*
    | \([\w.$]+\)\s
    | (?:Traceback\ \(most\ recent\ call\ last\):\n(?:[ ][^\n]*\n|\n)*)?
      (?:pillarbox\.errors|pyspark\.errors\.exceptions\.\w+)\.\w+:\s*
    """,
    re.VERBOSE,
)
_NO_PYSPARK = re.compile(r"Error from python worker:\s*(\S+): [^\n]*No module named '?pyspark")
_CRASHED = "Python worker exited unexpectedly (crashed)"
_MOST_LAYERS = 20


@answers_unknown
def failure_of(error: BaseException | None) -> PillarboxError | None:
    """Return the error of Pillarbox in ``error``, which Spark has raised; None if there is none.

    ``error`` may be the exception of an action (``pyspark.errors.PythonException``), the one that
    ``StreamingQuery.awaitTermination()`` raises and ``StreamingQuery.exception()`` returns
    (``StreamingQueryException``), those of Spark Connect, and anything that has one of these as
    its cause. An error of Pillarbox, as planning and the harnesses raise it, is returned itself.

    The result is a ``CallFailed``, ``WorkerFailed``, ``ResultTypeMismatch``, ``StateError`` or
    another :class:`PillarboxError`; see there for its attributes. On both engines it is the same,
    but that ``engine="python"`` tells ``attempts`` and ``elapsed_ms`` of ``ASYNC_CALL_FAILED``
    alone. It is a ``WorkerFailed`` without operator if one of Spark's own workers was killed (they
    run the functions of ``engine="python"``), or if no worker could start because its Python has
    no PySpark: Spark doesn't tell whose worker it was. Never raises, and starts no job. ::

        try:
            df.collect()
        except pyspark.errors.PythonException as raised:
            failure = pb.failure_of(raised)
            if failure is None:
                raise
            print(failure.condition, failure.row, failure.kind, failure.message)
    """
    seen: set[int] = set()
    while isinstance(error, BaseException) and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, PillarboxError):
            return error
        for text in _messages(error):
            found = _found_in(text)
            if found is not None:
                return found.to_error()
        error = error.__cause__ or getattr(error, "_cause", None)
    return None


@contextmanager
def reported() -> Iterator[None]:
    """Raise the error of Pillarbox where Spark raises its own for it."""
    try:
        yield
    except Exception as problem:
        found = failure_of(problem)
        if found is None or found is problem:
            raise
        raise found from None


def _messages(error: BaseException) -> Iterator[str]:
    """Yield the texts of an error of Spark; none of a user's exception, which may say anything."""
    from pyspark.errors import PySparkException

    java = getattr(error, "java_exception", None)
    if java is not None:
        yield from _messages_of_java(java)
    elif isinstance(error, PySparkException):
        # The JVM keeps the report of a message that was asked for lately.
        asked = (lambda: error._origin.getMessage(), lambda: error._desc, lambda: str(error))  # type: ignore[attr-defined]
        for tell in asked:
            try:
                yield str(tell())
            except Exception:  # the text comes from the JVM, which may be gone
                continue


def _messages_of_java(problem: Any) -> Iterator[str]:
    try:
        for _ in range(_MOST_LAYERS):
            if problem is None:
                return
            if str(problem.getClass().getName()).startswith("org.apache.spark."):
                yield str(problem.getMessage())
            problem = problem.getCause()
    except Exception:  # the JVM may be gone
        return


def _found_in(text: str) -> Report | None:
    at = 0
    for _ in range(_MOST_LAYERS):
        report = read(text[at:])
        if report is not None:
            recent = recent_failure(text[at:])
            return report if recent is None else Report.of_json(recent)
        if text.startswith(_CRASHED, at):
            return report_of(error_of("PYTHON_WORKER_DIED", pid="unknown", limit="", stderr=""))
        lacking = _NO_PYSPARK.match(text, at)
        if lacking is not None:
            return report_of(error_of("PYSPARK_NOT_ON_WORKERS", python=lacking[1]))
        wrapper = _WRAPPERS.match(text, at)
        if wrapper is None:
            return None
        at = wrapper.end()
    return None
