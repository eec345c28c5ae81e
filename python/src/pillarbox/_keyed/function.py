"""The base classes of users' keyed functions, one for each form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row

    from .arrow import ArrowContext, ArrowState
    from .opening import OpenContext
    from .surface import AsyncContext, Context


class KeyedProcessFunction:
    """Processes the rows of one key after the other, with state and timers of that key.

    One object serves all keys of a worker, and lives on across tasks and micro-batches: data of a
    key belongs into state, not into attributes. All calls come from one thread.

    ``process`` and ``on_timer`` yield rows, or return one row, a list of rows, or None. A row is a
    dict, tuple, ``Row`` or dataclass with the columns of ``returns``, or the bare value where
    there is just one column; None among rows is a row of nulls. An exception of a method fails the
    task.
    """

    def open(self, ctx: OpenContext) -> None:
        """Called once a worker, before the first row: declare all state here."""

    def process(self, row: Row, ctx: Context) -> Any:
        """Called for every row, with its key as the current one."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def on_timer(self, timestamp: int, ctx: Context) -> Any:
        """Called when a timer set for ``timestamp`` (epoch ms) fires, with its key as current."""
        return None

    def close(self) -> None:
        """Called once when the worker no longer needs the function, in bounded time."""


class AsyncKeyedProcessFunction:
    """Processes rows with calls that are awaited, many keys at a time, with state of each key.

    ``process`` is ``async def``: a coroutine a row, on one event loop a worker, so it must not
    block. Rows of one key never overlap: the next one begins when the one before is wholly done,
    with its retries. Rows of other keys run meanwhile, up to ``capacity`` in one task.

    State is that of the row's key before and after each await, and is used without await. The
    writes of a call count once it has succeeded; those of an attempt that fails, times out or is
    cancelled are undone. There are no timers.

    One object serves all keys of a worker, and lives on across tasks and micro-batches: data of a
    key belongs into state, not into attributes.
    """

    def open(self, ctx: OpenContext) -> None:
        """Called once a worker, before the first row: declare all state here. Not ``async``.

        There is no running event loop yet: clients are opened by ``resource``.
        """

    # This is no coroutine, so that type checkers accept coroutines and asynchronous generators.
    def process(self, row: Row, ctx: AsyncContext) -> Any:
        """``async def``: returns a row, a list of rows or None, or yields rows.

        Rows are written as those of :class:`KeyedProcessFunction`. An exception is retried as
        ``retry`` says, and after the last attempt handled as ``on_error`` says.
        """
        raise NotImplementedError(f"{type(self).__name__}.process")

    def close(self) -> None:
        """Called once when the worker no longer needs the function, in bounded time."""


class ArrowKeyedProcessFunction:
    """The column form: all rows of a frame at once, state as Arrow columns aligned with its keys.

    Has value states, and a timer a key and time domain. Rows of a key keep their order within and
    across batches.
    """

    def open(self, ctx: OpenContext) -> None:
        """Called once a worker, before the first batch: declare all state and timers here."""

    def process(self, batch: pa.RecordBatch, state: ArrowState, ctx: ArrowContext) -> Any:
        """Called with a batch of rows of some keys.

        ``state.index[i]`` is the position of row i's key in ``state.keys``; ``state["n"]`` is the
        state n of these keys, null where there is none, and can be assigned. Returns a RecordBatch
        or Table with the columns of ``returns``, a dict of columns, or None.
        """
        raise NotImplementedError(f"{type(self).__name__}.process")

    def on_timers(self, batch: pa.RecordBatch, state: ArrowState, ctx: ArrowContext) -> Any:
        """Called when timers of some keys fire, with one row a key: the key columns.

        ``ctx.timestamps`` has the times (epoch ms) that the timers were set for, ``ctx.timer`` the
        name of the timer. It is null in ``state`` now, and may be set again. Row i is of
        ``state.keys[i]``. Returns rows as ``process`` does.
        """
        return None

    def close(self) -> None:
        """Called once when the worker no longer needs the function, in bounded time."""
