"""``estimate``: what a job of calls will cost, from those of a sample."""

from __future__ import annotations

import inspect
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .._async.ticketed import Ticketed
from .._base.checks import check, check_count, check_frame, needs_other
from .._base.unknown_options import unknown
from .._keyed.input_columns import quoted
from ..budgets import as_budget
from ..limits import Limit, as_limits
from ..options import ErrorColumn, as_batch_size, as_journal, as_on_error
from .async_io import async_io

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CALL, _ERROR = "pillarbox call", "pillarbox error"
_OF_95_PERCENT = 1.96


@dataclass(frozen=True)
class Estimate:
    """What the calls of a whole DataFrame will cost, as :func:`estimate` gives it.

    ``rows`` is their number, of which ``sample`` were called, and the share ``failed`` of those
    failed for good. ``calls`` is what the service would see, a list as one, ``usage`` has the sum
    of each unit that calls have reported, ``duration_s`` is the time in seconds. ``spread`` has
    ``(low, high)`` for "calls" and each unit: the bounds between which the sum is in 95 of 100
    samples.
    """

    rows: int
    sample: int
    failed: float
    calls: int
    usage: dict[str, float]
    duration_s: float
    spread: dict[str, tuple[float, float]]


def estimate(
    df: DataFrame, function: Callable[..., Any], *, sample: int = 100, **options: Any
) -> Estimate:
    """Call ``function`` for a random ``sample`` of rows, and say what all rows of ``df`` will cost.

    ``options`` are those of the :func:`async_io` to come. It makes the sample's calls, with its
    limits and retries, and runs two jobs that read ``df`` whole, one to count rows and one to draw
    the sample. A row that fails for good is counted, whatever ``on_error`` says. With a ``journal``
    the sample's answers are there, so the estimate is of the rows that are left, less the share
    that the journal had already; without one it is of all rows, and the sample is paid twice.
    A ``budget`` holds for the sample, and fails this if the sample spends it, whatever its
    ``on_exceeded`` says: of rows that are left out nothing would be known.

    ``duration_s`` is the longest of what each limit needs for so many calls, and of what
    ``capacity`` in as many tasks as run at a time needs for calls that take as long as those of the
    sample. A limit with scope="executor" counts once, and one with scope="key" not at all. One with
    a ``key`` counts for the value that has most rows, which takes a job that counts them. A table
    with many equal rows costs less with ``journal`` or ``share_calls`` than it says.

    The bounds are those of a mean by the normal distribution, with the correction for a finite
    population (W. G. Cochran, Sampling Techniques, 3rd ed., 1977, chapter 2): good for a sample of
    some fifty rows, too narrow where a few rows cost nearly all. With ``batch_size`` rows of a list
    share what it costs, so the bounds are those of a sample of so many lists.

    Raises what :func:`async_io` raises, and :class:`InvalidOption` for a stream, and for
    ``explode``: of a call that gives no row nothing would be known.
    """
    check_frame(df)
    check_count("sample", sample, 100)
    example = "spark.read.table(...), rows as the stream has them"
    check(not df.isStreaming, "df", "a batch DataFrame", df, example)
    if isinstance(function, Ticketed):
        advice = "Call submit and collect for some rows yourself, and multiply what they cost."
        raise needs_other("function", function, "with pb.estimate, which waits for answers", advice)
    if options.get("explode"):
        advice = "Leave explode out, or run pb.async_io on a sample and read pb.usage of that."
        raise needs_other("explode", options["explode"], "with pb.estimate", advice)
    _check_options(df, function, options)
    rows, tasks = _counted(df)
    count = min(sample, rows)
    if not count:
        return Estimate(0, 0, 0.0, 0, {}, 0.0, {"calls": (0, 0)})
    calls, units = _called(df, function, count, options)
    shares = {key: _largest(df, key) / rows for key in _keys(options)}
    return _Whole(rows, tasks, count, calls, units, options, shares).estimate()


def _check_options(df: DataFrame, function: Callable[..., Any], options: dict[str, Any]) -> None:
    """Refuse before any job what :func:`async_io` would refuse."""
    names = [*inspect.signature(async_io).parameters, "sample"]
    for option in options:
        if option not in names:
            raise unknown(estimate, option, names)
    async_io(df, function, **options)


def _keys(options: dict[str, Any]) -> set[str]:
    limits = as_limits(options.get("limit"))
    return {limit.key for limit in limits if limit.key is not None}


def _largest(df: DataFrame, key: str) -> int:
    """Return the number of rows of the value that has most."""
    from pyspark.sql import functions as F

    counts = df.groupBy(quoted(key)).agg(F.count(F.lit(1)).alias("n"))
    return int(counts.agg(F.max("n")).collect()[0][0])


def _counted(df: DataFrame) -> tuple[int, int]:
    """Return the number of rows, and of tasks that run at a time for them."""
    from pyspark.sql import functions as F

    place = F.spark_partition_id()
    by_partition = df.groupBy(place.alias("partition")).count().collect()
    slots = df.sparkSession.range(10_000).select(place).distinct().count()
    return sum(row["count"] for row in by_partition), max(1, min(len(by_partition), slots))


