"""A failed attempt as data: what travels to the operator instead of an exception object.

An exception is a user's object, whose methods may raise anything themselves. Nothing of that comes
out of here, but for SystemExit and KeyboardInterrupt of a predicate, which end the worker.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import math
import os
import threading
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import dropwhile
from types import CodeType
from typing import Any

from .errors import EXITS, PillarboxError, error, shown
from .retry import Retry, RetryAfter

# The kinds of failures that are no exceptions. A refused result is always tried again.
TIMEOUT, RESULT_REFUSED = "TIMEOUT", "RESULT_REFUSED"

LONGEST_MESSAGE, LONGEST_TRACEBACK = 10_000, 30_000  # characters


@dataclass(frozen=True)
class Failure:
    """Why an attempt failed.

    ``kind`` is the exception's class name, TIMEOUT, RESULT_REFUSED or a name of ``errors.json``;
    ``traceback`` shows the user's frames only; ``retry_after_ms`` is -1 where the function asked
    for no delay of its own. ``on_result`` marks an answer that ``retry_if_result`` refused. The
    texts are valid Unicode of bounded length.
    """

    kind: str
    message: str
    traceback: str = ""
    retryable: bool = False
    on_result: bool = False
    retry_after_ms: int = -1


def _folder(code: CodeType) -> str:
    return os.path.join(os.path.dirname(code.co_filename), "")


# Taken from code objects, since in a zip or jar there is no __file__ to rely on.
_HIDDEN_FOLDERS = (
    _folder(_folder.__code__),
    _folder(asyncio.sleep.__code__),
    _folder(concurrent.futures.thread.ThreadPoolExecutor.submit.__code__),
)
_HIDDEN_FILES = {threading.Thread.run.__code__.co_filename}


def _is_users(frame: traceback.FrameSummary) -> bool:
    return not frame.filename.startswith(_HIDDEN_FOLDERS) and frame.filename not in _HIDDEN_FILES


def users_frames(frames: Iterable[traceback.FrameSummary]) -> traceback.StackSummary:
    """The frames without Pillarbox's and asyncio's own; all of them if none would be left."""
    all_frames = list(frames)
    kept = [frame for frame in all_frames if _is_users(frame)]
    return traceback.StackSummary.from_list(kept or all_frames)


def called_frames(frames: Iterable[traceback.FrameSummary]) -> traceback.StackSummary:
    """The user's frames out of a thread's whole stack, without those that led to the loop."""
    return users_frames(dropwhile(_is_users, frames))


def users_traceback(problem: BaseException) -> str:
    """The traceback of ``problem`` and its causes, without frames of Pillarbox and asyncio.

    Empty for an error that Pillarbox found in what the user's code had already returned. Long ones
    are cut in the middle.
    """
    try:
        return _clean(_formatted(problem), LONGEST_TRACEBACK)
    except BaseException as broken:
        return f"(no traceback, since formatting it failed with {kind_of(broken)})\n"


def _formatted(problem: BaseException) -> str:
    summary = traceback.TracebackException.from_exception(problem)
    if isinstance(problem, PillarboxError) and not any(map(_is_users, summary.stack)):
        # Found by Pillarbox itself: the message says it all, but for what it was found by.
        return _formatted(problem.__cause__) if problem.__cause__ else ""
    current: traceback.TracebackException | None = summary
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.stack = users_frames(current.stack)
        current = current.__cause__ or current.__context__
    return "".join(summary.format())


def describe(problem: BaseException, retry: Retry | None) -> Failure:
    """What ``problem``, raised by a function, means under ``retry``.

    If ``retry_on`` itself raises, that is the failure, with ``problem`` as its cause; it is not
    retried.
    """
    try:
        if isinstance(problem, RetryAfter):
            return _asked_for_delay(problem, retry)
        return _failure(problem, _is_retryable(problem, retry))
    except EXITS:
        raise
    except BaseException as broken:
        if broken is not problem:
            broken.__cause__ = problem
        return _failure(broken, False)


def final_failure(problem: BaseException) -> Failure:
    """``problem`` as a failure that no further attempt can cure."""
    return _failure(problem, False)


def _failure(problem: BaseException, retryable: bool) -> Failure:
    return Failure(kind_of(problem), message_of(problem), users_traceback(problem), retryable)


def exit_error(problem: BaseException) -> PillarboxError:
    """FUNCTION_EXITED for a SystemExit or KeyboardInterrupt out of user code."""
    code = problem.code if isinstance(problem, SystemExit) else message_of(problem)
    reason = str(code) if isinstance(code, (str, int, type(None))) else shown(code)
    return error("FUNCTION_EXITED", kind=type(problem).__name__, reason=reason)


def refused_result(shown_result: str) -> Failure:
    """An answer that ``retry_if_result`` did not accept."""
    message = f"retry_if_result refused the result {shown_result}"
    return Failure(RESULT_REFUSED, message, retryable=True, on_result=True)


def timed_out(message: str) -> Failure:
    """A deadline that has passed without an answer."""
    return Failure(TIMEOUT, message, retryable=True)


def kind_of(problem: BaseException) -> str:
    """A name of ``errors.json``, or the exception's class name."""
    try:
        return problem.name if isinstance(problem, PillarboxError) else type(problem).__name__
    except BaseException:
        return "Exception"


def message_of(problem: BaseException) -> str:
    """``str(problem)``, or its class where that is empty or fails. Long ones are cut."""
    try:
        text = str(problem)
    except BaseException as broken:
        return f"{kind_of(problem)} (its __str__ raised {kind_of(broken)})"
    return _clean(text, LONGEST_MESSAGE) or kind_of(problem)


def _clean(text: str, longest: int) -> str:
    """At most about ``longest`` characters of ``text``, without what is no Unicode."""
    text = "".join((text,))  # a class derived from str may have methods of its own
    if len(text) > longest:
        end = longest // 4
        left_out = f" […{len(text) - longest:,} characters are left out…] "
        text = text[: longest - end] + left_out + text[-end:]
    return text.encode("utf-8", "backslashreplace").decode()


def _asked_for_delay(problem: RetryAfter, retry: Retry | None) -> Failure:
    if retry is None:
        refusal = error("RETRY_AFTER_WITHOUT_RETRY", seconds=problem.seconds)
        return Failure(refusal.name, message_of(refusal), users_traceback(problem))
    delay = min(math.ceil(problem.seconds * 1000), 2**62) if problem.seconds < 1e15 else 2**62
    return Failure(
        "RetryAfter", message_of(problem), users_traceback(problem), True, retry_after_ms=delay
    )


def _is_retryable(problem: BaseException, retry: Retry | None) -> bool:
    if isinstance(problem, PillarboxError):
        return False
    retry_on: Any = Exception if retry is None else retry.retry_on
    if isinstance(retry_on, (type, tuple)):
        return isinstance(problem, retry_on)
    return bool(retry_on(problem))
