"""The time-to-live of state: the user's options, and the decisions that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol

from .._base.checks import check_choice, invalid
from .._base.durations import milliseconds
from .._base.functions import check_callback
from .._base.unknown_options import answers_unknown
from .context import PROCESSING_TIMER, UNKNOWN
from .surface import TimeDomain

Update = Literal["on_create_and_write", "on_read_and_write"]
Visibility = Literal["never_return_expired", "return_expired_if_not_cleaned_up"]


@answers_unknown
@dataclass(frozen=True)
class StateTtl:
    """State expires ``duration`` after its last write: when ``ts + ttl <= now``.

    ``ttl="2 days"`` is ``pb.StateTtl("2 days")``. Every value, list element and map entry expires
    by itself.

    Parameters
    ----------
    duration: such as "2 days" or a timedelta.
    update: "on_create_and_write", or "on_read_and_write": then reading counts as a write too.
    visibility: "never_return_expired", or "return_expired_if_not_cleaned_up": an expired value is
        returned once more and then removed.
    time_domain: "processing_time" (the time of the micro-batch), or "event_time": the clock is the
        watermark and a write has the row's timestamp, so that a replay gives the same results.
    on_expire: ``on_expire(key, map_key, value)``, a plain function, is called in the worker, on
        the thread of the function, when it meets an expired value; ``map_key`` is None except for
        entries of a map. What it returns is not looked at. It is not called for values that are
        cleaned up without being read.

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
        if self.on_expire is not None:
            expected = "a function of key, map_key and value"
            check_callback("on_expire", self.on_expire, expected, 3, "print")

    @property
    def _ms(self) -> int:
        """The duration in whole ms, at least 1."""
        return milliseconds(self.duration, "duration")

    def _to_spec(self) -> dict[str, Any]:
        """Return JSON-able values for the operator in the JVM."""
        return {
            "ms": self._ms,
            "update": self.update,
            "visibility": self.visibility,
            "time_domain": self.time_domain,
        }


class Clock(Protocol):
    """The clocks of TTL, which every context has; ``UNKNOWN`` stands for no time.

    A value without a timestamp counts as written at ``_first_watermark``.
    """

    _watermark: int
    _first_watermark: int
    processing_time: int


class TtlPolicy:
    """The decisions of one TTL over timestamps; ``at`` has the clocks.

    ``make`` turns a stored value into the one that ``on_expire`` is given, where they differ.

    A timestamp of ``UNKNOWN`` means that no time was known at the write. Such a value counts as
    written at the first known watermark, or else at its first read with a known time.
    """

    __slots__ = ("_at", "_make", "_on_expire", "event", "renews", "returns_expired", "ttl")

    def __init__(self, ttl: StateTtl, at: Clock, make: Callable[[Any], Any] | None = None) -> None:
        self._at: Any = at
        self._make = make
        self.ttl = ttl._ms
        self.event = ttl.time_domain == "event_time"
        self._on_expire = ttl.on_expire
        self.renews = ttl.update == "on_read_and_write"
        self.returns_expired = ttl.visibility == "return_expired_if_not_cleaned_up"

    def now(self) -> int:
        """Return the processing time, or the watermark (``UNKNOWN`` before the first)."""
        now: int = self._at._watermark if self.event else self._at.processing_time
        return now

    def limit(self) -> int:
        """Return the latest expired timestamp."""
        # Python's integers have no bounds: ts + ttl beyond the largest time is never reached.
        return max(self.now() - self.ttl, UNKNOWN)

    def is_expired(self, stamp: Any) -> Any:
        """Return True if ts + ttl <= now."""
        stamp = self.known(stamp)
        return (stamp > UNKNOWN) & (stamp <= self.limit())

    def known(self, stamp: Any) -> Any:
        """Return the timestamp; for ``UNKNOWN`` the first watermark, if it is known and counts."""
        first = self._at._first_watermark
        return first if first != UNKNOWN and self.event and stamp == UNKNOWN else stamp

    def stamp(self, stored: Any = None) -> Any:
        """Return the timestamp of a value written now; ``stored`` is that of its predecessor."""
        if not self.event:
            return self._at.processing_time
        record = self._record()
        return record if stored is None else self._later(record, self.known(stored))

    def after_read(self, stored: Any) -> Any:
        """Return the timestamp of a value that was read alive."""
        if self.renews:
            return self.stamp(stored)
        return self._chosen(stored == UNKNOWN, self.first_stamp(), stored)

    def first_stamp(self) -> int:
        """Return the timestamp of a value without one that was read alive; may be ``UNKNOWN``."""
        start = self.known(UNKNOWN)
        return self.now() if start == UNKNOWN else start

    def tell(self, value: Any, map_key: Any = None) -> None:
        """Call ``on_expire``, if there is one, for a value of the current key."""
        if self._on_expire is not None:
            told = value if self._make is None else self._make(value)
            self._on_expire(self._at.key, map_key, told)

    def _record(self) -> Any:
        # The timestamp of a processing-time timer is of another clock.
        time = None if self._at._event == PROCESSING_TIMER else self._at.timestamp
        return self._at._watermark if time is None else time

    def _later(self, one: Any, other: Any) -> Any:
        return max(one, other)

    def _chosen(self, condition: Any, one: Any, other: Any) -> Any:
        return one if condition else other


def as_ttl(value: object) -> StateTtl | None:
    """Return a ``StateTtl`` for one or for a bare duration; None for None. Raises InvalidOption."""
    if value is None or isinstance(value, StateTtl):
        return value
    if isinstance(value, (str, timedelta)):
        return StateTtl(value)
    raise invalid("ttl", "a pb.StateTtl or a duration", value, 'pb.StateTtl("2 days")')
