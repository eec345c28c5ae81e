"""What all state handles share: their declaration, the current key, and the rules of TTL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import error
from .context import PROCESSING_TIMER, UNKNOWN, KeyedContext
from .ttl import StateTtl
from .values import KeyType, ValueType


@dataclass(frozen=True)
class Declaration:
    """A state as a function declared it. ``fold`` is the function of appending states."""

    name: str
    kind: str
    type: ValueType
    key_type: KeyType | None = None
    ttl: StateTtl | None = None
    fold: Any = None

    def to_spec(self) -> dict[str, Any]:
        """As JSON-able values, for the operator in the JVM."""
        return {
            "name": self.name,
            "kind": self.kind,
            "type": self.type.wire_type.json(),
            "plain": self.type.is_plain,
            "key_type": None if self.key_type is None else self.key_type.wire_type.json(),
            "key_plain": self.key_type is not None and self.key_type.is_plain,
            "ttl": None if self.ttl is None else self.ttl.to_spec(),
            "on_expire": self.ttl is not None and self.ttl.on_expire is not None,
        }


# Gives the cells of some keys and a list of their stamps (empty if cells have their own).
Load = Callable[[], tuple[Any, Any]]


class TtlPolicy:
    """The decisions of one TTL over timestamps; ``at`` tells the time.

    A timestamp of ``UNKNOWN`` means that no time was known at the write: the life of such a value
    starts at the first watermark that is known, else when it is met with a time known.
    """

    __slots__ = ("_at", "_on_expire", "event", "renews", "returns_expired", "ttl")

    def __init__(self, ttl: StateTtl, at: KeyedContext) -> None:
        self._at = at
        self.ttl = ttl.ms
        self.event = ttl.time == "event"
        self._on_expire = ttl.on_expire
        self.renews = ttl.update == "on_read_and_write"
        self.returns_expired = ttl.visibility == "return_expired_if_not_cleaned_up"

    def now(self) -> int:
        """Processing time, or the watermark (``UNKNOWN`` before the first)."""
        return self._at._watermark if self.event else self._at.current_processing_time

    def limit(self) -> int:
        """What is stamped at or below this is expired, but for ``UNKNOWN``."""
        # Whole numbers have no bounds here: ts + ttl beyond the largest time is never reached.
        return max(self.now() - self.ttl, UNKNOWN)

    def is_expired(self, stamp: int) -> bool:
        """Whether a value of this timestamp is: ts + ttl <= now."""
        stamp = self.known(stamp)
        return stamp != UNKNOWN and stamp + self.ttl <= self.now()

    def known(self, stamp: int) -> int:
        """The timestamp, or that which stands for ``UNKNOWN``, if any does."""
        return self._at._first_watermark if stamp == UNKNOWN and self.event else stamp

    def stamp(self, stored: int | None = None) -> int:
        """The timestamp of a value written now; ``stored`` is that of what was there."""
        if not self.event:
            return self._at.current_processing_time
        # A processing-time timer has a time of another clock.
        at = self._at
        record = None if at._event == PROCESSING_TIMER else at.timestamp
        stamp = at._watermark if record is None else record
        return stamp if stored is None else max(stamp, self.known(stored))

    def after_read(self, stored: int) -> int:
        """The timestamp of a value that was met alive."""
        if self.renews:
            return self.stamp(stored)
        return self.first_stamp() if stored == UNKNOWN else stored

    def first_stamp(self) -> int:
        """The timestamp of a value that has none, when it is met alive; may be ``UNKNOWN``."""
        start = self.known(UNKNOWN)
        return self.now() if start == UNKNOWN else start

    def tell(self, value: Any) -> None:
        """Calls ``on_expire`` for a value of the current key, if there is one."""
        if self._on_expire is not None:
            self._on_expire(self._at.key, value)


class State:
    """One state of the function; always that of the current key.

    A runtime binds it to the cells of some keys: ``bind`` for a frame and ``extend`` for one that
    goes on from it (cells are loaded when first touched), or ``bind`` once and ``grow`` with every
    new key. ``changed[slot]`` tells which cells have something to write back.
    """

    __slots__ = ("_at", "_cells", "_loads", "_policy", "_stamps", "changed", "declaration")

    def __init__(self, declaration: Declaration, at: KeyedContext) -> None:
        self.declaration = declaration
        self._at = at
        self._policy = None if declaration.ttl is None else TtlPolicy(declaration.ttl, at)
        self._cells: Any = None
        self._stamps: Any = None
        self._loads: list[Load] = []
        self.changed = bytearray()

    @property
    def name(self) -> str:
        """The name that the state was declared under."""
        return self.declaration.name

    def bind(self, count: int, load: Load) -> None:
        """From now on the cells are those of ``count`` keys; ``load`` gives cells and stamps."""
        self._cells = self._stamps = None
        self._loads = [load]
        self.changed = bytearray(count)

    def extend(self, count: int, load: Load) -> None:
        """``count`` more keys, behind the others; ``load`` gives their cells and stamps."""
        self._loads.append(load)
        self.changed.extend(bytes(count))
        if self._cells is not None:
            self._load()

    def grow(self) -> None:
        """One more key, without state."""
        cells, stamps = self.cells()
        cells.append(None)
        stamps.append(UNKNOWN)
        self.changed.append(0)

    def cells(self) -> tuple[Any, Any]:
        """All cells and their stamps, loaded if they weren't."""
        if self._cells is None:
            self._load()
        return self._cells, self._stamps

    def drop(self, slot: int) -> None:
        """Forgets the state of a key, without a word to anybody."""
        cells, stamps = self.cells()
        cells[slot], stamps[slot] = None, UNKNOWN

    def _slot(self) -> int:
        """The current slot, with the cells loaded. Raises ``NoCurrentKey``."""
        slot = self._at.slot()
        if self._cells is None:
            self._load()
        return slot

    def _load(self) -> None:
        """Loads what was not loaded yet."""
        for load in self._loads:
            cells, stamps = load()
            if self._cells is None:
                self._cells, self._stamps = cells, stamps
            else:
                self._cells.extend(cells)
                self._stamps.extend(stamps)
        self._loads = []

    def _refuse_none(self, what: str) -> None:
        raise error("NULL_STATE_VALUE", state=self.name, what=what)
