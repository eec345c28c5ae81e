"""The context of a runtime: the current row or timer, the clocks, what went to side outputs."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from ..errors import error, shown
from .surface import Context, TimeDomain

if TYPE_CHECKING:
    from collections.abc import Callable
UNKNOWN = -(1 << 63)
FOREVER = (1 << 63) - 1

ROW, EVENT_TIMER, PROCESSING_TIMER = 0, 1, 2
_DOMAINS: tuple[TimeDomain | None, ...] = (None, "event_time", "processing_time")


class KeyedContext(Context[Any]):
    """What a runtime sets and a function sees.

    ``_slot`` is the place of the current key, ``_thread`` the only thread that has it: None while
    no call runs. Handles compare the thread themselves, since a call more would cost what it does.
    """

    __slots__ = ("_event", "_first_watermark", "_keys", "_name", "_slot", "_tags", "_thread",
                 "_watermark", "processing_time", "side_rows", "timers", "timestamp")  # fmt: skip

    def __init__(self, name: str, tags: dict[str, Callable[[Any], Any]]) -> None:
        self._name = name
        self._tags = tags
        self._slot: Any = None  # an int while a call runs
        self._thread: int | None = None
        self._keys: Any = ()
        self._event = ROW
        self._watermark = UNKNOWN
        # Of the states that are bound; where it is UNKNOWN nothing has lived since before it.
        self._first_watermark = UNKNOWN
        self.timestamp: int | None = None
        self.processing_time = 0
        self.side_rows: list[tuple[str, int, Any]] = []

    @property
    def key(self) -> Any:
        slot = self._slot
        return self._keys[self.slot() if slot is None or self._thread != get_ident() else slot]

    @property
    def watermark(self) -> int | None:
        return None if self._watermark == UNKNOWN else self._watermark

    @property
    def time_domain(self) -> TimeDomain | None:
        return _DOMAINS[self._event]

    def output(self, tag: str, row: Any) -> None:
        accept = self._acceptor(tag)
        self.side_rows.append((tag, self.slot(), accept(row)))

    def _acceptor(self, tag: str) -> Callable[[Any], Any]:
        if tag not in self._tags:
            declared = ", ".join(map(repr, self._tags)) or "none"
            raise error("UNKNOWN_SIDE_OUTPUT", tag=shown(tag), declared=declared)
        return self._tags[tag]

    def slot(self) -> int:
        """The position of the current key. NO_CURRENT_KEY outside of a call and its thread."""
        if self._slot is None or self._thread != get_ident():
            raise error("NO_CURRENT_KEY", operator=self._name)
        slot: int = self._slot
        return slot

    def enter(self, slot: int) -> None:
        """The key of ``slot`` is the current one, for the present thread."""
        self._thread, self._slot = get_ident(), slot

    def leave(self) -> None:
        """There is no current key any more."""
        self._thread = self._slot = None
