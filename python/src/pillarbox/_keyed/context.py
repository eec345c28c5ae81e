"""The context of a runtime: the current row or timer, the clocks, the rows of side outputs."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from .._base.values import key_text
from ..errors import error, shown
from .surface import Context, TimeDomain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
UNKNOWN = -(1 << 63)
FOREVER = (1 << 63) - 1

ROW, EVENT_TIMER, PROCESSING_TIMER = 0, 1, 2
_DOMAINS: tuple[TimeDomain | None, ...] = (None, "event_time", "processing_time")


class KeyedContext(Context[Any]):
    """The context that a runtime sets and a function reads.

    ``_key_index`` is the index of the current key, ``_thread`` the only thread that has it; both
    are None while no call runs. Handles compare the thread themselves, since one more method call
    would cost as much as their own.
    """

    __slots__ = (
        "_event",
        "_first_watermark",
        "_key_index",
        "_key_names",
        "_keys",
        "_name",
        "_tags",
        "_thread",
        "_watermark",
        "is_late",
        "processing_time",
        "side_rows",
        "timers",
        "timestamp",
    )  # fmt: skip

    def __init__(self, name: str, tags: dict[str, Callable[[Any], Any]]) -> None:
        self._name = name
        self._tags = tags
        self._key_index: Any = None  # an int while a call runs
        self._thread: int | None = None
        self._keys: Any = ()
        self._key_names: Sequence[str] = ()  # of the key's columns, where they are known
        self._event = ROW
        self._watermark = UNKNOWN
        # The first watermark of the bound states. If it is UNKNOWN, no value is older than it.
        self._first_watermark = UNKNOWN
        self.timestamp: int | None = None
        self.is_late = False
        self.processing_time = 0
        self.side_rows: list[tuple[str, int, Any]] = []

    @property
    def key(self) -> Any:
        key_index = self._key_index
        return self._keys[
            self.key_index() if key_index is None or self._thread != get_ident() else key_index
        ]

    def __getattr__(self, name: str) -> Any:
        if name == "timer" or name.endswith("_state"):
            told = f"ctx.{name} is there in open alone: declare state there, and keep it in self"
            raise AttributeError(told)
        raise AttributeError(f"ctx has no attribute {name!r}")

    def _shown_key(self, key_index: int) -> str:
        return key_text(self._keys[key_index], self._key_names)

    @property
    def watermark(self) -> int | None:
        return None if self._watermark == UNKNOWN else self._watermark

    @property
    def time_domain(self) -> TimeDomain | None:
        return _DOMAINS[self._event]

    def output(self, tag: str, row: Any) -> None:
        accept = self._acceptor(tag)
        self.side_rows.append((tag, self.key_index(), accept(row)))

    def _acceptor(self, tag: str) -> Callable[[Any], Any]:
        if tag not in self._tags:
            declared = ", ".join(map(repr, self._tags)) or "none"
            raise error("UNKNOWN_SIDE_OUTPUT", tag=shown(tag), declared=declared)
        return self._tags[tag]

    def key_index(self) -> int:
        """Return the index of the current key. Raises ``StateError`` outside a call's thread."""
        if self._key_index is None or self._thread != get_ident():
            raise error("NO_CURRENT_KEY", operator=self._name)
        key_index: int = self._key_index
        return key_index

    def enter(self, key_index: int) -> None:
        """Make the key of ``key_index`` the current one, for the current thread."""
        self._thread, self._key_index = get_ident(), key_index

    def leave(self) -> None:
        self._thread = self._key_index = None
