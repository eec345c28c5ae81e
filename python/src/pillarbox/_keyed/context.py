"""What a function knows while a row or timer is processed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import error, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from .timers import Timers

UNKNOWN = -(1 << 63)
FOREVER = (1 << 63) - 1

ROW, EVENT_TIMER, PROCESSING_TIMER = 0, 1, 2


class Context:
    """The current row or timer; valid during the call only. Times are epoch milliseconds.

    ``timestamp``: the row's event time (None without one), or the time of the timer.
    ``current_processing_time``: the time of the micro-batch; it stands still in one.
    """

    __slots__ = ("_event", "_first_watermark", "_keys", "_name", "_slot", "_tags", "_watermark",
                 "current_processing_time", "side_rows", "timers", "timestamp")  # fmt: skip

    timers: Timers

    def __init__(self, name: str, tags: dict[str, Callable[[Any], Any]]) -> None:
        self._name = name
        self._tags = tags
        self._slot: int | None = None
        self._keys: Any = ()
        self._event = ROW
        self._watermark = UNKNOWN
        # Of the states that are bound; where it is UNKNOWN nothing has lived since before it.
        self._first_watermark = UNKNOWN
        self.timestamp: int | None = None
        self.current_processing_time = 0
        self.side_rows: list[tuple[str, int, Any]] = []

    @property
    def key(self) -> Any:
        """The current key: a plain value for one key column, a Row for several."""
        return self._keys[self.slot()]

    @property
    def watermark(self) -> int | None:
        """No row before this time is expected; None before the first watermark."""
        return None if self._watermark == UNKNOWN else self._watermark

    @property
    def time_domain(self) -> str | None:
        """ "event" or "processing" in ``on_timer``, None in ``process``."""
        return (None, "event", "processing")[self._event]

    def output(self, tag: str, row: Any) -> None:
        """Emits ``row`` to the side output ``tag``, declared by ``side_outputs=``."""
        accept = self._tags.get(tag)
        if accept is None:
            declared = ", ".join(map(repr, self._tags)) or "none"
            raise error("UNKNOWN_SIDE_OUTPUT", tag=shown(tag), declared=declared)
        self.side_rows.append((tag, self.slot(), accept(row)))

    def slot(self) -> int:
        """The position of the current key. Raises ``NoCurrentKey`` outside of a call."""
        if self._slot is None:
            raise error("NO_CURRENT_KEY", operator=self._name)
        return self._slot


class OpenContext:
    """What a function can get when it is opened: its state handles. There is no key yet."""

    def __init__(self, declare: Any, name: str) -> None:
        self._declare = declare
        self.name = name

    def value_state(self, name: str, type: Any, *, ttl: Any = None) -> Any:
        """One value a key: ``value()``, ``update(v)``, ``clear()``."""
        return self._declare(name, "value", type, ttl=ttl)

    def list_state(self, name: str, type: Any, *, ttl: Any = None) -> Any:
        """A list a key: ``get()``, ``add(v)``, ``add_all(vs)``, ``update(vs)``, ``clear()``."""
        return self._declare(name, "list", type, ttl=ttl)

    def map_state(self, name: str, key_type: Any, value_type: Any, *, ttl: Any = None) -> Any:
        """A map a key: ``get``, ``put``, ``put_all``, ``remove``, ``contains``, ``items``, …"""
        return self._declare(name, "map", value_type, key_type=key_type, ttl=ttl)

    def reducing_state(self, name: str, type: Any, function: Any, *, ttl: Any = None) -> Any:
        """What ``function(a, b)`` makes of all added values: ``add(v)``, ``get()``, ``clear()``."""
        return self._declare(name, "reducing", type, fold=function, ttl=ttl)

    def aggregating_state(
        self, name: str, accumulator_type: Any, function: Any, *, ttl: Any = None
    ) -> Any:
        """What an :class:`AggregateFunction` makes of all added values: ``add``, ``get``."""
        return self._declare(name, "aggregating", accumulator_type, fold=function, ttl=ttl)
