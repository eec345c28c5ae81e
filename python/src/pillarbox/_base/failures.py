"""Failures as data, which travel to the operator instead of exception objects.

The methods of a user's exception may raise anything. This module catches all of it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import os
import threading
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import dropwhile
from types import CodeType

from ..errors import PillarboxError, error, shown

LONGEST_MESSAGE, LONGEST_TRACEBACK = 10_000, 30_000  # characters


@dataclass(frozen=True)
class Failure:
    """The reason why an attempt of a call failed, or can't be made at all.

    ``kind`` is the exception's class name, TIMEOUT, RESULT_REFUSED or a name of ``errors.json``;
    ``traceback`` shows the user's frames only; ``retry_after_ms`` is -1 where the function asked
    for no delay of its own. ``overload`` marks a status by which the service says that it is
    overloaded, ``pauses_limit`` a delay for all calls under the operator's limits, ``ends_ticket``
    the end of the call's ticket. The texts are valid Unicode of bounded length.
    """

    kind: str
    message: str
    traceback: str = ""
    retryable: bool = False
    retry_after_ms: int = -1
    overload: bool = False
    pauses_limit: bool = False
    ends_ticket: bool = False


class Told(Exception):
    """A failure that Pillarbox itself has found; its message suffices without a traceback."""


def _folder(code: CodeType) -> str:
    return os.path.join(os.path.dirname(code.co_filename), "")


# The folders come from code objects, since modules in a zip or jar have no reliable __file__.
_HIDDEN_FOLDERS = (
    _folder(error.__code__),
    _folder(asyncio.sleep.__code__),
    _folder(concurrent.futures.thread.ThreadPoolExecutor.submit.__code__),
)
_HIDDEN_FILES = {threading.Thread.run.__code__.co_filename}


def _is_users(frame: traceback.FrameSummary) -> bool:
    return not frame.filename.startswith(_HIDDEN_FOLDERS) and frame.filename not in _HIDDEN_FILES


def users_frames(frames: Iterable[traceback.FrameSummary]) -> traceback.StackSummary:
    """Return the frames without Pillarbox's and asyncio's; all of them if none would be left."""
    all_frames = list(frames)
    kept = [frame for frame in all_frames if _is_users(frame)]
    return traceback.StackSummary.from_list(kept or all_frames)


def called_frames(frames: Iterable[traceback.FrameSummary]) -> traceback.StackSummary:
    """Return the user's frames of a thread's stack that are above the event loop."""
    return users_frames(dropwhile(_is_users, frames))


def users_traceback(problem: BaseException) -> str:
    """Return the traceback of ``problem`` and its causes, without frames of Pillarbox and asyncio.

    It is empty for an error that Pillarbox found in an answer of the user's code. A long one is cut
    in the middle.
    """
    try:
        return _clean(_with_told_message(_formatted(problem), problem), LONGEST_TRACEBACK)
    except BaseException as broken:
        return f"(no traceback, since formatting it failed with {kind_of(broken)})\n"


def _with_told_message(text: str, problem: BaseException) -> str:
    """Return a traceback in which the message is cut as ``message_of`` does."""
    try:
        message = str(problem)
    except BaseException:  # the traceback says so
        return text
    return text.replace(message, message_of(problem)) if len(message) > LONGEST_MESSAGE else text


def _formatted(problem: BaseException) -> str:
    summary = traceback.TracebackException.from_exception(problem)
    if isinstance(problem, (PillarboxError, Told)) and not any(map(_is_users, summary.stack)):
        # Pillarbox found it, so the message suffices, except for the user's error that caused it.
        return _formatted(problem.__cause__) if problem.__cause__ else ""
    current: traceback.TracebackException | None = summary
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.stack = users_frames(current.stack)
        current = current.__cause__ or current.__context__
    return "".join(summary.format())


def final_failure(problem: BaseException) -> Failure:
    """Return ``problem`` as a failure that is not retried."""
    return failure(problem, False)


def failure(problem: BaseException, retryable: bool) -> Failure:
    return Failure(kind_of(problem), message_of(problem), users_traceback(problem), retryable)


def exit_error(problem: BaseException) -> PillarboxError:
    """Return FUNCTION_EXITED for a SystemExit or KeyboardInterrupt of user code."""
    code = problem.code if isinstance(problem, SystemExit) else message_of(problem)
    reason = str(code) if isinstance(code, (str, int, type(None))) else shown(code)
    return error("FUNCTION_EXITED", kind=type(problem).__name__, reason=reason)


def kind_of(problem: BaseException) -> str:
    """Return the condition of an error of Pillarbox, or else the exception's class name."""
    try:
        return problem.condition if isinstance(problem, PillarboxError) else type(problem).__name__
    except BaseException:
        return "Exception"


def message_of(problem: BaseException, longest: int = LONGEST_MESSAGE) -> str:
    """Return ``str(problem)``, cut if it is long; the class name where it is empty or fails."""
    try:
        text = str(problem)
    except BaseException as broken:
        return f"{kind_of(problem)} (its __str__ raised {kind_of(broken)})"
    return _clean(text, longest) or kind_of(problem)


def _clean(text: str, longest: int) -> str:
    """Cut ``text`` to about ``longest`` characters and escape lone surrogates."""
    text = "".join((text,))  # a plain str, since a subclass may override methods
    if len(text) > longest:
        end = longest // 4
        left_out = f" […{len(text) - longest:,} characters are left out…] "
        text = text[: longest - end] + left_out + text[-end:]
    return text.encode("utf-8", "backslashreplace").decode()
