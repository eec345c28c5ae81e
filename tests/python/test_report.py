"""The text that carries a failure to whoever catches Spark's error: written and found again."""

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
from pyspark.sql import SparkSession

import pillarbox as pb
from pillarbox._arrow.rows import RowReader
from pillarbox._base.report import Report, parse, report_of
from pillarbox._base.values import Values, key_text, row_text, use
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


def report(**fields: Any) -> Report:
    given: dict[str, Any] = {
        "type": "CallFailed",
        "condition": "ASYNC_CALL_FAILED",
        "text": "It failed.",
        "operator": "async_io(f)",
        "kind": "KeyError",
        "message": "'x'",
        "row": "id=3",
        "attempts": 2,
        "elapsed_ms": 15,
        "traceback": f"{TRACEBACK}KeyError: 'x'",
    }
    return Report(**{**given, **fields})


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_a_report_is_laid_out_as_the_golden_file_says(case: Any) -> None:
    assert Report(**case["report"]).layout() == case["layout"]


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_what_is_laid_out_is_read_again_with_messages_whole(case: Any) -> None:
    told = case["report"]
    found = parse(case["layout"])
    assert found is not None
    for name in ("type", "condition", "text", "kind", "message", "attempts", "elapsed_ms"):
        assert getattr(found, name) == told.get(name), name
    assert found.traceback == told.get("traceback", "").rstrip("\n")
    for name in ("key", "row", "timer"):  # shortened at most
        shown, given_value = getattr(found, name), told.get(name)
        assert shown == given_value or given_value.startswith(shown.removesuffix("…"))


def test_a_reader_meets_the_message_and_the_traceback_before_the_line_for_programs() -> None:
    told = report(
        text="The call failed with KeyError: no such product.",
        message="no such product",
        traceback=f"{TRACEBACK}KeyError: no such product",
    )
    layout = told.layout()
    assert layout.startswith("[ASYNC_CALL_FAILED] async_io(f): The call failed with KeyError: no")
    assert layout.count("no such product") == 2
    assert layout.index("Traceback") < layout.index("pillarbox-failure")
    assert parse(layout) == told
    long = replace(told, traceback=f"{TRACEBACK * 20}KeyError: no such product")
    assert long.layout().split("\n")[1].startswith("pillarbox-failure")
    assert parse(long.layout()) == long


@pytest.mark.parametrize("message", ["no such product:\nx", "no such product: " + "x" * 600])
@pytest.mark.parametrize("raised", [True, False])
def test_a_message_that_the_head_shortens_is_whole_once_and_the_remedy_is_in_the_head(
    message: str, raised: bool
) -> None:
    told = report(
        text=f"The call failed with KeyError: {message}. Use on_error.",
        message=message,
        traceback=f"{TRACEBACK}KeyError: {message}" if raised else "",
    )
    layout = told.layout()
    head = layout.partition("\n")[0]
    assert head.startswith(
        "[ASYNC_CALL_FAILED] async_io(f): The call failed with KeyError: no such"
    )
    assert head.endswith(". Use on_error.")
    assert len(head) < 500
    assert layout.count("no such product:") == 2
    assert layout.count(message) == 1
    assert parse(layout) == told
    cut = parse(layout[: 1 + sum(map(len, layout.split("\n")[:2]))])
    if len(message) > 500:  # Spark Connect may cut what is behind the line for programs
        assert cut is not None
        assert message.startswith(cut.message.removesuffix("…"))


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_what_spark_writes_behind_a_report_is_not_part_of_it(case: Any) -> None:
    layout = case["layout"]
    behind = " SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: {a}"
    assert parse(layout + behind) == parse(layout)


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
OURS = st.just(report().layout())
TEXTS = st.one_of(ODD, st.builds("".join, st.lists(st.one_of(ODD, OURS), max_size=3)))


@given(TEXTS, TEXTS, TEXTS, st.booleans())
def test_a_message_within_text_and_traceback_is_found_again(
    before: str, message: str, behind: str, raised: bool
) -> None:
    trace = f"{before}{message}" if raised else behind
    told = report(text=f"{before[:50]}{message}{behind[:50]}", message=message, traceback=trace)
    found = parse(told.layout())
    assert found is not None
    assert found == replace(
        told, operator=found.operator, row=found.row, kind=found.kind,
        traceback=trace.rstrip("\n"),
    )  # fmt: skip


@given(
    st.builds(
        report,
        text=TEXTS,
        message=TEXTS,
        kind=ODD,
        operator=ODD,
        row=st.none() | TEXTS,
        key=st.none() | TEXTS,
        timer=st.none() | ODD,
        traceback=TEXTS,
        attempts=st.none() | st.integers(1, 2**31 - 1),
        elapsed_ms=st.none() | st.integers(0, 2**62),
    ),
    TEXTS,
    st.sampled_from(["", STREAM, WORKER + TRACEBACK + "pillarbox.errors.CallFailed: "]),
)
def test_whatever_the_texts_are_they_are_found_again(told: Report, after: str, before: str) -> None:
    layout = told.layout()
    for text in (before + layout, f"{before}{layout}\n\nJVM stacktrace:\n{after}"):
        found = pb.failure_of(Told(text))
        assert found is not None
        assert found.message == told.message
        assert found.traceback == told.traceback.rstrip("\n")
        assert (found.attempts, found.elapsed_ms) == (told.attempts, told.elapsed_ms)
        assert str(found).endswith(told.text)
        for shown, whole in ((found.row, told.row), (found.key, told.key)):
            assert shown == whole or (whole or "").startswith((shown or "?").removesuffix("…"))


