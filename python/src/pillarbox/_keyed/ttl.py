"""How long state lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from .._base.checks import check, check_choice, invalid
from .._base.durations import milliseconds

Update = Literal["on_create_and_write", "on_read_and_write"]
Visibility = Literal["never_return_expired", "return_expired_if_not_cleaned_up"]
Time = Literal["processing", "event"]


@dataclass(frozen=True)
class StateTtl:
    """State is forgotten ``duration`` after it was last written; expired is ``ts + ttl <= now``.

    Every value, list element and map entry lives by itself.

    Parameters
    ----------
    duration: such as "2 days" or a timedelta.
    update: "on_create_and_write", or "on_read_and_write": then reading renews a life too.
    visibility: "never_return_expired", or "return_expired_if_not_cleaned_up": an expired value is
        returned once, and is gone after that.
    time: "processing" (the wall clock), or "event": the clock is the watermark and a life starts
        at the row's timestamp, so that a replay gives the same answers.
    on_expire: ``on_expire(key, value)`` is called when a function meets an expired value (an entry
        of a map comes as ``(map_key, value)``). What is cleaned up unseen is not told.

    Raises :class:`InvalidOption`.
    """

    duration: str | timedelta
    update: Update = "on_create_and_write"
    visibility: Visibility = "never_return_expired"
    time: Time = "processing"
    on_expire: Callable[[Any, Any], object] | None = None

    def __post_init__(self) -> None:
        milliseconds(self.duration, "duration")
        check_choice("update", self.update, Update)
        check_choice("visibility", self.visibility, Visibility)
        check_choice("time", self.time, Time)
        fits = self.on_expire is None or callable(self.on_expire)
        check(fits, "on_expire", "a function of key and value", self.on_expire, "print")

    @property
    def ms(self) -> int:
        """The duration in whole ms, at least 1."""
        return milliseconds(self.duration, "duration")

    def to_spec(self) -> dict[str, Any]:
        """As JSON-able values, for the operator in the JVM."""
        return {
            "ms": self.ms,
            "update": self.update,
            "visibility": self.visibility,
            "time": self.time,
        }


def as_ttl(value: object) -> StateTtl | None:
    """A ``StateTtl``, or what a bare duration means; None for none. Raises ``InvalidOption``."""
    if value is None or isinstance(value, StateTtl):
        return value
    if isinstance(value, (str, timedelta)):
        return StateTtl(value)
    raise invalid("ttl", "a pb.StateTtl or a duration", value, 'pb.StateTtl("2 days")')
