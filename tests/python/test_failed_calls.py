"""The first failures of a task, without Spark."""

from __future__ import annotations

import copy
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pillarbox._async.failed_calls import FailedCalls, first_failure, long_call
from pillarbox._base.failures import Failure
from pillarbox._driver.told import Logged

pytestmark = pytest.mark.quick
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    "case", json.loads((GOLDEN / "first_failures.json").read_text()), ids=lambda case: case["about"]
)
def test_the_text_is_that_of_the_golden_file(case: dict[str, Any]) -> None:
    expected, _ = case.pop("text"), case.pop("about")
    assert first_failure(**case) == expected


@pytest.mark.parametrize("case", json.loads((GOLDEN / "long_calls.json").read_text()))
def test_the_line_for_calls_without_an_answer_is_that_of_the_golden_file(
    case: dict[str, Any],
) -> None:
    expected = case.pop("line")
    assert long_call(**case) == expected


def test_each_kind_is_told_once_and_rows_are_counted() -> None:
    told: list[tuple[str, int, str]] = []
    calls = FailedCalls("async_io(x)", 2, lambda *note: told.append(note))
    busy, wrong = Failure("Busy", "later", retryable=True), Failure("ValueError", "bad")
    calls.attempt("a", 1, busy)
    calls.row("a", 2, busy)
    calls.row("b", 1, wrong)
    calls.row("c", 1, wrong)
    assert [(kind, rows) for kind, rows, _ in told] == [("Busy", 0), ("ValueError", 0)]
    assert (
        told[0][2] == "async_io(x): the first Busy came in attempt 1 of 2, for the row ('a'): later"
    )
    told.clear()
    for expected in ([("Busy", 1, ""), ("ValueError", 2, "")], []):
        calls.publish()
        assert told == expected
        told.clear()


def test_the_driver_logs_once_for_an_operator_and_kind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pillarbox")
    logged = Logged()
    for line in [("a", "E", "first"), ("a", "E", "again"), ("b", "E", "other"), "of the JVM"]:
        assert logged.addInPlace([], [line]) == []
    assert [r.getMessage() for r in caplog.records] == ["first", "other", "of the JVM"]


def test_the_drivers_accumulator_logs_on_after_a_worker_in_its_process_has_reset_it() -> None:
    param = Logged()
    assert copy.deepcopy(param) is param