@dataclass(frozen=True)
class _Called:
    """The call of a row of the sample."""

    attempts: int
    elapsed_ms: int
    usage: dict[str, float]
    failed: bool


def _called(
    df: DataFrame, function: Callable[..., Any], count: int, options: dict[str, Any]
) -> tuple[list[_Called], list[str]]:
    """Return the calls of the sample, and the operator's units."""
    from pyspark.sql import functions as F

    from .._arrow.schema import UNITS

    given = as_on_error(options.get("on_error", "raise"))
    failed = given if isinstance(given, ErrorColumn) else ErrorColumn(_ERROR)
    asked = {**options, "on_error": failed, "call_column": _CALL, "carry_over": False}
    if (budget := as_budget(options.get("budget"))) is not None:
        asked["budget"] = replace(budget, on_exceeded="raise")
    sampled = df.orderBy(F.rand()).limit(count)
    called: Any = async_io(sampled, function, **asked)
    call, error = called[f"`{_CALL}`"], called[f"`{failed.name}`"]
    seen = called.select(call.alias("call"), error.isNotNull().alias("failed")).collect()
    units = list(called.schema[_CALL].metadata[UNITS])
    return [
        _Called(row.call.attempts, row.call.elapsed_ms, row.call.usage or {}, row.failed)
        for row in seen
    ], units


class _Whole:
    """The extrapolation from a sample of ``count`` rows to all."""

    def __init__(
        self,
        rows: int,
        tasks: int,
        count: int,
        calls: Sequence[_Called],
        units: Sequence[str],
        options: dict[str, Any],
        shares: dict[str, float],
    ) -> None:
        self._shares = shares
        self._rows, self._tasks, self._count = rows, tasks, count
        self._calls, self._units, self._options = calls, units, options
        is_kept = as_journal(options.get("journal")) is not None
        self._left = rows - count if is_kept else rows
        batch = as_batch_size(options.get("batch_size"))
        self._list = 1 if batch is None else batch.rows

    def estimate(self) -> Estimate:
        attempts = [float(call.attempts) for call in self._calls]
        units = {*self._units, *(unit for call in self._calls for unit in call.usage)}
        by_unit = {unit: [c.usage.get(unit, 0.0) for c in self._calls] for unit in sorted(units)}
        sums = {unit: self._sum(amounts) for unit, amounts in by_unit.items()}
        calls = self._sum(attempts) / self._list
        low, high = (bound / self._list for bound in self._spread(attempts))
        spread = {unit: self._spread(amounts) for unit, amounts in by_unit.items()}
        return Estimate(
            rows=self._rows,
            sample=self._count,
            failed=_mean([float(call.failed) for call in self._calls]),
            calls=math.ceil(round(calls, 6)),
            usage=sums,
            duration_s=self._duration_s({"calls": calls, **sums}),
            spread={"calls": (low, high), **spread},
        )

    def _sum(self, amounts: Sequence[float]) -> float:
        return _mean(amounts) * self._left

    def _spread(self, amounts: Sequence[float]) -> tuple[float, float]:
        """Return bounds of the sum. The error of all rows is that of the rows that are left."""
        if self._rows == self._count:
            return self._sum(amounts), self._sum(amounts)
        lists = len(amounts) // self._list
        if lists < 2:
            return 0.0, math.inf
        left = self._rows - self._count
        error = statistics.stdev(amounts) * math.sqrt(self._rows * left / lists)
        middle, half = self._sum(amounts), _OF_95_PERCENT * error
        return max(0.0, middle - half), middle + half

    def _duration_s(self, sums: dict[str, float]) -> float:
        made = [call for call in self._calls if call.attempts]
        called = len(made) / max(1, len(self._calls)) * self._left
        call_s = _mean([float(call.elapsed_ms) for call in made]) / 1000
        at_a_time = float(self._options.get("capacity", 100) * self._tasks)
        times = [0.0]
        for limit in as_limits(self._options.get("limit")):
            share = 1.0 if limit.key is None else self._shares[limit.key]
            at_a_time = min(at_a_time, self._most(limit) / share)
            times.append(self._limited_s(limit, sums) * share)
        return max(*times, called * call_s / at_a_time)

    def _most(self, limit: Limit) -> float:
        """Return the rows that a limit lets be called at a time."""
        if limit.concurrency is None or limit.scope == "key":
            return math.inf
        tasks = self._tasks if limit.scope == "task" else 1
        return float(limit.concurrency * tasks * self._list)

    def _limited_s(self, limit: Limit, sums: dict[str, float]) -> float:
        """Return the time that the rates of a limit need for what they count."""
        tasks = self._tasks if limit.scope == "task" else 1
        return sums.get(limit.unit, 0.0) * limit._interval_s / tasks


def _mean(amounts: Sequence[float]) -> float:
    return statistics.fmean(amounts) if amounts else 0.0
