"""Type variables with defaults, which Python's typing module lacks before 3.13."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Key = TypeVar("Key", default=Any)
    In = TypeVar("In", default=Any)
    Accumulator = TypeVar("Accumulator", default=Any)
    Out = TypeVar("Out", default=Any)
    Object = TypeVar("Object")
else:
    from typing import TypeVar

    _NAMES = ("Key", "In", "Accumulator", "Out", "Object")
    Key, In, Accumulator, Out, Object = map(TypeVar, _NAMES)
