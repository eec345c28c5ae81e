"""The errors of Pillarbox as data (``errors.json``) and as exception types.

    PillarboxError
    ├── InvalidOption       (ValueError)    an option, before any work
    ├── InvalidSchema       (ValueError)    returns, or names that clash
    ├── InvalidFunction     (TypeError)     the function or resource handed over
    ├── EngineUnavailable   (RuntimeError)  the jar is missing, or does not fit
    ├── NoCurrentCall       (RuntimeError)  current_call() outside a call
    ├── StateError          (RuntimeError)  state or timers used as they can't be
    ├── ResultTypeMismatch  (TypeError)     the function's answer does not fit `returns`
    ├── NoSuchColumn        (AttributeError, ValueError)  a row was asked for a column it lacks
    ├── CallFailed          (RuntimeError)  a call failed for good
    └── WorkerFailed        (RuntimeError)  the Python worker can't go on

Every message starts with its condition in brackets, by which a log of the JVM can be searched, and
states the problem, the value found and the remedy.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Callable
from typing import Any

# These end the process wherever they are raised, and never count as the failure of a row.
EXITS = (SystemExit, KeyboardInterrupt)


class PillarboxError(Exception):
    """An error with a stable ``condition`` (a key of ``errors.json``) and its ``parameters``.

    An error that :func:`failure_of` returns also has the following attributes, as far as they are
    known; otherwise they are None, and the traceback is empty. Values of data are shortened texts.

    Attributes:
        operator: the operator that failed, such as ``async_io(weather)``.
        row: the row that was being processed.
        key: the key, of a keyed function.
        timer: the timer that was firing, of a keyed function.
        attempts: the number of calls for the row.
        elapsed_ms: the time from the first of these calls to the end.
        kind: the class name of the user's exception, ``TIMEOUT``, or else the condition.
        message: the message of the user's exception.
        traceback: the traceback of the user's code, as text.
    """

    operator: str | None = None
    row: str | None = None
    key: str | None = None
    timer: str | None = None
    attempts: int | None = None
    elapsed_ms: int | None = None
    kind: str | None = None
    message: str | None = None
    traceback: str = ""

    def __init__(self, condition: str, parameters: dict[str, Any]) -> None:
        self.condition = condition
        self.parameters = parameters
        template = CATALOGUE[condition]
        text = f"[{condition}] {template['message']} {template['remedy']}"
        super().__init__(text.format(**parameters))

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args, self.__dict__)

    @staticmethod
    def _reported(
        type_name: str, report: dict[str, Any], text: str | None = None
    ) -> PillarboxError:
        """Return the error of a report, of the class ``type_name``, with its whole text or this."""
        kind = globals().get(type_name)
        if not (isinstance(kind, type) and issubclass(kind, PillarboxError)):
            kind = PillarboxError  # the worker is newer than this package
        hidden = ("type", "text")
        told = {name: value for name, value in report.items() if name not in hidden}
        place = f"{report['operator']}: " if report["operator"] else ""
        whole = f"[{report['condition']}] {place}{report['text']}"
        state = {**told, "traceback": report["traceback"].rstrip("\n"), "parameters": {}}
        return _remade(kind, (text or whole,), state)


def _remade(
    kind: type[PillarboxError], arguments: tuple[Any, ...], state: dict[str, Any]
) -> PillarboxError:
    made = kind.__new__(kind)
    Exception.__init__(made, *arguments)
    made.__dict__.update(state)
    return made


class InvalidOption(PillarboxError, ValueError):
    """An option has a value that can't work."""


class InvalidSchema(PillarboxError, ValueError):
    """The columns asked for can't be made."""


class InvalidFunction(PillarboxError, TypeError):
    """The function or the resource can't be called as Pillarbox calls it."""


class EngineUnavailable(PillarboxError, RuntimeError):
    """The engine asked for is not there."""


class NoCurrentCall(PillarboxError, RuntimeError):
    """The current call was asked for outside a call."""


class StateError(PillarboxError, RuntimeError):
    """State or timers were declared or used as they can't be."""


class ResultTypeMismatch(PillarboxError, TypeError):
    """A function's answer does not fit ``returns``; never retried."""


class NoSuchColumn(PillarboxError, AttributeError, ValueError):
    """A row was asked for a column that it does not have."""


class CallFailed(PillarboxError, RuntimeError):
    """A call failed for good."""


class WorkerFailed(PillarboxError, RuntimeError):
    """The Python worker of a task can't go on; Spark decides on another attempt."""


def _load_catalogue() -> dict[str, dict[str, str]]:
    text = importlib.resources.files(__package__).joinpath("errors.json").read_text("utf-8")
    by_type: dict[str, dict[str, dict[str, str]]] = json.loads(text)
    return {
        condition: {"type": kind, **words}
        for kind, errors in by_type.items()
        for condition, words in errors.items()
    }


CATALOGUE = _load_catalogue()


def error(condition: str, /, **parameters: Any) -> PillarboxError:
    """Return the exception for a condition, of the type that ``errors.json`` gives."""
    kind: type[PillarboxError] = globals()[CATALOGUE[condition]["type"]]
    return kind(condition, parameters)


def shown(value: object, limit: int = 100, text_of: Callable[[object], str] = repr) -> str:
    """Return ``repr(value)`` for a message, at most ``limit`` characters. Never raises."""
    try:
        text = text_of(value)
    except BaseException as problem:  # a user's object may raise even SystemExit
        text = f"<{type(value).__name__} whose repr failed: {type(problem).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"
