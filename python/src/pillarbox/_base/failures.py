"""A failure as data: what travels to the operator instead of an exception object.

An exception is a user's object, whose methods may raise anything themselves. Nothing of that comes
out of here.
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
    """Why something failed: an attempt of a call, or what cannot be tried at all.

    ``kind`` is the exception's class name, TIMEOUT, RESULT_REFUSED or a name of ``errors.json``;
    ``traceback`` shows the user's frames only; ``retry_after_ms`` is -1 where the function asked
    for no other delay. ``on_result`` marks an answer that ``retry.if_result`` refused,
    ``overload`` one whose status says that the service was asked too much. The texts are valid
    Unicode of bounded length.
    """

    kind: str
    message: str
    traceback: str = ""
    retryable: bool = False
    on_result: bool = False
    retry_after_ms: int = -1
    overload: bool = False


class Told(Exception):
    """Pillarbox found this about a call: its message tells all, and its own frames nothing."""


def _folder(code: CodeType) -> str:
    return os.path.join(os.path.dirname(code.co_filename), "")


# Taken from code objects, since in a zip or jar there is no __file__ to rely on.
_HIDDEN_FOLDERS = (
    _folder(error.__code__),
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
    if isinstance(problem, (PillarboxError, Told)) and not any(map(_is_users, summary.stack)):
        # Found by Pillarbox itself: the message says it all, but for what it was found by.
        return _formatted(problem.__cause__) if problem.__cause__ else ""
    current: traceback.TracebackException | None = summary
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.stack = users_frames(current.stack)
        current = current.__cause__ or current.__context__
    return "".join(summary.format())


def final_failure(problem: BaseException) -> Failure:
    """``problem`` as a failure that no further attempt can cure."""
    return failure(problem, False)


def failure(problem: BaseException, retryable: bool) -> Failure:
    """``problem`` as a failure."""
    return Failure(kind_of(problem), message_of(problem), users_traceback(problem), retryable)


def exit_error(problem: BaseException) -> PillarboxError:
    """FUNCTION_EXITED for a SystemExit or KeyboardInterrupt out of user code."""
    code = problem.code if isinstance(problem, SystemExit) else message_of(problem)
    reason = str(code) if isinstance(code, (str, int, type(None))) else shown(code)
    return error("FUNCTION_EXITED", kind=type(problem).__name__, reason=reason)


def kind_of(problem: BaseException) -> str:
    """A name of ``errors.json``, or the exception's class name."""
    try:
        return problem.condition if isinstance(problem, PillarboxError) else type(problem).__name__
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
    """Cuts ``text`` to about ``longest`` characters and drops what is no Unicode."""
    text = "".join((text,))  # a class derived from str may have other methods
    if len(text) > longest:
        end = longest // 4
        left_out = f" […{len(text) - longest:,} characters are left out…] "
        text = text[: longest - end] + left_out + text[-end:]
    return text.encode("utf-8", "backslashreplace").decode()
