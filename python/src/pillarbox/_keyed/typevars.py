"""Type variables with defaults, which Python's typing module lacks before 3.13."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar, Protocol

    from typing_extensions import TypeVar

    Key = TypeVar("Key", default=Any)
    In = TypeVar("In", default=Any)
    Accumulator = TypeVar("Accumulator", default=Any)
    Out = TypeVar("Out", default=Any)

    class _Dataclass(Protocol):
        __dataclass_fields__: ClassVar[dict[str, Any]]

    class _Named(Protocol):
        def _asdict(self) -> dict[str, Any]: ...

    class _Model(Protocol):
        def model_copy(self) -> Any: ...

    # Objects of classes that can be columns; a TypedDict is a Mapping to type checkers.
    Object = TypeVar("Object", bound="_Dataclass | _Named | _Model | Mapping[str, object]")
else:
    from typing import TypeVar

    _NAMES = ("Key", "In", "Accumulator", "Out", "Object")
    Key, In, Accumulator, Out, Object = map(TypeVar, _NAMES)
