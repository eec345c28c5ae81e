"""Calls that failed, in a task that did not: the first of a kind is told, rows are counted.

Calls without an answer for long are told of in the worker's log, which is the executor's.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

from .._base.failures import Failure
from .._base.values import row_text

_MOST_KINDS = 100
_LONGEST_MESSAGE, _LONGEST_TRACE = 1000, 4000  # characters

Tell = Callable[[str, int, str], None]
"""Takes a kind, a number of rows that have failed, and for 0 rows the text of the first failure."""


class FailedCalls:
    """The failed calls of one task of ``operator``, as messages name it. On one thread."""

    def __init__(self, operator: str, attempts: int, tell: Tell) -> None:
        self._operator, self._attempts, self._tell = operator, attempts, tell
        self._told: set[str] = set()
        self._noted: set[str] = set()
        self._rows: Counter[str] = Counter()

    def attempt(self, row: object, attempt: int, failure: Failure) -> None:
        """Take note of an attempt that failed."""
        kind = failure.kind
        if kind not in self._told and len(self._told) < _MOST_KINDS:
            self._told.add(kind)
            text = first_failure(
                self._operator,
                kind,
                attempt,
                self._attempts,
                row_text(row),
                failure.message,
                failure.traceback,
            )
            self._tell(kind, 0, text)

    def note(self, kind: str, text: str) -> None:
        """Tell what was wrong with a report of a call, once."""
        if kind not in self._noted and len(self._noted) < _MOST_KINDS:
            self._noted.add(kind)
            self._tell(kind, 0, f"{self._operator}: {text}")

    def row(self, row: object, attempt: int, failure: Failure) -> None:
        """Take note of a row that failed for good, in this attempt."""
        self.attempt(row, attempt, failure)
        self._rows[failure.kind] += 1

    def long(self, call_id: str, attempt: int, row: object, seconds: int, more: int) -> None:
        """Tell of the oldest of the calls that have come to last for a minute."""
        text = long_call(self._operator, call_id, attempt, row_text(row), seconds, more)
        print(f"Pillarbox: {text}", file=sys.stderr, flush=True)

    def publish(self) -> None:
        """Tell the numbers of rows since the last time."""
        rows, self._rows = self._rows, Counter()
        for kind, count in rows.items():
            self._tell(kind, count, "")


def first_failure(
    operator: str, kind: str, attempt: int, attempts: int, row: str, message: str, trace: str
) -> str:
    """Return the lines for the first failure of a kind; ``attempts`` are the most there may be.

    `FirstFailures.scala` makes the same; ``tests/golden/first_failures.json`` has cases for both.
    """
    told = message.removeprefix(f"[{kind}] ")
    if len(told) > _LONGEST_MESSAGE:
        told = told[:_LONGEST_MESSAGE] + "…"
    lines = trace.rstrip("\n")
    if len(lines) > _LONGEST_TRACE:  # the end has the place of the failure
        lines = "…" + lines[-_LONGEST_TRACE:]
    place = f"in attempt {attempt} of {attempts}" if attempt else "before an attempt"
    head = f"{operator}: the first {kind} came {place}, for the row ({row}): {told}"
    return f"{head}\n{lines}" if lines else head


def long_call(operator: str, id: str, attempt: int, row: str, seconds: int, more: int) -> str:
    """Return the line for calls without an answer for long: the oldest one's, and ``more`` others.

    `AsyncStep.scala` makes the same; ``tests/golden/long_calls.json`` has cases for both.
    """
    others = f"; {more} more have none for a minute" if more else ""
    call = f"the call {id}, attempt {attempt} for the row ({row}),"
    return f"{operator}: {call} has no answer for {seconds} s{others}"
