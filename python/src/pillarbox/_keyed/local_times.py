"""Timestamps as functions see them: naive datetimes of the local zone, ``fold`` included.

An hour that comes twice, when summer time ends, has two instants for one naive datetime. ``fold``
tells them apart, but Python's comparison and dicts pass over it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from .._arrow.readers import local_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICRO = timedelta(microseconds=1)


class SecondHour(datetime):
    """A time in the second of two such hours; not equal to the same time in the first one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        same = datetime.__eq__(self, other)
        # What is made from it, such as a time of another zone, is of this class too.
        if same is True and self.fold and self.tzinfo is None:
            return bool(other.fold)  # type: ignore[attr-defined]
        return same

    def __ne__(self, other: object) -> bool:
        return not self == other

    # That of other datetimes: fold does not count.
    __hash__ = datetime.__hash__

    def __repr__(self) -> str:
        return repr(datetime.combine(self.date(), self.time()))


def local_time(instant: datetime) -> datetime:
    """An aware datetime as a naive one of the local zone, as rows have it."""
    # astimezone would give the offset, and no fold.
    return local_datetime((instant - _EPOCH) // _MICRO)


def distinct(time: datetime) -> datetime:
    """The same local time, as a key that is found by its instant."""
    if not time.fold:
        return time
    clock = (time.hour, time.minute, time.second, time.microsecond)
    return SecondHour(time.year, time.month, time.day, *clock, fold=1)
