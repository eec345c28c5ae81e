"""Cases of ``async_io`` that the harness and Spark must answer alike.

A case makes its function anew in each run. What depends on real time (how long a call took) is
left out of what is compared.
"""

from __future__ import annotations

import datetime
import decimal
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Row

import async_case_functions as f
import pillarbox as pb
from spark_support import by_value

by_value(__name__)

SCHEMA = "x bigint, s string"
NAN = float("nan")
ROWS = tuple((x, f"row {x}") for x in range(8))


@dataclass(frozen=True)
class Fails:
    """``kind`` is the class of the user's exception, or the condition of ours."""

    kind: str
    message: str = ""


@dataclass(frozen=True)
class Case:
    """``expected`` is what ``view`` makes of the rows; without it the rows by place, or in their
    sorted order where the output has none."""

    name: str
    function: Callable[[], Any]
    expected: Any
    options: dict[str, Any]
    rows: Sequence[tuple[Any, ...]] = ROWS
    schema: str = SCHEMA
    view: Callable[[list[Row]], Any] | None = None
    only_jvm: bool = False
    resource: Callable[[], Any] | None = None

    def seen(self, rows: list[Row]) -> Any:
        if self.view is not None:
            return self.view(rows)
        plain = [comparable(row) for row in rows]
        return plain if self.options.get("ordered", True) else sorted(plain, key=repr)


def comparable(row: Row) -> tuple[Any, ...]:
    """The row without times and ids of calls: an error is its kind, message and attempts."""
    return tuple(
        (cell.kind, untimed(cell.message), cell.attempts)
        if isinstance(cell, Row) and "call_id" in cell.asDict()
        else cell
        for cell in row
    )


def untimed(message: str) -> str:
    return re.sub(r"\d+ ms", "N ms", message)


TYPES = (
    "i int, d double, n decimal(10,2), day date, at timestamp, b binary, flag boolean, "
    "xs array<int>, m map<string,int>, p struct<a:int,b:string>"
)
TYPED = (
    7,
    1.5,
    decimal.Decimal("3.50"),
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 7, 1, 12, 30, 0, 5),
    bytearray(b"\x00\xff"),
    True,
    [1, 2],
    {"k": 1},
    Row(a=1, b="x"),
)
KINDS = "int float Decimal date datetime bytes bool list dict Row"

ONE = {"returns": "y bigint"}
RETRIED = {**ONE, "retry": pb.Retry(3, backoff="10ms")}
COLUMN = {**ONE, "on_error": "column"}
TWO = ((0, "a"), (1, "b"))
GOOD = (0, "a", 1)


def failed(kind: str, message: str, attempts: int = 1) -> list[tuple[Any, ...]]:
    """The rows of TWO under COLUMN, of which the second failed."""
    return [(*GOOD, None), (1, "b", None, (kind, message, attempts))]


# What asyncio.TaskGroup raises; Python 3.10 has neither.
GROUPS = (
    [
        Case(
            "a group of one exception",
            f.failing_together(OSError("o")),
            [GOOD, (1, "b", 2)],
            RETRIED,
            rows=TWO,
        ),
        Case(
            "a group of one exception that ends it",
            f.failing_together(OSError("o")),
            failed("OSError", "o"),
            COLUMN,
            rows=TWO,
        ),
        Case(
            "a group with one that is not retryable",
            f.failing_together(OSError("o"), pb.RetryAfter(0.01), pb.NotRetryable("no")),
            failed("NotRetryable", "no"),
            {**RETRIED, **COLUMN},
            rows=TWO,
        ),
        Case(
            "a group with RetryAfter",
            f.failing_together(KeyError("k"), pb.RetryAfter(0.01)),
            [GOOD, (1, "b", 2)],
            {**ONE, "retry": pb.Retry(2, backoff="20 s", on=OSError)},
            rows=TWO,
        ),
    ]
    if sys.version_info >= (3, 11)
    else []
)

