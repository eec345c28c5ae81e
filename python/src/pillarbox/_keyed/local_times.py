"""Timestamps as functions see them: naive datetimes of the local zone, with ``fold``.

When summer time ends, an hour comes twice, and one naive datetime stands for two instants. ``fold``
distinguishes them, but Python's comparison and dicts ignore it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from .._arrow.readers import local_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICRO = timedelta(microseconds=1)


class SecondHour(datetime):
    """A time in the second of two such hours; it is not equal to the same time in the first."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        same = datetime.__eq__(self, other)
        # Values derived from this one, such as a time of another zone, have this class too.
        if same is True and self.fold and self.tzinfo is None:
            return bool(other.fold)  # type: ignore[attr-defined]
        return same

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = datetime.__hash__  # fold does not count

    def __repr__(self) -> str:
        return repr(datetime.combine(self.date(), self.time()))


def local_time(instant: datetime) -> datetime:
    """Return an aware datetime as the naive one of the local zone that rows have."""
    # astimezone would return the offset, and no fold.
    return local_datetime((instant - _EPOCH) // _MICRO)


def distinct(time: datetime) -> datetime:
    """Return the same local time as a key that is equal only to the same instant."""
    if not time.fold:
        return time
    clock = (time.hour, time.minute, time.second, time.microsecond)
    return SecondHour(time.year, time.month, time.day, *clock, fold=1)
