"""What can go wrong, as data (``errors.json``) and as exception types.

    PillarboxError
    ├── InvalidOption       (ValueError)    an option, before any work
    ├── InvalidSchema       (ValueError)    returns, or names that clash
    ├── InvalidFunction     (TypeError)     the function or resource handed over
    ├── EngineUnavailable   (RuntimeError)  the jar is missing, or does not fit
    ├── NoCurrentCall       (RuntimeError)  call_id() outside a call
    ├── StateError          (RuntimeError)  state or timers used as they can't be
    ├── ResultTypeMismatch  (TypeError)     the function's answer does not fit `returns`
    ├── NoSuchColumn        (AttributeError, ValueError)  a row was asked for a column it lacks
    ├── CallFailed          (RuntimeError)  a call failed for good
    └── WorkerFailed        (RuntimeError)  the Python worker can't go on

Every message says what was wrong, the value found and what to do, and starts with its name in
brackets, so that it can be found again in a log of the JVM.
"""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

# What ends a process wherever it is raised, and is never taken for the failure of a row.
EXITS = (SystemExit, KeyboardInterrupt)


class PillarboxError(Exception):
    """An error with a stable ``name`` (a key of ``errors.json``) and its ``parameters``."""

    def __init__(self, name: str, parameters: dict[str, Any]) -> None:
        self.name = name
        self.parameters = parameters
        template = CATALOGUE[name]
        text = f"[{name}] {template['message']} {template['remedy']}"
        super().__init__(text.format(**parameters))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.parameters)


class InvalidOption(PillarboxError, ValueError):
    """An option has a value that can't work."""


class InvalidSchema(PillarboxError, ValueError):
    """The columns asked for can't be made."""


class InvalidFunction(PillarboxError, TypeError):
    """The function or the resource can't be called as Pillarbox calls it."""


class EngineUnavailable(PillarboxError, RuntimeError):
    """The engine asked for is not there."""


class NoCurrentCall(PillarboxError, RuntimeError):
    """Something of the current call was asked for where there is none."""


class StateError(PillarboxError, RuntimeError):
    """State or timers were declared or used as they can't be."""


class ResultTypeMismatch(PillarboxError, TypeError):
    """A function's answer does not fit ``returns``; never retried."""


class NoSuchColumn(PillarboxError, AttributeError, ValueError):  # type: ignore[misc]
    """A row was asked for a column that it does not have."""


class CallFailed(PillarboxError, RuntimeError):
    """A call failed for good."""


class WorkerFailed(PillarboxError, RuntimeError):
    """The Python worker of a task can't go on; Spark decides on another attempt."""


def _load_catalogue() -> dict[str, dict[str, str]]:
    text = importlib.resources.files(__package__).joinpath("errors.json").read_text("utf-8")
    catalogue: dict[str, dict[str, str]] = json.loads(text)
    return catalogue


CATALOGUE = _load_catalogue()


def error(name: str, **parameters: Any) -> PillarboxError:
    """The exception for ``name``, of the type its entry in ``errors.json`` gives."""
    kind: type[PillarboxError] = globals()[CATALOGUE[name]["type"]]
    return kind(name, parameters)


def shown(value: object, limit: int = 100) -> str:
    """``repr(value)`` for a message: never raises, at most ``limit`` characters."""
    try:
        text = repr(value)
    except BaseException as problem:  # whatever a user's object raises, even SystemExit
        text = f"<{type(value).__name__} whose repr failed: {type(problem).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"