TIMEOUT = (
    "The call was not answered within its total timeout: N ms since the first attempt, in attempt "
    "{}. Raise the timeout, or look at why the service is slow."
)
ATTEMPT_TIMEOUT = (
    "Attempt {} of the call was not answered within its attempt timeout: N ms. "
    "Raise attempt of pb.Timeout, or look at why the service is slow."
)
DOUBLED = [(x, f"row {x}", 2 * x) for x in range(8)]

CASES = [
    Case("order", f.doubled, DOUBLED, ONE),
    Case("no order", f.doubled, DOUBLED, {**ONE, "ordered": False}),
    Case("a plain function", f.plain, DOUBLED, ONE),
    Case("no rows", f.doubled, [], ONE, rows=()),
    Case("capacity", f.in_flight("capacity"), 3, {**ONE, "capacity": 3}, view=f.most),
    Case("a slow call among others", f.waits_for(7), DOUBLED, {**ONE, "capacity": 2}),
    Case(
        "capacity without order",
        f.in_flight("no order"),
        3,
        {**ONE, "capacity": 3, "ordered": False},
        view=f.most,
    ),
    Case(
        "a limit",
        f.in_flight("task"),
        2,
        {**ONE, "limit": pb.Limit(concurrency=2, scope="task")},
        view=f.most,
    ),
    Case(
        "a limit of the query",
        f.in_flight("query"),
        2,
        {**ONE, "limit": pb.Limit(concurrency=2)},
        view=f.most,
        only_jvm=True,
    ),
    Case(
        "a limit of each value",
        f.in_flight("values"),
        3,
        {**ONE, "limit": pb.Limit(concurrency=1, key="s", scope="task"), "ordered": False},
        rows=[(n, one) for n, one in enumerate((NAN, None, 0.0, -0.0, NAN, None, -0.0, NAN))],
        schema="x bigint, s double",
        view=f.most,
    ),
    Case(
        "a limit of each value, over structs",
        f.in_flight("structs"),
        2,
        {**ONE, "limit": pb.Limit(concurrency=1, key="S", scope="task"), "capacity": 2},
        rows=[(n, (NAN if n % 2 else n % 4 * 0.0, [b"b"])) for n in range(8)],
        schema="x bigint, s struct<d: double, b: array<binary>>",
        view=f.most,
    ),
    Case("inputs", f.width, [(x, s, 1) for x, s in ROWS], {**ONE, "inputs": "s"}),
    Case("an error ends it", f.failing(KeyError("k")), Fails("KeyError", "'k'"), ONE, rows=TWO),
    Case(
        "an error as null",
        f.failing(KeyError("k")),
        [GOOD, (1, "b", None)],
        {**ONE, "on_error": "null"},
        rows=TWO,
    ),
    Case(
        "an error as a column",
        f.failing(KeyError("k")),
        failed("KeyError", "'k'"),
        COLUMN,
        rows=TWO,
    ),
    Case(
        "an error column with a name",
        f.failing(OSError("no")),
        failed("OSError", "no"),
        {**ONE, "on_error": pb.ErrorColumn("why")},
        rows=TWO,
    ),
    Case(
        "retries help",
        f.failing(OSError("1"), OSError("2"), None),
        [GOOD, (1, "b", 3)],
        RETRIED,
        rows=TWO,
    ),
    Case(
        "retries don't help",
        f.failing(OSError("1"), OSError("2"), OSError("3")),
        failed("OSError", "3", 3),
        {**RETRIED, **COLUMN},
        rows=TWO,
    ),
    Case(
        "the last error ends it",
        f.failing(OSError("1"), OSError("2")),
        Fails("OSError", "2"),
        {**ONE, "retry": 2},
        rows=TWO,
    ),
    Case(
        "a mistake is not retried",
        f.failing(TypeError("t")),
        failed("TypeError", "t"),
        {**RETRIED, **COLUMN},
        rows=TWO,
    ),
    Case(
        "not retryable",
        f.failing(pb.NotRetryable("no")),
        failed("NotRetryable", "no"),
        {**RETRIED, **COLUMN},
        rows=TWO,
    ),
    Case(
        "a failure beside a column that takes no null",
        f.failing(KeyError("k")),
        failed("KeyError", "'k'"),
        {**COLUMN, "returns": "y bigint NOT NULL"},
        rows=TWO,
    ),
    *GROUPS,
    Case(
        "retry.on",
        f.failing(KeyError("k"), OSError("o")),
        failed("OSError", "o", 2),
        {**COLUMN, "retry": pb.Retry(5, backoff="10ms", on=KeyError)},
        rows=TWO,
    ),
    Case(
        "retry.on that fails",
        f.failing(KeyError("k")),
        Fails("AttributeError"),
        {**ONE, "retry": pb.Retry(5, on=lambda e: e.nothing)},
        rows=TWO,
    ),
    Case(
        "RetryAfter",
        f.failing(pb.RetryAfter(0.01), None),
        [GOOD, (1, "b", 2)],
        {**ONE, "retry": pb.Retry(2, backoff="20 s")},
        rows=TWO,
    ),
    Case(
        "the header Retry-After of an exception",
        f.failing(f.Busy({"Retry-After": "10 ms"}), None),
        [GOOD, (1, "b", 2)],
        {**ONE, "retry": pb.Retry(2, backoff="20 s"), "timeout": "10 s"},
        rows=TWO,
    ),
    Case(
        "RetryAfter without retry",
        f.failing(pb.RetryAfter(1)),
        Fails("RETRY_AFTER_WITHOUT_RETRY"),
        ONE,
        rows=TWO,
    ),
    Case(
        "a refused result is the last one",
        f.answering(1, 0),
        [GOOD, (1, "b", 0)],
        {**ONE, "retry": pb.Retry(2, backoff="1ms", if_result=lambda y: y == 0)},
        rows=TWO,
    ),
    Case(
        "a timeout",
        f.hanging(9),
        failed("TIMEOUT", TIMEOUT.format(1))[1:],
        {**COLUMN, "timeout": "300 ms"},
        rows=TWO[1:],
    ),
    Case(
        "a timeout ends it",
        f.hanging(9),
        Fails("TIMEOUT"),
        {**ONE, "timeout": "300 ms"},
        rows=TWO[1:],
    ),
    Case(
        "a timeout of an attempt",
        f.hanging(1),
        [(1, "b", 2)],
        {**RETRIED, "timeout": pb.Timeout("1 minute", attempt="2 s")},
        rows=TWO[1:],
    ),
    Case(
        "a timeout of each attempt",
        f.hanging(9),
        failed("TIMEOUT", ATTEMPT_TIMEOUT.format(2), 2)[1:],
        {**COLUMN, "retry": pb.Retry(2, backoff="1 ms"), "timeout": pb.Timeout(attempt="200 ms")},
        rows=TWO[1:],
    ),
    Case(
        "a timeout in the back-off",
        f.failing(OSError("o")),
        failed("TIMEOUT", TIMEOUT.format(1))[1:],
        {**COLUMN, "retry": pb.Retry(2, backoff="20 s"), "timeout": "1 s"},
        rows=TWO[1:],
    ),
    Case(
        "ids of calls",
        f.ids,
        ({("True", "ids.tell")}, 8),
        {"returns": "y string", "retry": pb.Retry(2, backoff="1ms")},
        view=f.names_of_ids,
    ),
    Case(
        "the operator's name",
        f.ids,
        ({("True", "teller")}, 8),
        {"returns": "y string", "retry": pb.Retry(2, backoff="1ms"), "name": "teller"},
        view=f.names_of_ids,
    ),
    Case(
        "lists of rows",
        f.sizes,
        [3, 3, 3, 3, 3, 3, 2, 2],
        {**ONE, "batch_size": pb.BatchSize(3, wait="20 seconds")},
        view=f.of_y,
    ),
    Case(
        "lists of one capacity",
        f.sizes,
        2,
        {**ONE, "capacity": 2, "batch_size": pb.BatchSize(2, wait="20 seconds")},
        view=f.most,
    ),
    Case(
        "lists that failed come back as they were",
        f.sizes_after(3),
        [4] * 8,
        {
            **ONE,
            "batch_size": pb.BatchSize(4, wait="50ms"),
            "retry": pb.Retry(4, backoff="400ms", multiplier=1, jitter=1),
        },
        view=f.of_y,
    ),
    Case(
        "a failure in a list",
        f.partly(OSError("1"), KeyError("k")),
        failed("KeyError", "'k'", 2),
        {**RETRIED, **COLUMN, "batch_size": 2},
        rows=TWO,
    ),
    Case(
        "a failure in a list ends it",
        f.partly(pb.RetryAfter(0.01), KeyError("k")),
        Fails("KeyError", "'k'"),
        {**RETRIED, "batch_size": 2},
        rows=TWO,
    ),
    Case(
        "a failure in a list that is over",
        f.partly(pb.RetryAfter(0.01), OSError("o"), None),
        [GOOD, (1, "b", 3)],
        {**RETRIED, "batch_size": 2},
        rows=TWO,
    ),
    Case(
        "an exit in a list",
        f.partly(SystemExit(3)),
        Fails("FUNCTION_EXITED"),
        {**ONE, "batch_size": 2},
    ),
    Case(
        "a list that is too short",
        f.too_few,
        Fails("RESULT_SHAPE_MISMATCH"),
        {**ONE, "batch_size": 8},
    ),
    Case(
        "several rows",
        f.answering([1, 2], [], None),
        [(0, "a", 1), (0, "a", 2), (2, "c", None)],
        {**ONE, "explode": True},
        rows=(*TWO, (2, "c")),
    ),
    Case(
        "no list under explode",
        f.answering([1], 5),
        Fails("RESULT_SHAPE_MISMATCH"),
        {**ONE, "explode": True},
        rows=TWO,
    ),
    Case("no match", f.answering(1, None), [GOOD, (1, "b", None)], ONE, rows=TWO),
    Case(
        "no match that must be",
        f.answering(1, None),
        Fails("RESULT_TYPE_MISMATCH", "y must be bigint and not null"),
        {"returns": "y bigint NOT NULL"},
        rows=TWO,
    ),
    Case(
        "an exception that isn't raised",
        f.answering(1, KeyError("k")),
        Fails("RESULT_SHAPE_MISMATCH", "Raise it"),
        ONE,
        rows=TWO,
    ),
    Case("a wrong type", f.answering(1, "one"), Fails("RESULT_TYPE_MISMATCH"), ONE, rows=TWO),
    Case(
        "a wrong type as a column",
        f.answering(1, "one"),
        [None, "RESULT_TYPE_MISMATCH"],
        COLUMN,
        rows=TWO,
        view=f.kinds_alone,
    ),
    Case(
        "a name that is nearly right",
        f.answering({"y": 1}, {"Y": 2}),
        Fails("UNKNOWN_FIELD"),
        ONE,
        rows=TWO,
    ),
    Case("a resource", f.of_resource, [(x, s, x + 100) for x, s in ROWS], ONE, resource=f.client),
    Case(
        "a resource that can't be opened",
        f.of_resource,
        Fails("ConnectionError", "nobody listens"),
        ONE,
        resource=f.closed,
    ),
    Case(
        "a function with a client",
        f.Opened,
        [(x, s, x + 5) for x, s in ROWS],
        {**ONE, "name": "money"},
    ),
    Case("a function that exits", f.exiting, Fails("FUNCTION_EXITED"), ONE),
    Case(
        "types",
        f.typed,
        [(*TYPED, KINDS, Row(*TYPED))],
        {"returns": f"kinds string, back struct<{TYPES}>"},
        rows=(TYPED,),
        schema=TYPES,
    ),
]


def names(case: Case) -> str:
    return case.name
