"""The keywords of ``async_io``, of which other functions take some.

Parameters
----------
inputs: the columns that the function sees; all by default. Others pass by untouched.
explode: with True the function returns a list, and each element is a row of the output.
batch_size: the function gets a list of up to so many rows; a :class:`BatchSize` also says how
    long the first row waits for others.
ordered: with True output rows keep the order of the input rows, within a partition or, with
    ``by``, within a key.
by: the columns of a key. Rows are shuffled by it, as in :func:`process_keyed`; a row waits for
    rows of its own key only, and a :class:`Limit` may hold for each key. Engine "jvm" only.
capacity: the number of rows in flight in one task. With ``ordered`` it holds up to ten times as
    many, those that are done and wait for their turn included. With a :class:`Ticketed` it is
    the number of calls at a time alone.
limit: the number of calls that the service may see, as a :class:`Limit` or several. One with
    scope="key" and others hold together. Engine "python" keeps scope="task" only.
budget: when to stop calling, a :class:`Budget`. Engine "jvm" only.
usage: the units in which calls report what they use, such as "tokens", with
    ``current_call().report_usage``. Each has a metric. "calls" and "rows" are counted anyway, and
    no names of units.
timeout: the longest time of a row, over all its attempts and the waiting between them; a
    :class:`Timeout` also bounds one attempt.
retry: the number of attempts, the first included, or a :class:`Retry`; one by default.
on_error: "raise" fails the task; "null" leaves the new columns null; "column", or an
    :class:`ErrorColumn` with another name, does so too and adds the column ``error``:
    struct<kind, message, attempts, elapsed_ms, call_id>, null for good rows. :func:`failed`
    gives the rows that have one, to be fed in again.
call_column: the name of a column that tells of every row's call, "call" for instance:
    struct<call_id string, attempts int, elapsed_ms bigint, from_journal boolean, usage
    map<string,double>>. The sum of attempts and usage over rows is what the rows' calls were:
    where rows share a call, or one gives several rows, the first has them, and the others 0
    attempts and no usage.
resource: a function without parameters that returns an (async) context manager, such as
    ``aiohttp.ClientSession``. It is opened in the worker, before the first call.
    engine="jvm" keeps it open for later tasks of the worker, engine="python" for one task.
call_key: the columns that name a call, by default ``inputs``: rows that are equal in them ask
    the same. It makes :func:`call_id` the same in every run, and needs ``name``. Engine "jvm"
    only.
share_calls: with True, or "task", rows that ask the same, and are in flight in one task, share
    one call. With "query" rows are shuffled first, so that all that ask the same come into one
    task: with a journal each call of a batch is then made once. Engine "jvm" only.
journal: the path of a folder that keeps the answers of calls that succeeded: they are not made
    again after a task, an executor or the job has failed, nor by another run. In a stream True
    is a folder in its checkpoint. A :class:`Journal` also says how long answers count, and
    their version. It needs ``name``. Engine "jvm" only.
carry_over: in a stream a micro-batch ends when its rows are taken in: calls go on between
    micro-batches, and a result leaves with the micro-batch after the one in which it came. The
    checkpoint has the calls in flight. A :class:`CarryOver` says more. It has no effect on a
    batch DataFrame. Engine "jvm" only.
name: the operator's name in plans, metrics and messages; by default the function's name. With
    ``call_key`` or ``journal`` it must be given, since it is part of the ids of calls.
engine: "jvm" (needs the jar, see :func:`configure`; on Spark Connect the server's plugin),
    "python" (needs nothing), or "auto": "jvm" where it is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

from .._base.checks import check_choice, check_count, check_flag, check_name, some_columns
from .._base.keywords import Keyword
from ..budgets import Budget, as_budget
from ..limits import Limit, as_limits
from ..options import (
    BatchSize,
    CarryOver,
    Duration,
    ErrorColumn,
    Journal,
    ShareScope,
    Timeout,
    as_batch_size,
    as_carry_over,
    as_journal,
    as_on_error,
    as_retry,
    as_share_calls,
    as_timeout,
    as_units,
)
from ..retry import Retry
from .resources import check_resource

Engine = Literal["auto", "jvm", "python"]


class CallKeywords(TypedDict, total=False):
    """Those of all calls."""

    capacity: Annotated[int, Keyword(100, check=check_count)]
    limit: Annotated[Limit | Sequence[Limit] | None, Keyword(None, as_limits)]
    budget: Annotated[Budget | None, Keyword(None, as_budget)]
    usage: Annotated[str | Sequence[str], Keyword((), as_units)]
    timeout: Annotated[Duration | Timeout | None, Keyword(None, as_timeout)]
    retry: Annotated[int | Retry | None, Keyword(None, as_retry)]
    on_error: Annotated[
        Literal["raise", "null", "column"] | ErrorColumn, Keyword("raise", as_on_error)
    ]
    resource: Annotated[Callable[[], Any] | None, Keyword(check=check_resource)]


class KeyedCallKeywords(CallKeywords, total=False):
    """Those of ``process_keyed_async``."""

    call_column: Annotated[str | None, Keyword(check=partial(check_name, example="call"))]
    call_key: Annotated[
        str | Sequence[str] | None, Keyword(None, partial(some_columns, "call_key"))
    ]


class UdfKeywords(CallKeywords, total=False):
    """Those of ``async_udf``."""

    name: Annotated[str | None, Keyword(check=partial(check_name, example="weather"))]
    batch_size: Annotated[int | BatchSize | None, Keyword(None, as_batch_size)]
    share_calls: Annotated[bool | ShareScope, Keyword(False, as_share_calls)]
    journal: Annotated[bool | str | os.PathLike[str] | Journal | None, Keyword(None, as_journal)]


class AsyncKeywords(UdfKeywords, KeyedCallKeywords, total=False):
    """Those of ``async_io``."""

    inputs: Annotated[str | Sequence[str] | None, Keyword(None, partial(some_columns, "inputs"))]
    explode: Annotated[bool, Keyword(False, check=check_flag)]
    ordered: Annotated[bool, Keyword(True, check=check_flag)]
    by: Annotated[str | Sequence[str] | None, Keyword(None, partial(some_columns, "by"))]
    carry_over: Annotated[bool | CarryOver, Keyword(False, as_carry_over)]
    engine: Annotated[Engine, Keyword("auto", check=partial(check_choice, choices=Engine))]
