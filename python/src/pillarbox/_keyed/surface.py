"""The public interfaces for a running function: the context, its timers and its state.

A unit test may implement its own, without a runtime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic, Literal, NamedTuple, NoReturn, TypeVar

from ..errors import PillarboxError, error
from .typevars import In, Key, Out

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

TimeDomain = Literal["event_time", "processing_time"]


class Timer(NamedTuple):
    """The time at which a timer fires (epoch ms), and its clock."""

    timestamp: int
    time_domain: TimeDomain


def _no_condition(what: str, call: str) -> PillarboxError:
    """Return the error for a handle that stands where a condition is wanted."""
    return error("HANDLE_AS_CONDITION", what=what, call=call)


class Timers(ABC):
    """``ctx.timers``, the timers of the current key: one at most a time domain and millisecond.

    A time is epoch milliseconds or a datetime (naive: in the local zone of the worker). A timer of
    a past time fires in the same round. Methods raise :class:`StateError` (NO_CURRENT_KEY) outside
    of ``process`` and ``on_timer``, :class:`InvalidOption` for an invalid time, and
    :class:`InvalidFunction` if the function has no ``on_timer``.
    """

    __slots__ = ()

    @abstractmethod
    def register_event_time(self, time: int | datetime) -> None:
        """Set a timer that fires when the watermark reaches ``time``.

        Raises ``StateError`` without a watermark.
        """

    @abstractmethod
    def register_processing_time(self, time: int | datetime) -> None:
        """Set a timer that fires in the first micro-batch whose time is ``time`` or later."""

    @abstractmethod
    def delete_event_time(self, time: int | datetime) -> None:
        """Delete a timer if it exists."""

    @abstractmethod
    def delete_processing_time(self, time: int | datetime) -> None:
        """Delete a timer if it exists."""

    @abstractmethod
    def delete_all(self) -> None:
        """Delete all timers of the current key, in both time domains."""

    @abstractmethod
    def list(self) -> Sequence[Timer]:
        """Return the timers of the current key, the earliest first."""

    def __bool__(self) -> NoReturn:
        """Raise ``StateError`` (HANDLE_AS_CONDITION); a condition is ``timers.list()``."""
        raise _no_condition("ctx.timers", "timers.list()")


class Context(ABC, Generic[Key]):
    """The current row or timer; valid during the call only, in its thread.

    Times are epoch milliseconds. Elsewhere ``key`` and ``output`` raise :class:`StateError`
    (NO_CURRENT_KEY), so pass the values that another thread needs.

    ``Context[str]`` tells type checkers that the key is a string.
    """

    __slots__ = ()

    timers: Timers
    """The timers of the current key."""

    timestamp: int | Any
    """The row's event time, or the time of the timer; None for a row without event time."""

    is_late: bool
    """True for a row behind the watermark of the micro-batch before, with ``on_late="process"``."""

    processing_time: int
    """The time of the micro-batch, which is constant in it, and the same in a replay.

    In real-time mode it is the machine's clock, which goes on, and another one in a replay.
    """

    @property
    @abstractmethod
    def key(self) -> Key:
        """The current key: a plain value for one key column, a Row for several."""

    @property
    @abstractmethod
    def watermark(self) -> int | None:
        """No row before this time is expected; None before the first watermark."""

    @property
    @abstractmethod
    def time_domain(self) -> TimeDomain | None:
        """ "event_time" or "processing_time" in ``on_timer``, None in ``process``."""

    @abstractmethod
    def output(self, tag: str, row: Any) -> None:
        """Emit ``row`` to the side output ``tag``, which ``side_outputs=`` declares.

        Raises :class:`StateError` for another tag, :class:`ResultTypeMismatch` for a
        row that does not fit its columns.
        """


