"""The failure of a task as data, and as the text of the error that Spark raises.

The text has a head for readers, the full texts that are cut in it, the traceback, and a line of
JSON for programs, which refers to the head and the traceback for what these say already.
`FailureReport.scala` writes the same; ``tests/golden/failures.json`` has cases for both. In a long
text the line stands behind the head, and it is bounded, as Spark Connect may cut a message at 2,048
characters.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import Any

from ..errors import CATALOGUE, EXITS, PillarboxError, error
from .failures import Failure, exit_error, kind_of, message_of, users_traceback

_HEAD, _MESSAGE, _VALUE, _NAME = 400, 250, 200, 100  # the longest of each, in characters of JSON
_WHOLE = 1200  # the longest text whose line for programs stands behind what people read
_MARK = "pillarbox-failure "
_FIRST = re.compile(r"\[([A-Z][A-Z0-9_]*)\] ([^\n]*)\n")
_LAST = re.compile(rf"\n\n{_MARK}(?=\{{)")
_OPTIONAL = {"key": str, "row": str, "timer": str, "attempts": int, "elapsed_ms": int}
_TWO = frozenset('"\\\n\r\t\b\f')

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

    def layout(self) -> str:
        """Return the text, from which ``parse`` makes an equal report."""
        head, message = _cut(_one_line(self.text), _HEAD), _cut(self.message, _MESSAGE)
        at, traceback = head.find(self.message), self.traceback.rstrip("\n")
        full = "" if head == self.text else self.text
        whole = "" if message == self.message or at >= 0 else self.message
        shortened = self._shortened() if full else None
        if shortened is not None:
            head, at, length = shortened
            full, whole = "", "" if self.message in traceback else self.message
        else:
            length = len(self.message)
        texts = [full, whole, traceback]
        operator = _cut(_one_line(self.operator), _NAME)
        line: dict[str, Any] = {
            "type": self.type,
            "condition": self.condition,
            "operator": operator,
        }
        for name, kind in _OPTIONAL.items():
            value = getattr(self, name)
            if value is not None:
                line[name] = _cut(value, _VALUE) if kind is str else value
        part = message if at < 0 else [at, length]  # of the head
        line |= {"kind": _cut(self.kind, _NAME), "message": part, "texts": [*map(len, texts)]}
        if shortened is not None and not whole:
            line["whole"] = [traceback.rfind(self.message), len(self.message)]
        place = f"{operator}: " if operator else ""
        top = f"[{self.condition}] {place}{head}"
        told = _MARK + json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        behind = "".join(f"\n\n{text}" for text in texts if text)
        if behind and len(top) + len(behind) + len(told) <= _WHOLE:
            return f"{top}{behind}\n\n{told}"
        return f"{top}\n{told}{behind}"

    def _shortened(self) -> tuple[str, int, int] | None:
        """Return a head that shortens only the message in it, the message's place and length.

        So the remedy is in the head, and the whole message stands in the text once.
        """
        at = self.text.find(self.message) if self.message else -1
        before, behind = self.text[: max(at, 0)], self.text[at + len(self.message) :]
        room = _HEAD - _cost(before + behind)
        if at < 0 or room < _MESSAGE // 2 or _one_line(before + behind) != before + behind:
            return None
        short = _cut(_one_line(self.message), room)
        return before + short + behind, at, len(short)

    def to_json(self) -> str:
        """Return the report without the operator, which the JVM knows."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        del told["operator"]
        return json.dumps(told)

    def to_error(self) -> PillarboxError:
        return PillarboxError._reported(self.type, self.__dict__)

    def to_raise(self) -> PillarboxError:
        """Return the error with the whole layout as its text, for Spark to pass on."""
        return PillarboxError._reported(self.type, self.__dict__, self.layout())


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


def parse(text: str, start: int = 0) -> Report | None:
    """Return the report whose text begins at ``start``; None if none does."""
    top = _FIRST.match(text, start)
    if top is None:
        return None
    if text.startswith(_MARK + "{", top.end()):
        return _report(text, top, top.end() + len(_MARK), None)
    lines = _LAST.finditer(text, top.end(2), top.end(2) + _WHOLE)
    found = (_report(text, top, line.end(), line.start()) for line in lines)
    return next(filter(None, found), None)


def _report(text: str, top: re.Match[str], at: int, ends: int | None) -> Report | None:
    """Return the report of the line ``at``; the texts end at ``ends``, or stand behind the line."""
    try:
        # Spark may append the SQLSTATE of its own error directly to the line.
        line, end = json.JSONDecoder().raw_decode(text, at)
        (full, message, traceback), last = _texts(
            text, end if ends is None else top.end(2), line["texts"]
        )
        if line["condition"] != top[1] or ends not in (None, last):
            return None
        place = f"{line['operator']}: " if line["operator"] else ""
        head = top[2].removeprefix(place)
        told, place = _message(line["message"], head), line["message"]
        if "whole" in line:
            start, length = (_checked(one, int) for one in line["whole"])
            message = traceback[start : start + length]
            message = message if len(message) == length else ""  # it was cut
        if message and isinstance(place, list):  # the head has it shortened
            full = head[: place[0]] + message + head[sum(place) :]
        return Report(
            **{
                name: _checked(line[name], str)
                for name in ("type", "condition", "operator", "kind")
            },
            text=full or head,
            message=message or told,
            traceback=traceback,
            **{name: _checked(line[name], _OPTIONAL[name]) for name in _OPTIONAL if name in line},
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None  # a text that only looks like a report


def _message(told: Any, head: str) -> str:
    if isinstance(told, list):
        at, length = (_checked(one, int) for one in told)
        return head[at : at + length]
    return str(_checked(told, str))


def _texts(text: str, at: int, sizes: list[int]) -> tuple[list[str], int]:
    """Return the texts from ``at`` on and their end, shortened where the message was cut."""
    if len(sizes) != 3:
        raise ValueError(sizes)
    found = []
    for size in sizes:
        at += 2 if size else 0
        found.append(text[at : at + _checked(size, int)])
        at += size
    return found, at


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


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
    return message_of(problem).removeprefix(f"[{problem.condition}] ")


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def _cost(text: str) -> int:
    """Return the length of ``text`` in JSON."""
    return sum(map(_cost_of, text))


def _cost_of(character: str) -> int:
    return 2 if character in _TWO else 6 if character < " " else 1


def _cut(text: str, limit: int) -> str:
    """Cut ``text`` to ``limit`` characters of JSON."""
    cost = end = 0
    for at, character in enumerate(text):
        cost += _cost_of(character)
        if cost < limit:
            end = at + 1
        if cost > limit:
            return text[:end] + "…"
    return text
