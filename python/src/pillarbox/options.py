"""The option objects, for which plain values stand, with the fields that those leave out.

Each is a frozen dataclass that checks itself when it is made, compares by value, and can be
pickled. Its first field may be given by place. All raise :class:`InvalidOption`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar, get_args

from ._base.checks import (
    check,
    check_choice,
    check_count,
    check_name,
    check_text,
    path_text,
)
from ._base.durations import milliseconds
from ._base.unknown_options import answers_unknown
from .errors import error
from .limits import Breaker as Breaker
from .limits import Limit as Limit
from .retry import Retry

Duration = str | timedelta
ShareScope = Literal["task", "query"]
StateBackend = Literal["rocksdb", "heap"]

MOST_PARTS = 10_000


def check_parts(option: str, value: int) -> None:
    """Accept a number of parts that an operator may have."""
    check_count(option, value, 8)
    check(value <= MOST_PARTS, option, f"at most {MOST_PARTS}", value, MOST_PARTS)


@answers_unknown
@dataclass(frozen=True)
class Timeout:
    """The longest time of a row; ``timeout="30s"`` is ``pb.Timeout("30s")``.

    Parameters
    ----------
    total: for one row over all its attempts and the waiting between them, from its first call.
    attempt: for one attempt; what then happens is up to ``retry``. At most ``total``.
    """

    total: Duration | None = None
    _: KW_ONLY
    attempt: Duration | None = None

    def __post_init__(self) -> None:
        total, attempt = self._total_ms, self._attempt_ms
        if total and attempt > total:
            raise error(
                "TIMEOUT_BELOW_ATTEMPT_TIMEOUT", timeout_ms=total, attempt_timeout_ms=attempt
            )

    @property
    def _total_ms(self) -> int:
        """The milliseconds of ``total``; 0 for none."""
        return _milliseconds("timeout", self.total)

    @property
    def _attempt_ms(self) -> int:
        """The milliseconds of ``attempt``; 0 for none."""
        return _milliseconds("timeout.attempt", self.attempt)


@answers_unknown
@dataclass(frozen=True)
class ErrorColumn:
    """Failed rows have nulls and this column tells why; ``on_error="column"`` is
    ``pb.ErrorColumn()``.

    The column is ``struct<kind string, message string, attempts int, elapsed_ms bigint,
    call_id string>``, called ``name``, and null in good rows.
    """

    name: str = "error"

    def __post_init__(self) -> None:
        check_name("on_error.name", self.name, "why")


@answers_unknown
@dataclass(frozen=True)
class BatchSize:
    """The function gets a list of rows; ``batch_size=8`` is ``pb.BatchSize(8)``.

    Parameters
    ----------
    rows: the most rows of a list.
    wait: the time for which its first row waits for others.
    """

    rows: int
    _: KW_ONLY
    wait: Duration = "10ms"

    def __post_init__(self) -> None:
        check_count("batch_size", self.rows, 8)
        _ = self._wait_ms

    @property
    def _wait_ms(self) -> int:
        """The milliseconds of ``wait``."""
        return milliseconds(self.wait, "batch_size.wait")


@answers_unknown
@dataclass(frozen=True)
class CarryOver:
    """Calls outlive their micro-batch; ``carry_over=True`` is ``pb.CarryOver()``.

    Parameters
    ----------
    max_lag: once the oldest row is in flight for longer than this, a micro-batch with rows waits
        for it. A call that may hang needs ``timeout``.
    max_rows: with ``ordered``, rows of a slot in flight or behind a slow one; ten times the
        capacity by default, as without carry-over.
    slots: the parts into which the rows are divided, without a shuffle; each may have ``capacity``
        calls in flight. By default as many as tasks run at a time. The checkpoint keeps the number.
    """

    _: KW_ONLY
    max_lag: Duration = "30s"
    max_rows: int | None = None
    slots: int | None = None

    def __post_init__(self) -> None:
        _ = self._max_lag_ms
        if self.max_rows is not None:
            check_count("carry_over.max_rows", self.max_rows, 1000)
        if self.slots is not None:
            check_parts("carry_over.slots", self.slots)

    @property
    def _max_lag_ms(self) -> int:
        """The milliseconds of ``max_lag``."""
        return milliseconds(self.max_lag, "carry_over.max_lag")


@answers_unknown
@dataclass(frozen=True)
class Journal:
    """The journal of answers; ``journal="hdfs:///answers"`` is ``pb.Journal("hdfs:///answers")``,
    and ``journal=True`` is ``pb.Journal()``.

    Parameters
    ----------
    path: a folder; without one, in a stream, a folder in its checkpoint.
    ttl: the time for which answers count; for ever by default.
    version: a text that is part of a call's name. Under another version everything is asked again,
        and the operator keeps its ``name``.
    """

    path: str | os.PathLike[str] | None = None
    _: KW_ONLY
    ttl: Duration | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        if self.path is not None:
            path_text("journal", self.path, "hdfs:///journals/weather")
        _ = self._ttl_ms
        if self.version is not None:
            check_name("journal.version", self.version, "model 3", "a text that isn't empty")

    @property
    def _ttl_ms(self) -> int:
        """The milliseconds of ``ttl``; 0 for ever."""
        return _milliseconds("journal.ttl", self.ttl)


@answers_unknown
@dataclass(frozen=True)
class Backend:
    """The storage of state between micro-batches; ``backend="heap"`` is ``pb.Backend("heap")``.

    Parameters
    ----------
    state: "rocksdb" or "heap".
    timers: the same for timers; as ``state`` by default.
    """

    state: StateBackend = "rocksdb"
    _: KW_ONLY
    timers: StateBackend | None = None

    def __post_init__(self) -> None:
        check_choice("backend", self.state, StateBackend)
        if self.timers is not None:
            check_choice("backend.timers", self.timers, StateBackend)

    @property
    def _of_timers(self) -> StateBackend:
        """The backend of timers."""
        return self.state if self.timers is None else self.timers


T = TypeVar("T")


def as_timeout(value: object) -> Timeout:
    """Convert the option ``timeout=``. Raises ``InvalidOption``."""
    if value is None:
        return Timeout()
    return _as(Timeout, value, (str, timedelta), "timeout", "a duration or a pb.Timeout", '"5s"')


def as_retry(value: object) -> Retry | None:
    """Convert the option ``retry=``. Raises ``InvalidOption``."""
    return None if value is None else _as(Retry, value, int, "retry", "a count or a pb.Retry", 3)


def as_batch_size(value: object) -> BatchSize | None:
    """Convert the option ``batch_size=``. Raises ``InvalidOption``."""
    if value is None:
        return None
    return _as(BatchSize, value, int, "batch_size", "a number of rows or a pb.BatchSize", 8)


def as_carry_over(value: object) -> CarryOver | None:
    """Convert the option ``carry_over=``. Raises ``InvalidOption``."""
    if isinstance(value, bool):
        return CarryOver() if value else None
    expected = "True, False or a pb.CarryOver"
    return _as(CarryOver, value, (), "carry_over", expected, True)


def as_journal(value: object) -> Journal | None:
    """Convert the option ``journal=``. Raises ``InvalidOption``."""
    if value is None or isinstance(value, bool):
        return Journal() if value else None
    expected = "the path of a folder, True for one in the checkpoint of a stream, or a pb.Journal"
    example = '"hdfs:///journals/weather"'
    return _as(Journal, value, (str, os.PathLike), "journal", expected, example)


def as_backend(value: object) -> Backend:
    """Convert the option ``backend=``. Raises ``InvalidOption``."""
    expected = '"rocksdb", "heap" or a pb.Backend'
    return _as(Backend, value, str, "backend", expected, '"rocksdb"')


def as_share_calls(value: object) -> ShareScope | None:
    """Convert the option ``share_calls=``. Raises ``InvalidOption``."""
    if isinstance(value, bool):
        return "task" if value else None
    fits = value in get_args(ShareScope) if isinstance(value, str) else False
    check(fits, "share_calls", 'True, False, "task" or "query"', value, True)
    return value  # type: ignore[return-value]


def as_units(value: object) -> tuple[str, ...]:
    """Convert the option ``usage=``. Raises ``InvalidOption``."""
    return checked_units("usage", value, '["tokens", "usd"]', "which are counted anyway")


def checked_units(option: str, value: object, example: str, own: str) -> tuple[str, ...]:
    """Return names of units; ``own`` tells of calls and rows, which are none."""
    expected = f'different names of units, but not "calls" or "rows", {own}'
    units: Any = (value,) if isinstance(value, str) else value
    is_list = isinstance(units, Sequence) and all(isinstance(one, str) for one in units)
    fits = is_list and len(set(units)) == len(units) and not {"", "calls", "rows"} & set(units)
    check(fits, option, expected, value, example)
    for unit in units:
        check_text(option, unit, example)
    return tuple(units)


def as_on_error(value: object) -> Literal["raise", "null"] | ErrorColumn:
    """Convert the option ``on_error=``. Raises ``InvalidOption``."""
    if isinstance(value, ErrorColumn):
        return value
    fits = isinstance(value, str) and value in ("raise", "null", "column")
    check(fits, "on_error", '"raise", "null", "column" or a pb.ErrorColumn', value, '"column"')
    return ErrorColumn() if value == "column" else value  # type: ignore[return-value]


def _as(kind: type[T], value: object, plain: Any, option: str, expected: str, example: object) -> T:
    if isinstance(value, kind):
        return value
    fits = isinstance(value, plain) and not isinstance(value, bool)
    check(fits, option, expected, value, example)
    made: Any = kind
    return made(value)  # type: ignore[no-any-return]


def _milliseconds(option: str, value: Duration | None) -> int:
    return 0 if value is None else milliseconds(value, option)