class AsyncContext(Context[Key]):
    """The current row of an ``AsyncKeyedProcessFunction``.

    It belongs to the calling coroutine and to what that has started by asyncio. ``key``,
    ``timestamp``, ``is_late`` and ``watermark`` can be read there also in other threads
    (``asyncio.to_thread``) and after the call; the others only on its loop, until the call ends.
    There are no timers.
    """

    __slots__ = ()

    resource: Any
    """The resource that ``resource=`` has opened in this worker; None without it."""


class KeyedState(ABC):
    """The interface of all kinds of state.

    The handle itself is no condition: ``if state:`` raises :class:`StateError`
    (HANDLE_AS_CONDITION), which names the call that is one.
    """

    __slots__ = ()

    _CONDITION: ClassVar[str] = "get()"

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that the state was declared under."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""

    def __bool__(self) -> NoReturn:
        """Raise ``StateError`` (HANDLE_AS_CONDITION)."""
        raise _no_condition(f"The handle of the state {self.name!r}", f"state.{self._CONDITION}")


class ValueState(KeyedState, Generic[T]):
    """One value a key."""

    __slots__ = ()

    _CONDITION = "value()"

    @abstractmethod
    def value(self) -> T | None:
        """Return the value of the current key; None if there is none, or it is expired."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the value of the current key; None clears it.

        Raises :class:`ResultTypeMismatch` for a value that is not of the state's type.
        """


class ReducingState(KeyedState, Generic[T]):
    """The result of the state's function over all values added for a key."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> T | None:
        """Return the aggregate; None before the first value."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Fold ``value`` in. Raises :class:`ResultTypeMismatch` for a value of another type."""


class AggregatingState(KeyedState, Generic[In, Out]):
    """The result of an :class:`AggregateFunction` over all values added for a key."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> Out | None:
        """Return the function's result of the accumulator; None before the first value."""

    @abstractmethod
    def add(self, value: In) -> None:
        """Fold ``value`` in. Raises :class:`ResultTypeMismatch` if the accumulator doesn't fit."""


class ListState(KeyedState, Generic[T]):
    """Elements in the order in which they were added. None is not an element.

    ``for element in state`` goes over the current key's elements that are alive when it begins;
    later changes do not show. Without TTL a list of more than 16,384 elements, or 2 MiB, is read by
    pages while the iteration goes on, and does not stay in memory. It ends with the call of the
    function: later it raises :class:`StateError` (ITERATION_TOO_LATE).
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        """Return an iterator over the current key's elements that are alive."""
        return iter(self.get())

    @abstractmethod
    def get(self) -> list[T]:
        """Return a new list of the current key's elements that are alive."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Append ``value``. Raises :class:`ResultTypeMismatch` for a value of another type."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append all ``values``; none of them if one doesn't fit."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replace the list of the current key by ``values``."""


class MapState(KeyedState, Generic[K, V]):
    """Entries in no particular order. Neither keys nor values are None."""

    __slots__ = ()

    _CONDITION = "is_empty()"

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of ``key``; None if there is none, or it is expired."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``. Raises :class:`ResultTypeMismatch` if either doesn't fit."""

    @abstractmethod
    def put_all(self, entries: Mapping[K, V]) -> None:
        """Put all entries of a dict, or none if one of them does not fit."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove the entry of ``key``, if there is one."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return True if ``key`` has a value that is alive; counts as reading it."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return True if no entry is alive."""

    @abstractmethod
    def items(self) -> Iterator[tuple[K, V]]:
        """Return the entries that are alive now, as pairs; later changes do not show.

        A map of more than 16,384 entries, or 2 MiB, is read by pages while the iteration goes on,
        and only entries that it renews or finds expired stay in memory. It ends with the call of
        the function: later it raises :class:`StateError` (ITERATION_TOO_LATE).
        """

    @abstractmethod
    def keys(self) -> Iterator[K]:
        """Return the keys of the entries that are alive; counts as reading them."""

    @abstractmethod
    def values(self) -> Iterator[V]:
        """Return the values that are alive."""
