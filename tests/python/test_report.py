"""The text of a failure, as whoever catches Spark's error reads it, and what is found in it."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import pillarbox as pb
from pillarbox._arrow.rows import RowReader
from pillarbox._base.failures import final_failure
from pillarbox._base.report import Report, report_of, report_of_call
from pillarbox._base.values import Values, key_text, row_text, use
from pillarbox._driver.failure_text import read
from pillarbox.errors import error

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = json.loads((GOLDEN / "failures.json").read_text("utf-8"))
ROWS = json.loads((GOLDEN / "rows.json").read_text("utf-8"))

STREAM = (
    "[STREAM_FAILED] Query [id = 6c2930b7-a558-4d19, runId = 0bcaf7f9-600f] terminated with "
    "exception: "
)
WORKER = "An exception was thrown from the Python worker:\n"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "a.py", line 3, in run\n    raise value\n'
    "    ^^^^^^^^^^^\n"
)


class Told(PySparkException):
    """Stands for what pyspark makes of an exception of the JVM."""

    def __init__(self, text: str) -> None:
        self._desc = text

    def __str__(self) -> str:
        return self._desc


def raised_now(problem: BaseException) -> BaseException:
    try:
        raise problem
    except BaseException as raised:
        return raised


def called(problem: Exception, traced: bool = True, row: str = "id=3") -> Report:
    """The report of a call that raised ``problem``."""
    failed = final_failure(raised_now(problem))
    failed = replace(failed, traceback=failed.traceback.rstrip("\n") if traced else "")
    return report_of_call(failed, "async_io(f)", row, 2, 15)


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_people_read_what_the_golden_file_says(case: Any) -> None:
    told = Report(**case["report"])
    assert told.told() == case["told"]
    assert Report.of_json(told.to_json()) == told


@pytest.mark.parametrize("message", ["no such product:\nx", "no such product: " + "x" * 600])
@pytest.mark.parametrize("raised", [True, False])
def test_a_message_that_the_head_shortens_is_whole_once_and_the_remedy_is_in_the_head(
    message: str, raised: bool
) -> None:
    told = called(LookupError(message), raised)
    text = told.told()
    head = text.partition("\n")[0]
    assert head.startswith(
        "[ASYNC_CALL_FAILED] async_io(f): The call failed after 2 attempts in 15"
    )
    assert head.endswith('. To go on without such rows use on_error="null" or on_error="column".')
    assert len(head) < 500
    assert text.count("no such product:") == 2
    assert text.count(message) == 1
    assert read(text) == told
    cut = read(text[:1000] + "...")  # as Spark Connect may
    assert cut is not None
    assert (cut.row, cut.kind, cut.attempts) == ("id=3", "LookupError", 2)


@pytest.mark.parametrize("case", ROWS, ids=[f"{one['sql']} {one.get('show', '')}" for one in ROWS])
def test_a_row_is_shown_as_the_golden_file_says(spark: SparkSession, case: Any) -> None:
    df = spark.sql(case["sql"])
    (batch,) = df.toArrow().to_batches()
    (row,) = RowReader(df.schema).read_each(batch)
    use(Values(case.get("show", True), case.get("redaction", Values.redaction)))
    try:
        assert row_text(row) == case["row"]
        if "key" in case:
            names = df.columns
            assert key_text(row if len(names) > 1 else row[0], names) == case["key"]
    finally:
        use(Values())


ODD = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]), st.sampled_from('\n\r"\\[]{}:\x00\x85\u2028')
    ),
    max_size=700,
)
WORDS = st.sampled_from(
    [
        ") with KeyError: ",
        " It came for the row (",
        "\n\n",
        "LookupError: ",
        "async_io(g): ",
        "…",
        ".",
    ]
)
TEXTS = st.builds("".join, st.lists(st.one_of(ODD, WORDS, st.just("x" * 300)), max_size=3))
BEHIND = [
    "",
    " SQLSTATE: 39000 SQLSTATE: XXKST\n=== Streaming Query ===\nId",
    "\n\nJVM stacktrace:\na",
]


def plain(text: str | None) -> str:
    """A text without what reading may change where nothing else has it: full stops, line ends."""
    return "".join((text or "").replace(".", "").split())


@given(TEXTS, st.one_of(TEXTS, st.integers()), st.booleans(), st.sampled_from(BEHIND))
def test_what_a_text_tells_of_a_call_is_read_from_it(
    message: str, value: Any, raised: bool, behind: str
) -> None:
    told = called(LookupError(message), raised, row_text(Row(a=value, b=1)))
    found = read(told.told() + behind)
    assert found is not None
    same = replace(found, text=told.text, message=told.message, traceback=told.traceback)
    assert same == told
    if found.message.endswith("…"):  # the message has the line of the traceback within it
        assert plain(told.message).startswith(plain(found.message[:-1]))
    else:
        assert (plain(found.text), plain(found.message)) == (plain(told.text), plain(told.message))
    assert found.traceback == told.traceback.rstrip()


@given(TEXTS, TEXTS)
def test_errors_of_ours_are_read_with_their_row_and_their_own_message(value: str, a: str) -> None:
    wrong = error("RESULT_TYPE_MISMATCH", column="y", expected="bigint", value=value, found="str")
    told = report_of_call(final_failure(wrong), "async_io(f)", row_text(Row(a=a, b=1)), 1, 15)
    found = read(told.told())
    assert found is not None
    kinds = (found.type, found.condition, found.kind)
    assert kinds == ("ResultTypeMismatch", "RESULT_TYPE_MISMATCH", "RESULT_TYPE_MISMATCH")
    assert plain(found.text) == plain(told.text)
    assert (found.row, plain(found.message)) == (told.row, plain(told.message))
    assert (found.attempts, found.elapsed_ms) == (None, None)  # the text doesn't tell them


@pytest.mark.parametrize(
    "problem",
    [
        SystemExit(3),
        MemoryError("all"),
        ConnectionError("x" * 700),
        error("FUNCTION_LOAD_FAILED", kind="LookupError", reason="no\nsuch"),
        error("EVENT_LOOP_BLOCKED", blocked_ms=5000, stack="  File a\n\n  in f\n" * 40 + "  it"),
        error("WORKER_IMPORT_FAILED", reason="No module named 'pyarrow'", python="python3"),
        error("RESOURCE_OPEN_FAILED", resource="f", kind="OSError", reason="port 5432"),
    ],
    ids=lambda problem: getattr(problem, "condition", type(problem).__name__),
)
def test_the_end_of_a_worker_is_read_from_its_text(problem: BaseException) -> None:
    told = report_of(raised_now(problem), "async_io(f)")
    found = read(told.told())
    assert found is not None
    given = getattr(problem, "parameters", {})
    kind, message = given.get("kind", told.kind), given.get("reason", told.message)
    if told.condition in ("EVENT_LOOP_BLOCKED", "WORKER_IMPORT_FAILED"):
        kind, message = told.condition, told.message
    assert (found.kind, found.message) == (kind, message)
    assert replace(found, kind=told.kind, message=told.message) == replace(
        told, traceback=told.traceback.rstrip("\n")
    )


@pytest.mark.parametrize(
    ("event", "row", "timer"),
    [
        ("process(Row(id=3, s='in (a)'))", "id=3, s='in (a)'", None),
        ("on_timer(77) in event time", None, "77 in event time"),
        ("on_timer(77 in event time)", None, "77 in event time"),  # of the JVM
    ],
)
def test_the_key_and_what_it_was_given_are_read_from_the_text(
    event: str, row: str | None, timer: str | None
) -> None:
    """Of a driver that keeps the report no more."""
    told = error(
        "KEYED_CALL_FAILED", key="'a in b'", event=event, kind="KeyError", reason="1", hint=""
    )
    told.__cause__ = raised_now(KeyError(1))
    ours = error("KEYED_CALL_FAILED", key="'a in b'", event=event, kind="X", reason="1", hint="")
    ours.__cause__ = error("UNKNOWN_STATE", state="'m'", declared="none")
    for problem, kind in ((told, "KeyError"), (ours, "UNKNOWN_STATE")):
        report = report_of(problem, "process_keyed(K)")
        found = read(report.told())
        assert found is not None
        assert (found.key, found.row, found.timer) == ("'a in b'", row, timer)
        assert (found.kind, found.message, found.text) == (kind, report.message, report.text)


@given(TEXTS)
def test_a_text_that_does_not_begin_as_ours_holds_none(text: str) -> None:
    for before in ("x", " ", "RuntimeError: ", WORKER + TRACEBACK + "RuntimeError: ", STREAM + "x"):
        assert pb.failure_of(Told(before + text)) is None


@given(TEXTS)
def test_reading_never_fails(text: str) -> None:
    assert isinstance(pb.failure_of(Told(text)), (pb.PillarboxError, type(None)))


TEXT = called(LookupError("no such product")).told()


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        STREAM + TEXT + " SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier",
        WORKER + TRACEBACK + "pillarbox.errors.CallFailed: " + TEXT,
        "[PYTHON_EXCEPTION] "
        + WORKER[:-1]
        + " "
        + TRACEBACK
        + "pillarbox.errors.CallFailed: "
        + TEXT,
        STREAM
        + "[PYTHON_EXCEPTION] "
        + WORKER
        + TRACEBACK
        + "pillarbox.errors.CallFailed: "
        + TEXT,
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        + TEXT,
        TRACEBACK + "pyspark.errors.exceptions.captured.PythonException: " + TEXT,
        "[PYTHON_EXCEPTION] " + WORKER + "pillarbox.errors.CallFailed: " + TEXT,  # hideTraceback
        "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent "
        "failure: Lost task 0.3 in stage 1.0 (TID 3) (host executor 1): "
        "org.apache.spark.sql.pillarbox.ReportedException: " + TEXT,
    ],
)
def test_what_spark_writes_before_is_skipped(text: str) -> None:
    found = pb.failure_of(Told(text))
    told = called(LookupError("no such product"))
    assert isinstance(found, pb.CallFailed)
    assert found.traceback == told.traceback.rstrip("\n")
    assert str(found) == f"[ASYNC_CALL_FAILED] async_io(f): {told.text}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        TRACEBACK + "RuntimeError: " + TEXT,
        TRACEBACK + "RuntimeError: x\npillarbox.errors.CallFailed: " + TEXT,
        TRACEBACK + "KeyError: 1\n\nDuring handling\n\n" + TRACEBACK + "ValueError: " + TEXT,
        "[USER_RAISED_EXCEPTION] " + TEXT,
        "RuntimeError: " + TEXT,
        TEXT.replace("[ASYNC", "[ ASYNC"),
        "[NO_SUCH_NAME] It failed.",
        "[INVALID_TYPE] Argument `x` should not be a str.",  # PySpark's
        WORKER
        + TRACEBACK
        + "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
        "worker has different version: 3.10 than that in driver: 3.11, PySpark cannot run.",
    ],
)
def test_what_is_not_ours_or_broken_gives_none(text: str) -> None:
    assert pb.failure_of(Told(text)) is None
    assert pb.failure_of(Told(STREAM + text)) is None


def test_a_users_own_exception_is_never_read() -> None:
    assert pb.failure_of(RuntimeError(TEXT)) is None
    assert pb.failure_of(None) is None


def test_causes_are_looked_through_and_circles_end() -> None:
    inner, outer = Told(TEXT), RuntimeError("my job failed")
    outer.__cause__ = inner
    assert isinstance(pb.failure_of(outer), pb.CallFailed)
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert pb.failure_of(first) is None


def test_our_own_errors_are_given_back() -> None:
    ours = error("EMPTY_LIMIT")
    assert pb.failure_of(ours) is ours
    assert (ours.operator, ours.row, ours.key, ours.kind, ours.traceback) == (None,) * 4 + ("",)
    outer = RuntimeError("planning failed")
    outer.__cause__ = ours
    assert pb.failure_of(outer) is ours


def test_an_error_of_the_harness_is_given_back() -> None:
    from pillarbox.testing import KeyedHarness

    class Wrong(pb.KeyedProcessFunction):
        def process(self, row: Any, ctx: Any) -> Any:
            return row.k, "text"

    harness = KeyedHarness(Wrong(), schema="k string", by="k", returns="k string, n bigint")
    with pytest.raises(pb.ResultTypeMismatch) as raised:
        harness.process(("a",))
    assert pb.failure_of(raised.value) is raised.value


def test_an_error_that_was_found_travels_between_processes() -> None:
    found = pb.failure_of(Told(TEXT))
    copy = pickle.loads(pickle.dumps(found))
    assert (type(copy), str(copy), vars(copy)) == (pb.CallFailed, str(found), vars(found))


def test_an_error_of_another_version_is_a_pillarbox_error() -> None:
    for name in ("QuotaExceeded", "shown"):
        newer = replace(called(LookupError("x")), type=name, condition="QUOTA_EXCEEDED")
        for found in (newer.to_error(), pb.failure_of(Told(newer.told()))):
            assert type(found) is pb.PillarboxError
            assert (found.condition, found.operator) == ("QUOTA_EXCEEDED", "async_io(f)")


def test_a_worker_reports_the_users_exception_and_where_it_came_from() -> None:
    told = error(
        "KEYED_CALL_FAILED", key="'a'", event="process(Row(x=1))", kind="KeyError", reason="1",
        hint="", row="x=1",
    )  # fmt: skip
    told.__cause__ = KeyError(1)
    found = report_of(told, "process_keyed(K)")
    assert (found.condition, found.kind, found.message) == ("KEYED_CALL_FAILED", "KeyError", "1")
    assert (found.key, found.row, found.timer) == ("'a'", "x=1", None)
    told.__cause__ = error("UNKNOWN_STATE", state="'m'", declared="none")
    found = report_of(told)
    assert (found.type, found.condition, found.kind) == (
        "StateError",
        "UNKNOWN_STATE",
        "UNKNOWN_STATE",
    )
    assert "for the key 'a' in process(Row(x=1))" in found.text
    found = report_of(SystemExit(3))
    assert (found.condition, found.kind, found.message) == ("FUNCTION_EXITED", "SystemExit", "3")
    found = report_of(MemoryError("all"))
    assert (found.type, found.condition) == ("WorkerFailed", "PYTHON_WORKER_FAILED")
    assert (found.kind, found.message) == ("MemoryError", "all")


@pytest.mark.parametrize("message", ["a\n" * 3, "x" * 300 + "\n", "word " * 5_000], ids=len)
def test_a_message_stands_once_behind_the_line(message: str) -> None:
    try:
        raise ValueError(message)
    except ValueError as problem:
        told = report_of_call(final_failure(problem), "async_io(f)", "id=1", 1, 5).told()
    behind = told.split("\n\n", 1)[1]
    assert behind.startswith("Traceback")
    assert len(behind) < len(message) + 1_000
