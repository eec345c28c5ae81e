"""Reads the report of a failure from the error's text, where the driver keeps no report.

That is so with ``engine="python"``, whose errors come through Spark's own workers, and for errors
that the driver no longer keeps. What the text doesn't tell is None; ``kind`` and ``message`` are
then the condition and its text.
"""

from __future__ import annotations

import re
from functools import cache
from string import Formatter

from .._base.report import Report, one_line
from .._base.values import LONGEST_ROW
from ..errors import CATALOGUE

_HEAD = re.compile(
    r"\[(?P<condition>[A-Z][A-Z0-9_]*)\] "
    r"(?:(?P<operator>(?:async_io|async_udf|process_keyed)\([^\n]*?[)…]): )?(?P<line>[^\n]*)"
)
# Spark writes these behind the text of an error.
_APPENDED = re.compile(
    r"\n\nJVM stacktrace:\n|\n=== Streaming Query ===\n|\n\tat org\.apache\.spark\."
)
_SQLSTATE = re.compile(r"(?:\s?SQLSTATE: \w{5})+\Z")
_TRACEBACK = "Traceback (most recent call last):\n"
_SHORTENED = 100  # what has fewer characters is never shortened

# Values as Python shows them: what could be taken for our own words is within quotes, unless they
# are cut.
_VALUES = r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^'"]){0,200}?"""
_KEY, _ROW = rf".{{99}}…|{_VALUES}(?<!…)", rf".{{{LONGEST_ROW - 1}}}…|{_VALUES}(?<!…)"
_PARTS = {
    "attempts": r"\d+ attempts?",
    "elapsed_ms": r"\d+",
    "event": rf"process\((?:{_ROW})\)|{_VALUES}",
    "hint": r"(?: ctx\..*)?",
    "key": _KEY,
    "kind": ".{1,100}?",
    "row": _ROW,
}
_OURS = re.compile(
    r"(?P<reason>.*) It came for the "
    rf"(?:row \((?P<row>{_ROW})\)|key (?P<key>{_KEY}) in (?P<event>{_PARTS['event']}))\.",
    re.DOTALL,
)


def read(text: str) -> Report | None:
    """Return the report of the error with this text; None if it doesn't begin as one of ours."""
    own = _SQLSTATE.sub("", _APPENDED.split(text, maxsplit=1)[0].rstrip()).rstrip()
    head = _HEAD.match(own)
    if head is None or not (head["operator"] or _is_ours(head["condition"], head["line"])):
        return None
    condition, behind = head["condition"], own[head.end() :].removeprefix("\n\n")
    remedy = CATALOGUE.get(condition, {}).get("remedy", "")
    told, behind = _whole(head["line"], behind, remedy.rpartition("}")[2])
    found = _OURS.fullmatch(told) or _template(condition).fullmatch(told)
    given = found.groupdict() if found is not None else {}
    kind, message = given.get("kind") or condition, told
    if found is not None:
        start, end = found.span("reason")
        message, behind = _whole(found["reason"], behind)
        message = _raised(f"{kind}: ", message, behind)
        if message != found["reason"]:
            shown = message.removesuffix(".") if told.startswith(".", end) else message
            told = told[:start] + shown + told[end:]
    else:
        told = message = _raised(f"[{condition}] ", told, behind)
    return Report(
        type=CATALOGUE.get(condition, {}).get("type", "PillarboxError"),
        condition=condition,
        text=told,
        operator=head["operator"] or "",
        kind=kind,
        message=message,
        traceback=behind,
        key=given.get("key"),
        row=given.get("row") or _within("process(", given.get("event")),
        timer=_within("on_timer(", given.get("event")),
        attempts=int(given["attempts"].split()[0]) if "attempts" in given else None,
        elapsed_ms=int(given["elapsed_ms"]) if "elapsed_ms" in given else None,
    )


def _is_ours(condition: str, line: str) -> bool:
    """Return True if a line has the words of the condition: PySpark has some of the same name."""
    parts = Formatter().parse(CATALOGUE.get(condition, {}).get("message", ""))
    words = next((literal for literal, *_ in parts if literal), None)
    return words is not None and words in line


@cache
def _template(condition: str) -> re.Pattern[str]:
    """Return what the texts of a condition match that tell the exception which was raised."""
    words = CATALOGUE.get(condition, {"type": "", "message": "", "remedy": ""})
    before, _, behind = f"{words['message']} {words['remedy']}".partition("{reason}")
    if words["type"] not in ("CallFailed", "WorkerFailed") or "{kind}" not in before:
        return re.compile(r"(?!)")
    dot = r"\.?" if behind.startswith(".") else ""  # a reason that is cut may have it within
    end = dot + _filled(behind.removeprefix("."))
    return re.compile(f"{_filled(before)}(?P<reason>.*?)(?:{end})?", re.DOTALL)


def _filled(template: str) -> str:
    return "".join(
        re.escape(literal) + (f"(?P<{name}>{_PARTS.get(name, '.*?')})" if name else "")
        for literal, name, _, _ in Formatter().parse(template)
    )


def _whole(short: str, behind: str, end: str = "") -> tuple[str, str]:
    """Return what ``short`` is the line of, if ``behind`` begins with it, and the rest.

    ``end`` is how it ends, if that is known.
    """
    start = _start(short)
    if not start or one_line(behind[: len(start)]).rstrip() != start.rstrip():
        return short, behind
    if len(start) == len(short):
        whole = behind[: len(short)] + _dots(behind, len(short))
    else:
        at = behind.find(f"{end}\n\n") if end else -1
        whole = behind[: at + len(end)] if at >= 0 else behind.partition(f"\n\n{_TRACEBACK}")[0]
    rest = behind[len(whole) :]
    return (whole, rest[2:]) if rest[:2] in ("", "\n\n") else (short, behind)


def _raised(prefix: str, short: str, traceback: str) -> str:
    """Return the message that ``short`` is the line of, from where the traceback ends with it.

    There it stands behind ``prefix``.
    """
    start = _start(short)
    name = one_line(traceback).rfind(f"{prefix}{start}")
    at = name + len(prefix)
    if name < 0 or not start:
        return short
    if len(start) == len(short):
        return traceback[at : at + len(start)] + _dots(traceback, at + len(start))
    line = (
        traceback[:name].rpartition("\n")[2].removesuffix(": ")
    )  # the exception's module, where it is the last line
    return traceback[at:] if traceback.startswith(_TRACEBACK) and " " not in line else short


def _start(short: str) -> str:
    line = one_line(short)
    return line[:-1] if line.endswith("…") and len(line) >= _SHORTENED else line


def _dots(text: str, at: int) -> str:
    """Return the full stops at the end of a message, which a text has in its own stead."""
    return text[at : len(text) - len(text[at:].lstrip("."))]


def _within(name: str, event: str | None) -> str | None:
    """Return the row of "process(Row(…))", or the timer of "on_timer(7) in event time"."""
    if event is None or not event.startswith(name):
        return None
    inside = event.removeprefix(name)
    if name == "on_timer(":
        return inside.replace(")", "", 1)
    inside = inside.removesuffix(")")
    return inside.removeprefix("Row(").removesuffix(")") if inside.startswith("Row(") else inside
