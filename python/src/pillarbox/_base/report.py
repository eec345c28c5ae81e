"""The failure of a task as data, and as the text of the error that people read.

The text has a line that says what failed and what to do, then as a whole what is shortened in it,
then the traceback. `FailureReport.scala` has the same text and the same JSON, and
``tests/golden/failures.json`` cases for both. ``_driver/failure_text.py`` reads the text where
nothing else comes through.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from ..errors import CATALOGUE, EXITS, PillarboxError, error
from .failures import LONGEST_MESSAGE, Failure, exit_error, kind_of, message_of, users_traceback

_HEAD, _NAME = 400, 100  # the longest of each, in characters
_MESSAGE = 125  # the least of a message that makes it worth shortening it alone
_OPTIONAL = {"key": str, "row": str, "timer": str, "attempts": int, "elapsed_ms": int}

# These errors only add to another error of Pillarbox where it came from.
_WRAPPERS = {"KEYED_CALL_FAILED", "KEYED_OPEN_FAILED"}


@dataclass(frozen=True)
class Report:
    """The failure of a task.

    ``type`` is the class of the error; ``text`` its message and remedy, without the condition.
    ``kind``, ``message`` and ``traceback`` are those of the user's exception, or of ours without
    one.
    """

    type: str
    condition: str
    text: str
    operator: str
    kind: str
    message: str
    traceback: str = ""
    key: str | None = None
    row: str | None = None
    timer: str | None = None
    attempts: int | None = None
    elapsed_ms: int | None = None

    def told(self) -> str:
        """Return the text of the error."""
        head, whole = cut(one_line(self.text), _HEAD), ""
        if head != self.text:
            short = self._shortened()
            head, whole = (short, self.message.rstrip("\n")) if short else (head, self.text)
        traceback = self.traceback.rstrip("\n")
        operator = cut(one_line(self.operator), _NAME)
        top = f"[{self.condition}] {operator}: {head}" if operator else f"[{self.condition}] {head}"
        behind = ("" if whole in traceback else whole, traceback)
        return "\n\n".join((top, *filter(None, behind)))

    def _shortened(self) -> str | None:
        """Return the text in one line, shortened in the message alone: so the remedy is in it."""
        at = self.text.find(self.message) if self.message else -1
        before, behind = self.text[: max(at, 0)], self.text[at + len(self.message) :]
        room = _HEAD - len(before + behind)
        if at < 0 or room < _MESSAGE or one_line(before + behind) != before + behind:
            return None
        return before + cut(one_line(self.message), room) + behind

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of_json(text: str) -> Report:
        return Report(**json.loads(text))

    def to_error(self) -> PillarboxError:
        return PillarboxError._reported(self.type, self.__dict__)

    def to_raise(self) -> PillarboxError:
        """Return the error with what people read as its text, for Spark to pass on."""
        return PillarboxError._reported(self.type, self.__dict__, self.told())


def told_as(problem: PillarboxError, report: Report) -> PillarboxError:
    """Give ``problem`` the text and the attributes of its ``report``, and return it."""
    told = report.to_error()
    problem.args = told.args
    problem.__dict__.update({**told.__dict__, "parameters": problem.parameters})
    return problem


class Reported(Exception):
    """The task fails with ``report``."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"[{report.condition}] {report.text}")
        self.report = report


def report_of(problem: BaseException, operator: str = "") -> Report:
    """Return the report of ``problem``, which ends a task."""
    told = problem
    if isinstance(problem, EXITS):
        told = exit_error(problem)
    elif not isinstance(problem, PillarboxError):
        reason = message_of(problem).removesuffix(".")
        told = error("PYTHON_WORKER_FAILED", kind=kind_of(problem), reason=reason)
    assert isinstance(told, PillarboxError)
    cause = told.__cause__
    given = told.parameters
    ours = isinstance(cause, PillarboxError) and told.condition in _WRAPPERS
    named = cause if ours and isinstance(cause, PillarboxError) else told
    text = _text_of(named)
    if named is not told and "event" in given:
        text = f"{text} It came for the key {given['key']} in {given['event']}."
    raised = problem if told is not problem else cause
    if named is told and raised is not None:
        kind, message = kind_of(raised), message_of(raised)
    else:
        kind, message = named.condition, _text_of(named)
    return Report(
        type=CATALOGUE[named.condition]["type"],
        condition=named.condition,
        text=text,
        operator=operator,
        kind=kind,
        message=message,
        traceback=named.traceback or users_traceback(problem),
        **{name: given[name] for name, kind in _OPTIONAL.items() if type(given.get(name)) is kind},
    )


def report_of_call(
    failure: Failure, operator: str, row: str, attempts: int, elapsed_ms: int
) -> Report:
    """Return the report of a call that fails its task under on_error="raise"."""
    condition = failure.kind if failure.kind in CATALOGUE else "ASYNC_CALL_FAILED"
    message = failure.message.removeprefix(f"[{condition}] ")
    if condition == failure.kind:
        text = f"{message} It came for the row ({row})."
    else:
        told = error(
            condition,
            attempts="1 attempt" if attempts == 1 else f"{attempts} attempts",
            elapsed_ms=elapsed_ms,
            row=row,
            kind=failure.kind,
            reason=message.removesuffix("."),
        )
        text = _text_of(told)
    return Report(
        type=CATALOGUE[condition]["type"],
        condition=condition,
        text=text,
        operator=operator,
        kind=failure.kind,
        message=message,
        traceback=failure.traceback,
        row=row,
        attempts=attempts,
        elapsed_ms=elapsed_ms,
    )


def _text_of(problem: PillarboxError) -> str:
    """Return the text, which has room for a message that is as long as can be."""
    return message_of(problem, 2 * LONGEST_MESSAGE).removeprefix(f"[{problem.condition}] ")


def one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