@given(st.builds(report, text=TEXTS, message=TEXTS, operator=ODD, kind=ODD, row=ODD, key=ODD))
def test_what_programs_read_is_among_the_first_characters(told: Report) -> None:
    layout = told.layout()
    if len(layout) <= 1200:
        assert parse(layout) is not None
        return
    lines = layout.split("\n")
    assert len(lines[0]) + len(lines[1]) + 2 < 2048 - len(WORKER + TRACEBACK)
    cut = pb.failure_of(Told(layout[: len(lines[0]) + len(lines[1]) + 1]))
    assert cut is not None
    assert cut.condition == told.condition


@given(TEXTS)
def test_a_text_that_does_not_begin_as_ours_holds_none(text: str) -> None:
    for before in ("x", " ", "RuntimeError: ", WORKER + TRACEBACK + "RuntimeError: ", STREAM + "x"):
        assert pb.failure_of(Told(before + text)) is None


@given(TEXTS)
def test_reading_never_fails(text: str) -> None:
    assert isinstance(pb.failure_of(Told(text)), (pb.PillarboxError, type(None)))


LAYOUT = report().layout()


@pytest.mark.parametrize(
    "text",
    [
        LAYOUT,
        STREAM + LAYOUT + " SQLSTATE: XXKST\n=== Streaming Query ===",
        WORKER + TRACEBACK + "pillarbox.errors.CallFailed: " + LAYOUT,
        "[PYTHON_EXCEPTION] "
        + WORKER[:-1]
        + " "
        + TRACEBACK
        + "pillarbox.errors.CallFailed: "
        + LAYOUT,
        STREAM
        + "[PYTHON_EXCEPTION] "
        + WORKER
        + TRACEBACK
        + "pillarbox.errors.CallFailed: "
        + LAYOUT,
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        + LAYOUT,
        TRACEBACK + "pyspark.errors.exceptions.captured.PythonException: " + LAYOUT,
        "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent "
        "failure: Lost task 0.3 in stage 1.0 (TID 3) (host executor 1): "
        "org.apache.spark.sql.pillarbox.ReportedException: " + LAYOUT,
    ],
)
def test_what_spark_writes_before_is_skipped(text: str) -> None:
    found = pb.failure_of(Told(text))
    assert isinstance(found, pb.CallFailed)
    assert found.traceback == report().traceback
    assert str(found) == "[ASYNC_CALL_FAILED] async_io(f): It failed."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[ASYNC_CALL_FAILED] async_io(f): It failed.",
        TRACEBACK + "RuntimeError: " + LAYOUT,
        TRACEBACK + "RuntimeError: x\npillarbox.errors.CallFailed: " + LAYOUT,
        TRACEBACK + "KeyError: 1\n\nDuring handling\n\n" + TRACEBACK + "ValueError: " + LAYOUT,
        "[USER_RAISED_EXCEPTION] " + LAYOUT,
        LAYOUT.replace('"condition":"ASYNC', '"condition":"OTHER'),
        LAYOUT.replace('{"type"', '{"type'),
        LAYOUT.replace('"texts":[', '"texts":["a",'),
        LAYOUT.replace('"attempts":2', '"attempts":"2"'),
        LAYOUT.replace('"kind"', '"kinds"'),
    ],
)
def test_what_is_not_ours_or_broken_gives_none(text: str) -> None:
    assert pb.failure_of(Told(text)) is None
    assert pb.failure_of(Told(STREAM + text)) is None


def test_a_users_own_exception_is_never_read() -> None:
    assert pb.failure_of(RuntimeError(LAYOUT)) is None
    assert pb.failure_of(None) is None


def test_causes_are_looked_through_and_circles_end() -> None:
    inner, outer = Told(LAYOUT), RuntimeError("my job failed")
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
    found = pb.failure_of(Told(LAYOUT))
    copy = pickle.loads(pickle.dumps(found))
    assert (type(copy), str(copy), vars(copy)) == (pb.CallFailed, str(found), vars(found))


def test_an_error_of_a_newer_worker_is_a_pillarbox_error() -> None:
    found = pb.failure_of(Told(report(type="QuotaExceeded", condition="QUOTA_EXCEEDED").layout()))
    assert type(found) is pb.PillarboxError
    assert found.condition == "QUOTA_EXCEEDED"
    assert type(pb.failure_of(Told(report(type="shown").layout()))) is pb.PillarboxError


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
