"""Cases of ``call_column`` that the harness and both engines of Spark must answer alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Row

import async_case_functions as f
import pillarbox as pb
from async_cases import COLUMN, ONE, RETRIED, TWO, Case
from spark_support import by_value

by_value(__name__)

CALL = {"call_column": "call"}


def told(rows: list[Row]) -> list[tuple[Any, ...]]:
    """What the column says of each row, without ids and times, and the error's kind."""
    return [
        (
            *(row.x, row.y, row.call.attempts, row.call.from_journal, row.call.usage),
            *((row.error and row.error.kind,) if "error" in row.__fields__ else ()),
        )
        for row in rows
    ]


def own_ids() -> Any:
    async def tell(row):
        return pb.call_id()

    return tell


def ids_of_rows(rows: list[Row]) -> Any:
    """True for rows whose column has the id that the function had, and how many ids there are."""
    return [row.y == row.call.call_id for row in rows], len({row.call.call_id for row in rows})


def ids_of_errors(rows: list[Row]) -> Any:
    bad = [row for row in rows if row.error is not None]
    return [row.error.call_id == row.call.call_id for row in bad]


def reporting() -> Any:
    """Uses 10 tokens in each attempt, and fails in the first of row 1."""

    async def report(row):
        pb.current_call().report_usage(tokens=10, usd=0)
        if row.x and pb.current_call().attempt == 1:
            raise OSError("once more")
        return [row.x, row.x]

    return report


def pausing(then: Exception | None = None) -> Callable[[], Any]:
    """Lets the whole limit pause in the first attempt of row 1, and raises ``then`` in the next."""

    def made() -> Any:
        paused = set()

        async def pause(row):
            if row.x not in paused and row.x:
                paused.add(row.x)
                raise pb.RetryAfter("1ms", all=True)
            if row.x and then is not None:
                raise then
            return pb.current_call().attempt

        return pause

    return made


LIMITED = {"limit": pb.Limit(concurrency=2, scope="task")}


def reporting_lists() -> Any:
    async def report(rows):
        pb.current_call().report_usage(tokens=[1, 2.5], usd=1)
        return [row.x for row in rows]

    return report


def waiting() -> Any:
    async def wait(row):
        import asyncio

        await asyncio.sleep(0.05)
        return row.x

    return wait


def waits(rows: list[Row]) -> list[bool]:
    return [50 <= row.call.elapsed_ms < 60_000 for row in rows]


def of(x: int, y: Any, attempts: int, *error: Any) -> tuple[Any, ...]:
    return (x, y, attempts, False, {}, *error)


def case(name: str, function: Callable[[], Any], expected: Any, options: Any, **more: Any) -> Case:
    more = {"rows": TWO, "view": told, **more}
    return Case(name, function, expected, {**options, **CALL}, **more)


CALL_CASES = [
    case("good rows", f.answering(1, 2), [of(0, 1, 1), of(1, 2, 1)], ONE),
    case("a plain function", f.plain, [of(0, 0, 1), of(1, 2, 1)], ONE),
    case("no order", f.answering(1), [of(0, 1, 1)], {**ONE, "ordered": False}, rows=TWO[:1]),
    case("no rows", f.answering(1), [], ONE, rows=()),
    case(
        "retries",
        f.failing(OSError("1"), OSError("2"), None),
        [of(0, 1, 1), of(1, 3, 3)],
        RETRIED,
    ),
    case("a pause is an attempt", pausing(), [of(0, 1, 1), of(1, 1, 2)], {**ONE, **LIMITED}),
    case(
        "an error after a pause",
        pausing(OSError("1")),
        [of(0, 1, 1, None), of(1, None, 2, "OSError")],
        {**COLUMN, **LIMITED},
    ),
    case(
        "an error as a column",
        f.failing(OSError("1"), OSError("2")),
        [of(0, 1, 1, None), of(1, None, 3, "OSError")],
        {**RETRIED, **COLUMN},
    ),
    case(
        "an error as null",
        f.failing(KeyError("k")),
        [of(0, 1, 1), of(1, None, 1)],
        {**ONE, "on_error": "null"},
    ),
    case(
        "a wrong type",
        f.answering(1, "one"),
        [of(0, 1, 1, None), of(1, None, 1, "RESULT_TYPE_MISMATCH")],
        COLUMN,
    ),
    case(
        "a timeout",
        f.hanging(9),
        [of(1, None, 2, "TIMEOUT")],
        {**COLUMN, "retry": pb.Retry(2, backoff="1 ms"), "timeout": pb.Timeout(attempt="200 ms")},
        rows=TWO[1:],
    ),
    case("no match", f.answering(1, None), [of(0, 1, 1), of(1, None, 1)], ONE),
    case(
        "several rows, of which the first has the call",
        f.answering([1, 2], [], None),
        [of(0, 1, 1), of(0, 2, 0), of(2, None, 1)],
        {**ONE, "explode": True},
        rows=(*TWO, (2, "c")),
    ),
    case("lists", f.sizes, [of(0, 2, 1), of(1, 2, 1)], {**ONE, "batch_size": 2}),
    case(
        "usage of all attempts, with the first row",
        reporting,
        [
            *((0, 0, 1, False, {"tokens": 10}), (0, 0, 0, False, {})),
            *((1, 1, 2, False, {"tokens": 20}), (1, 1, 0, False, {})),
        ],
        {**RETRIED, "explode": True, "usage": ["tokens", "usd"]},
    ),
    case(
        "usage of lists",
        reporting_lists,
        [
            (0, 0, 1, False, {"tokens": 1, "usd": 0.5}),
            (1, 1, 1, False, {"tokens": 2.5, "usd": 0.5}),
        ],
        {**ONE, "batch_size": 2, "usage": ["tokens", "usd"]},
    ),
    case("ids", own_ids, ([True, True], 2), {"returns": "y string"}, view=ids_of_rows),
    case("ids of errors", f.failing(OSError("o")), [True], COLUMN, view=ids_of_errors),
    case("times", waiting, [True, True], ONE, view=waits),
]
