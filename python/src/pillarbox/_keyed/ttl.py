"""How long state lives: the user's choice, and the rules that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol

from .._base.checks import check, check_choice, invalid
from .._base.durations import milliseconds
from .._base.unknown_options import answers_unknown
from .context import PROCESSING_TIMER, UNKNOWN
from .surface import TimeDomain

Update = Literal["on_create_and_write", "on_read_and_write"]
Visibility = Literal["never_return_expired", "return_expired_if_not_cleaned_up"]


@answers_unknown
@dataclass(frozen=True)
class StateTtl:
    """State is forgotten ``duration`` after it was last written; ``ttl="2 days"`` is
    ``pb.StateTtl("2 days")``. Expired is ``ts + ttl <= now``.

    Every value, list element and map entry lives by itself.

    Parameters
    ----------
    duration: such as "2 days" or a timedelta.
    update: "on_create_and_write", or "on_read_and_write": then reading renews a life too.
    visibility: "never_return_expired", or "return_expired_if_not_cleaned_up": an expired value is
        returned once, and is gone after that.
    time_domain: "processing_time" (the time of the micro-batch), or "event_time": the clock is the
        watermark and a life starts at the row's timestamp, so that a replay gives the same answers.
    on_expire: ``on_expire(key, map_key, value)`` is called in the worker, on the thread of the
        function, when it meets an expired value; ``map_key`` is None but for the entries of a map.
        What is cleaned up unseen is not told.

    Raises :class:`InvalidOption`.
    """

    duration: str | timedelta
    _: KW_ONLY
    update: Update = "on_create_and_write"
    visibility: Visibility = "never_return_expired"
    time_domain: TimeDomain = "processing_time"
    on_expire: Callable[[Any, Any, Any], object] | None = None

    def __post_init__(self) -> None:
        milliseconds(self.duration, "duration")
        check_choice("update", self.update, Update)
        check_choice("visibility", self.visibility, Visibility)
        check_choice("time_domain", self.time_domain, TimeDomain)
        fits = self.on_expire is None or callable(self.on_expire)
        check(fits, "on_expire", "a function of key, map_key and value", self.on_expire, "print")

    @property
    def _ms(self) -> int:
        """The duration in whole ms, at least 1."""
        return milliseconds(self.duration, "duration")

    def _to_spec(self) -> dict[str, Any]:
        """As JSON-able values, for the operator in the JVM."""
        return {
            "ms": self._ms,
            "update": self.update,
            "visibility": self.visibility,
            "time_domain": self.time_domain,
        }


class Clock(Protocol):
    """The times that lives are counted by, which every context has; ``UNKNOWN`` for none.

    The life of a value without a timestamp starts at ``_first_watermark``.
    """

    _watermark: int
    _first_watermark: int
    processing_time: int


class TtlPolicy:
    """The decisions of one TTL over timestamps; ``at`` tells the time.

    A timestamp of ``UNKNOWN`` means that no time was known at the write: the life of such a value
    starts at the first watermark that is known, else when it is met with a time known.
    """

    __slots__ = ("_at", "_on_expire", "event", "renews", "returns_expired", "ttl")

    def __init__(self, ttl: StateTtl, at: Clock) -> None:
        self._at: Any = at
        self.ttl = ttl._ms
        self.event = ttl.time_domain == "event_time"
        self._on_expire = ttl.on_expire
        self.renews = ttl.update == "on_read_and_write"
        self.returns_expired = ttl.visibility == "return_expired_if_not_cleaned_up"

    def now(self) -> int:
        """Processing time, or the watermark (``UNKNOWN`` before the first)."""
        now: int = self._at._watermark if self.event else self._at.processing_time
        return now

    def limit(self) -> int:
        """What is stamped at or below this is expired, but for ``UNKNOWN``."""
        # Whole numbers have no bounds here: ts + ttl beyond the largest time is never reached.
        return max(self.now() - self.ttl, UNKNOWN)

    def is_expired(self, stamp: Any) -> Any:
        """Whether a value of this timestamp is: ts + ttl <= now."""
        stamp = self.known(stamp)
        return (stamp > UNKNOWN) & (stamp <= self.limit())

    def known(self, stamp: Any) -> Any:
        """The timestamp, or that which stands for ``UNKNOWN``, if any does."""
        first = self._at._first_watermark
        return first if first != UNKNOWN and self.event and stamp == UNKNOWN else stamp

    def stamp(self, stored: Any = None) -> Any:
        """The timestamp of a value written now; ``stored`` is that of what was there, if any."""
        if not self.event:
            return self._at.processing_time
        record = self._record()
        return record if stored is None else self._later(record, self.known(stored))

    def after_read(self, stored: Any) -> Any:
        """The timestamp of a value that was met alive."""
        if self.renews:
            return self.stamp(stored)
        return self._chosen(stored == UNKNOWN, self.first_stamp(), stored)

    def first_stamp(self) -> int:
        """The timestamp of a value that has none, when it is met alive; may be ``UNKNOWN``."""
        start = self.known(UNKNOWN)
        return self.now() if start == UNKNOWN else start

    def tell(self, value: Any, map_key: Any = None) -> None:
        """Calls ``on_expire`` for a value of the current key, if there is one."""
        if self._on_expire is not None:
            self._on_expire(self._at.key, map_key, value)

    def _record(self) -> Any:
        # A processing-time timer has a time of another clock.
        time = None if self._at._event == PROCESSING_TIMER else self._at.timestamp
        return self._at._watermark if time is None else time

    def _later(self, one: Any, other: Any) -> Any:
        return max(one, other)

    def _chosen(self, condition: Any, one: Any, other: Any) -> Any:
        return one if condition else other


def as_ttl(value: object) -> StateTtl | None:
    """A ``StateTtl``, or what a bare duration means; None for none. Raises ``InvalidOption``."""
    if value is None or isinstance(value, StateTtl):
        return value
    if isinstance(value, (str, timedelta)):
        return StateTtl(value)
    raise invalid("ttl", "a pb.StateTtl or a duration", value, 'pb.StateTtl("2 days")')
