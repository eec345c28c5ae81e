"""What a function is handed while it runs: the context, its timers, its state.

The public types, without the machinery of a runtime: a unit test may write its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from .typevars import In, Key, Out

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

TimeDomain = Literal["event_time", "processing_time"]


class Timer(NamedTuple):
    """When it fires (epoch ms), and by which clock: "event_time" or "processing_time"."""

    timestamp: int
    time_domain: TimeDomain


class Timers(ABC):
    """``ctx.timers``, the timers of the current key: one at most a time domain and millisecond.

    A time is epoch milliseconds or a datetime (naive: in the local zone of the worker). One that
    has passed already fires in the same round. Needs a current key: raises :class:`StateError`
    (NO_CURRENT_KEY) outside of ``process`` and ``on_timer``, :class:`InvalidOption` for what is no
    time, :class:`InvalidFunction` if the function has no ``on_timer``.
    """

    __slots__ = ()

    @abstractmethod
    def register_event_time(self, time: int | datetime) -> None:
        """Fires when the watermark reaches ``time``. ``StateError`` without a watermark."""

    @abstractmethod
    def register_processing_time(self, time: int | datetime) -> None:
        """Fires in the first micro-batch whose time is ``time`` or later."""

    @abstractmethod
    def delete_event_time(self, time: int | datetime) -> None:
        """Takes a timer back; nothing happens if there is none."""

    @abstractmethod
    def delete_processing_time(self, time: int | datetime) -> None:
        """Takes a timer back; nothing happens if there is none."""

    @abstractmethod
    def delete_all(self) -> None:
        """Takes back all timers of the current key, of both time domains."""

    @abstractmethod
    def list(self) -> Sequence[Timer]:
        """The timers of the current key, the earliest first."""


class Context(ABC, Generic[Key]):
    """The current row or timer; valid during the call only, in its thread.

    Times are epoch milliseconds. Elsewhere ``key`` and ``output`` raise :class:`StateError`
    (NO_CURRENT_KEY): another thread is handed what it needs.

    ``Context[str]`` is one whose key is a string, for type checkers.
    """

    __slots__ = ()

    timers: Timers
    """The timers of the current key."""

    timestamp: int | Any
    """The row's event time, or the time of the timer; None for a row without event time."""

    processing_time: int
    """The time of the micro-batch; it stands still in one, and is the same in a replay."""

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
        """Emits ``row`` to the side output ``tag``, declared by ``side_outputs=``.

        Raises :class:`StateError` for a tag that is not declared, :class:`ResultTypeMismatch` for
        a row that does not fit its columns.
        """


class AsyncContext(Context[Key]):
    """The current row of an ``AsyncKeyedProcessFunction``.

    It is that of the coroutine that asks, and of what it has started by asyncio. ``key``,
    ``timestamp`` and ``watermark`` can be read there also in other threads (``asyncio.to_thread``)
    and after the call; all else only until its call has ended, on its loop. There are no timers.
    """

    __slots__ = ()

    resource: Any
    """What ``resource=`` has opened in this worker; None without it."""


class KeyedState(ABC):
    """What the handles of all kinds of state have."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that the state was declared under."""

    @abstractmethod
    def clear(self) -> None:
        """Removes what the current key has."""


class ValueState(KeyedState, Generic[T]):
    """One value a key."""

    __slots__ = ()

    @abstractmethod
    def value(self) -> T | None:
        """The value of the current key; None if there is none, or it is expired."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Makes ``value`` the value of the current key; None clears it.

        Raises :class:`ResultTypeMismatch` for a value that is not of the state's type.
        """


class ReducingState(KeyedState, Generic[T]):
    """What the state's function makes of all values added for a key."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> T | None:
        """The aggregate; None before the first value."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Folds ``value`` in. Raises :class:`ResultTypeMismatch` for one of another type."""


class AggregatingState(KeyedState, Generic[In, Out]):
    """What an :class:`AggregateFunction` makes of all values added for a key."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> Out | None:
        """The function's result over the accumulator; None before the first value."""

    @abstractmethod
    def add(self, value: In) -> None:
        """Folds ``value`` in. :class:`ResultTypeMismatch` if the accumulator does not fit."""


class ListState(KeyedState, Generic[T]):
    """Elements in the order in which they were added. None is not an element."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> list[T]:
        """The elements of the current key that are alive; a list of the caller's own."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Appends ``value``. :class:`ResultTypeMismatch` if it is not of the state's type."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Appends all ``values``; none of them if one doesn't fit."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Makes ``values`` the list of the current key."""


class MapState(KeyedState, Generic[K, V]):
    """Entries in no particular order. Neither keys nor values are None."""

    __slots__ = ()

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of ``key``; None if there is none, or it is expired."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Makes ``value`` that of ``key``. :class:`ResultTypeMismatch` if either doesn't fit."""

    @abstractmethod
    def put_all(self, entries: Mapping[K, V]) -> None:
        """Puts every entry of a dict."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes the entry of ``key``, if there is one."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether ``key`` has a value that is alive; counts as reading it."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether no entry is alive."""

    @abstractmethod
    def items(self) -> Iterator[tuple[K, V]]:
        """The entries that are alive now, as pairs; later changes do not show."""

    @abstractmethod
    def keys(self) -> Iterator[K]:
        """The keys of the entries that are alive; counts as reading them."""

    @abstractmethod
    def values(self) -> Iterator[V]:
        """The values that are alive."""
