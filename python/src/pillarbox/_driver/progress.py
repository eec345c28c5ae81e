"""``progress``: a line in the terminal or notebook that shows how the calls of an action get on."""

from __future__ import annotations

import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from .._base.checks import check
from .._base.unknown_options import answers_unknown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .client.client import DriverClient

# Messages of the last tasks may be on their way when an action ends.
_LAST_S = 0.2


@answers_unknown
def progress(spark: SparkSession) -> AbstractContextManager[None]:
    """Show how the calls of actions inside the ``with`` block get on, in a line on ``sys.stderr``::

        with pb.progress(spark):
            reviews.transform(pb.async_io, score, returns="score double").write.parquet(path)

    While an action runs, the line says for each ``async_io`` and ``async_udf`` how many rows are
    done, how many are in flight, retries, errors, calls a second, and the time left, once a task of
    the stage has ended. When a stage has ended, a line with its sums stays. Where ``sys.stderr`` is
    neither a terminal nor a notebook, only those lines are written. Spark's own progress bar is
    hidden meanwhile.

    It watches the actions that this thread starts, in a classic session and through Spark Connect,
    on the engine "jvm"; streaming queries have their own progress. Tasks report each second.

    Raises :class:`EngineUnavailable` if the session has no jar, and :class:`InvalidOption` for a
    ``spark`` that is no session.
    """
    from .engine import require_jvm

    is_session = isinstance(getattr(spark, "version", None), str)
    check(is_session, "spark", "a SparkSession", spark, "spark")
    return _watched(spark, require_jvm(spark))


@contextmanager
def _watched(spark: SparkSession, client: DriverClient) -> Iterator[None]:
    tag = f"pillarbox-progress-{uuid.uuid4()}"
    client.progress(tag, goes_on=True)
    watch = _Watch(
        lambda goes_on: client.progress(tag, goes_on),
        ProgressLine(sys.stderr, period_s=client.progress_period_s),
    )
    spark.addTag(tag)
    watch.start()
    try:
        yield
    finally:
        try:
            spark.removeTag(tag)
        finally:
            watch.stop()


class _Watch:
    """Asks for figures in a thread of its own, and shows them."""

    def __init__(self, ask: Callable[[bool], list[dict[str, Any]]], line: ProgressLine) -> None:
        self._ask, self._line = ask, line
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pillarbox progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Show the last figures."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ended.wait(self._line.period_s):
                self._line.show(self._ask(True))
            time.sleep(_LAST_S)
            self._line.end(self._ask(False))
        except Exception:  # a session that was stopped, or a server that is gone
            self._line.end([])


class ProgressLine:
    """The text of a progress, from the figures that the driver's ``CallProgress`` gives.

    ``clock`` gives seconds.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        live: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
        period_s: float = 0.4,
    ) -> None:
        self.period_s = period_s
        self._out, self._clock = out, clock
        self._live = _is_live(out) if live is None else live
        self._began: dict[tuple[int, int], float] = {}
        self._calls: dict[tuple[int, int], tuple[float, int]] = {}
        self._told: set[tuple[int, int]] = set()
        self._width = 0

    def show(self, figures: list[dict[str, Any]]) -> None:
        """Write the lines of stages that have ended, and over each other those of the others."""
        self._note(figures)
        self._tell([one for one in figures if one["ended"]])
        running = [self._running(one) for one in figures if not one["ended"]]
        self._write_over(" | ".join(running))

    def end(self, figures: list[dict[str, Any]]) -> None:
        """Write the lines of all stages, whether all of their tasks have run or not."""
        self._note(figures)
        self._tell(figures)
        self._write_over("")

    def _note(self, figures: list[dict[str, Any]]) -> None:
        for one in figures:
            self._began.setdefault(_key(one), self._clock())

    def _tell(self, ended: list[dict[str, Any]]) -> None:
        new = [one for one in ended if _key(one) not in self._told]
        if new:
            self._write_over("")
        for one in new:
            self._told.add(_key(one))
            counts = [_count(one[name], name) for name in ("rows", "calls", "retries", "errors")]
            took = _minutes(self._clock() - self._began[_key(one)])
            self._out.write(f"{one['operator']}: {', '.join(counts)} in {took}\n")
        self._out.flush()

    def _running(self, one: dict[str, Any]) -> str:
        parts = [
            _count(one["rows"], "rows"),
            f"{one['in_flight']:,} in flight",
            _count(one["retries"], "retries"),
            _count(one["errors"], "errors"),
            f"{self._rate(one):,.0f} calls/s",
        ]
        left = self._left(one)
        if left is not None:
            parts.append(f"{_minutes(left)} left")
        return f"{one['operator']}: {', '.join(parts)}"

    def _rate(self, one: dict[str, Any]) -> float:
        """Return the calls a second since the figures before."""
        now, key, calls = self._clock(), _key(one), int(one["calls"])
        then, before = self._calls.get(key, (self._began[key] - self.period_s, 0))
        self._calls[key] = now, calls
        return (calls - before) / max(now - then, 1e-3)

    def _left(self, one: dict[str, Any]) -> float | None:
        """Return the seconds until the stage ends, if all tasks have as many rows as ended ones."""
        passed, rows = self._clock() - self._began[_key(one)], int(one["rows"])
        if not (one["done"] and rows and passed):
            return None
        all_rows: float = one["done_rows"] / one["done"] * max(one["tasks"], one["done"])
        return max(0.0, all_rows - rows) / rows * passed

    def _write_over(self, text: str) -> None:
        if not self._live or not (text or self._width):
            return
        shown = text[: shutil.get_terminal_size().columns - 1]
        self._out.write("\r" + shown.ljust(self._width) + "\r")
        self._width = len(shown)
        self._out.flush()


def _key(one: dict[str, Any]) -> tuple[int, int]:
    return one["stage"], one["node"]


def _is_live(out: TextIO) -> bool:
    """Return True for a terminal and for the cell of a notebook."""
    return out.isatty() or type(out).__module__.startswith("ipykernel")


def _count(number: int, what: str) -> str:
    one = {"rows": "row", "calls": "call", "retries": "retry", "errors": "error"}
    return f"{number:,} {one[what] if number == 1 else what}"


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
