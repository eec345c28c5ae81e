"""``limit_from``: what a service's answer says of its limits, in the headers of large providers.

Read are those of OpenAI (``x-ratelimit-remaining-tokens``), of Anthropic
(``anthropic-ratelimit-tokens-remaining``), of GitHub and others (``x-ratelimit-remaining``), of the
drafts of the IETF (``ratelimit-remaining``; ``ratelimit: limit=9, remaining=1, reset=5``;
``ratelimit: "default";r=1;t=5``), and ``retry-after``.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from .._base.failures import message_of
from ..errors import InvalidOption, error, shown
from ..retry import seconds_of
from .calls import CURRENT, OF_CALLS, PAUSE, Feedback, RunningCall

_NAME = re.compile(
    r"(?:x-ratelimit|anthropic-ratelimit|ratelimit)-(?:(?P<what>remaining|reset)(?:-(?P<of>[a-z-]+))?"
    r"|(?P<of_first>[a-z-]+)-(?P<what_last>remaining|reset))"
)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s|d)")
_PART_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DRAFT = re.compile(r"\b(r|t|remaining|reset)=(\d+)")
# Numbers as large as these are a time, not a delay.
_EPOCH_S, _EPOCH_MS = 1_000_000_000, 100_000_000_000
_MOST_RESET_S = 86_400


def limit_from(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
    """Let the limits of the current call go by the headers of its answer.

    ``pb.limit_from(answer.headers)`` is all, for each answer or for those with the status 429. What
    the service says is left of calls and of the operator's units is what its limits let begin,
    until the time when the service says that all of it is there again; if that is more than they
    know of, nothing changes. A ``retry-after`` lets all of its limits wait. It reads the headers
    ``x-ratelimit-*``, ``anthropic-ratelimit-*``, ``ratelimit-*``, ``ratelimit`` and
    ``retry-after``; requests are calls, tokens the unit "tokens", input-tokens "input_tokens". What
    has no meaning is left out. All that share the limit hear of it.

    May be called in any coroutine or thread of the call, before it ends. Raises
    :class:`NoCurrentCall` outside a call. What is no headers, and a reset in more than a day, which
    counts as none, fail no call: a warning of the driver says so once.
    """
    running = CURRENT.get(None)
    if running is None:
        raise error("NO_CALL", function="limit_from")
    try:
        pairs: Any = headers.items() if hasattr(headers, "items") else headers
        found = {str(name).lower(): str(value) for name, value in pairs}
    except Exception:  # they are code of others, and fail no call
        found = {}
        _note(running, "headers by name, such as answer.headers", shown(headers))
    for told in told_by(found, running.site.units):
        if told.unit != PAUSE and _MOST_RESET_S < told.reset_s < math.inf:
            _note(running, "a reset within a day", f"one in {told.reset_s:.10g} s")
            told = replace(told, reset_s=math.inf)
        if running.site.told is not None:
            running.site.told(running, told)


def _note(running: RunningCall, expected: str, value: str) -> None:
    problem = error("INVALID_LIMIT_HEADERS", expected=expected, value=value)
    running.note(f"INVALID_LIMIT_HEADERS {expected}", message_of(problem))


def told_by(headers: Mapping[str, str], units: Iterable[str]) -> list[Feedback]:
    """Return what headers, by their names in small letters, say of calls and of the units."""
    left: dict[str, float] = {}
    reset: dict[str, float] = {}
    for name, text in headers.items():
        matched = _NAME.fullmatch(name)
        if matched is not None:
            of = matched["of"] or matched["of_first"] or "requests"
            what = matched["what"] or matched["what_last"]
            value = _amount(text) if what == "remaining" else _delay_s(text)
            if value is not None:
                (left if what == "remaining" else reset)[of] = value
    for what, number in _DRAFT.findall(headers.get("ratelimit", "")):
        value = _amount(number)
        if value is not None:
            (left if what in ("r", "remaining") else reset).setdefault("requests", value)
    places = {unit.replace("_", "-"): place for place, unit in enumerate(units)}
    places["requests"] = OF_CALLS
    told = [
        Feedback(places[of], amount, reset.get(of, math.inf))
        for of, amount in left.items()
        if of in places
    ]
    pause = _retry_after_s(headers)
    return told if pause is None else [*told, Feedback(PAUSE, 0.0, pause)]


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    ms = _amount(headers.get("retry-after-ms", ""))
    try:
        return seconds_of(headers["retry-after"]) if ms is None else ms / 1000
    except (KeyError, InvalidOption):
        return None


def _amount(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _delay_s(text: str) -> float | None:
    """Return the seconds until a reset: "6m0s", "20ms", seconds, or a time."""
    text = text.strip()
    number = _amount(text)
    if number is not None:
        at_s = number / 1000 if number >= _EPOCH_MS else number
        return number if number < _EPOCH_S else max(at_s - time.time(), 0.0)
    parts = _PART.findall(text)
    if parts and "".join(map("".join, parts)) == text:
        return float(sum(float(value) * _PART_S[unit] for value, unit in parts))
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        at = at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at
        return max((at - datetime.now(timezone.utc)).total_seconds(), 0.0)
    except ValueError:
        pass
    try:
        return seconds_of(text)
    except InvalidOption:
        return None
