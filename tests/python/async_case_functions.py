"""The functions of ``async_cases``, each by a maker: a case begins with a new one."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

from pyspark.sql import Row

import pillarbox as pb
from spark_support import by_value

by_value(__name__)

FOREVER_S = 3600


def doubled() -> Any:
    async def double(row):
        await asyncio.sleep(0.001 * (8 - row.x))
        return row.x * 2

    return double


def plain() -> Any:
    def double(row):
        return {"y": row.x * 2}

    return double


class Busy(Exception):
    """As the exceptions of HTTP clients."""

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__(headers)
        self.status, self.headers = 429, headers


def failing(*attempts: Any) -> Callable[[], Any]:
    """A function whose attempts raise these, None for an answer; the row of x = 0 is good."""

    def made() -> Any:
        async def fail(row):
            step = attempts[min(pb.current_call().attempt, len(attempts)) - 1] if row.x else None
            if step is not None:
                raise step
            return pb.current_call().attempt

        return fail

    return made


def failing_together(*problems: BaseException) -> Callable[[], Any]:
    """A function whose tasks raise these, and which then gives its attempt."""

    def made() -> Any:
        async def fail(row):
            if row.x and pb.current_call().attempt == 1:
                first, *others = problems
                raise ExceptionGroup("tasks", [ExceptionGroup("inner", [first]), *others])  # noqa: F821
            return pb.current_call().attempt

        return fail

    return made


def hanging(attempts: int) -> Callable[[], Any]:
    """So many attempts never end."""

    def made() -> Any:
        async def hang(row):
            if row.x and pb.current_call().attempt <= attempts:
                await asyncio.sleep(FOREVER_S)
            return pb.current_call().attempt

        return hang

    return made


def waits_for(last: int) -> Callable[[], Any]:
    """Doubles; the call for 0 is answered once that for ``last`` has begun."""

    def made() -> Any:
        begun = []

        async def doubled_in_the_end(row):
            begun.append(row.x)
            for _ in range(500):
                if row.x or last in begun:
                    return 2 * row.x
                await asyncio.sleep(0.02)
            raise TimeoutError(f"{last} has not begun")

        return doubled_in_the_end

    return made


def in_flight(case: str) -> Callable[[], Any]:
    """Answers with the most calls that ran at the same time.

    The worker keeps functions of equal bytes, and so one for each ``case``.
    """

    def made() -> Any:
        now = most = 0

        async def count(row, case=case):
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.03)
            now -= 1
            return most

        return count

    return made


def most(rows: list[Row]) -> int:
    return max(row.y for row in rows)


def sizes() -> Any:
    async def size(rows):
        return [len(rows)] * len(rows)

    return size


def too_few() -> Any:
    async def shorten(rows):
        return [0] * (len(rows) - 1)

    return shorten


def partly(*attempts: Any) -> Callable[[], Any]:
    """Lists of rows, in which attempts of the rows but x = 0 are answered by these exceptions, None
    for an answer: the number of the attempt."""

    def made() -> Any:
        tried: Counter[int] = Counter()

        def one(row):
            tried[row.x] += 1
            step = attempts[min(tried[row.x], len(attempts)) - 1] if row.x else None
            return tried[row.x] if step is None else step

        async def answer(rows):
            return [one(row) for row in rows]

        return answer

    return made


def sizes_after(failures: int) -> Callable[[], Any]:
    """As ``sizes``, but so many attempts of each list fail."""

    def made() -> Any:
        async def size(rows):
            if pb.current_call().attempt <= failures:
                raise OSError("busy")
            return [len(rows)] * len(rows)

        return size

    return made


def answering(*answers: Any) -> Callable[[], Any]:
    """Answers row x with the x-th of these."""

    def made() -> Any:
        async def answer(row):
            return answers[row.x]

        return answer

    return made


def ids() -> Any:
    seen: dict[int, str] = {}

    async def tell(row):
        call = pb.current_call()
        if call.attempt == 1:
            seen[row.x] = call.id
            raise ValueError("again")
        return f"{seen[row.x] == pb.call_id()} {call.operator} {call.id}"

    return tell


def names_of_ids(rows: list[Row]) -> Any:
    told = [row.y.split(" ", 2) for row in rows]
    return {tuple(one[:2]) for one in told}, len({one[2] for one in told})


def of_resource() -> Any:
    async def use(row, client):
        return client(row.x)

    return use


@asynccontextmanager
async def client() -> Any:
    await asyncio.sleep(0)
    yield lambda x: x + 100


def closed() -> Any:
    raise ConnectionError("nobody listens")


class Opened(pb.AsyncFunction):
    """Has a client of its own."""

    def __init__(self) -> None:
        self.added = 0

    async def open(self, ctx):
        self.added = len(ctx.name)

    async def invoke(self, row):
        return row.x + self.added


def exiting() -> Any:
    async def leave(row):
        sys.exit(3)

    return leave


def typed() -> Any:
    async def look(row):
        return {"kinds": " ".join(type(cell).__name__ for cell in row), "back": tuple(row)}

    return look


def width() -> Any:
    async def count(row):
        return len(row)

    return count


def of_y(rows: list[Row]) -> list[Any]:
    return [row.y for row in rows]


def kinds_alone(rows: list[Row]) -> list[str | None]:
    return [row.error and row.error.kind for row in rows]
