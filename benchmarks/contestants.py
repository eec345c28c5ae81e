"""The same calls made in every way that PySpark offers. Each takes (id, seconds) and adds answer.

A call sleeps its seconds and answers them: what is measured is how many calls are kept waiting
at the same time, not how fast anything computes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row

import pillarbox as pb

SCHEMA = "id bigint, seconds double, answer double"
Frames = Iterator[pd.DataFrame]


async def call(row: Row) -> float:
    await asyncio.sleep(row.seconds)
    return float(row.seconds)


def ours(engine: str, capacity: int, ordered: bool = False) -> Callable[[DataFrame], DataFrame]:
    """Pillarbox, unordered by default."""

    def run(df: DataFrame) -> DataFrame:
        return pb.async_io(
            df, call, returns="answer double", ordered=ordered, capacity=capacity, engine=engine
        )

    return run


class KeyedCalls(pb.AsyncKeyedProcessFunction):
    """The same call, and a count of the key's rows as state."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    async def process(self, row: Row, ctx: Any) -> tuple[int, float, float]:
        answer = await call(row)
        self.n.update((self.n.value() or 0) + 1)
        return row.id, row.seconds, answer


def by_key(keys: int, capacity: int) -> dict[str, Callable[[DataFrame], DataFrame]]:
    """Pillarbox's calls of which those of one key never overlap, by the way's name."""

    def keyed(df: DataFrame) -> DataFrame:
        return df.selectExpr("*", f"id % {keys} AS k")

    return {
        "pb.async_io, by": lambda df: pb.async_io(
            keyed(df), call, returns="answer double", by="k", capacity=capacity
        ),
        "pb.process_keyed_async": lambda df: pb.process_keyed_async(
            keyed(df), KeyedCalls(), by="k", returns=SCHEMA, capacity=capacity
        ),
    }


def gather(chunk: int, capacity: int) -> Callable[[DataFrame], DataFrame]:
    """asyncio.gather over `chunk` rows at a time, `capacity` of them in flight: each chunk waits
    for its slowest call."""

    def enrich(frames: Frames) -> Frames:
        loop = asyncio.new_event_loop()
        try:
            for frame in frames:
                for start in range(0, len(frame), chunk):
                    part = frame.iloc[start : start + chunk]
                    answers = loop.run_until_complete(_gather(part.seconds.tolist(), capacity))
                    yield part.assign(answer=answers)
        finally:
            loop.close()

    return lambda df: df.mapInPandas(enrich, SCHEMA)


async def _gather(seconds: list[float], capacity: int) -> list[float]:
    slots = asyncio.Semaphore(capacity)

    async def one(call_seconds: float) -> float:
        async with slots:
            return await _sleep(call_seconds)

    return await asyncio.gather(*map(one, seconds))


async def _sleep(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


def window(capacity: int) -> Callable[[DataFrame], DataFrame]:
    """The best that can be written by hand: a window of `capacity` calls that slides over the whole
    partition, across batches."""

    def enrich(frames: Frames) -> Frames:
        loop = asyncio.new_event_loop()
        rows = (row for frame in frames for row in zip(frame.id, frame.seconds, strict=True))
        sliding = SlidingWindow(loop, rows, capacity)
        try:
            while answers := loop.run_until_complete(sliding.take()):
                yield pd.DataFrame(answers, columns=["id", "seconds", "answer"])
        finally:
            loop.close()

    return lambda df: df.mapInPandas(enrich, SCHEMA)


class SlidingWindow:
    """Keeps `capacity` calls in flight; answers are taken by the chunk, in order of completion.

    One callback a call and one wake-up a turn of the loop: `asyncio.wait` would touch every call
    in flight at each completion.
    """

    CHUNK = 1_000

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rows: Iterator[tuple[int, float]], capacity: int
    ) -> None:
        self.loop, self.rows, self.capacity = loop, rows, capacity
        self.in_flight = 0
        self.answers: list[tuple[int, float, float]] = []
        self.failure: BaseException | None = None
        self.changed = asyncio.Event()

    async def take(self) -> list[tuple[int, float, float]]:
        """The next answers; empty at the end."""
        while True:
            self.fill()
            if len(self.answers) >= self.CHUNK or not self.in_flight:
                answers, self.answers = self.answers, []
                return answers
            self.changed.clear()
            await self.changed.wait()
            if self.failure:
                raise self.failure

    def fill(self) -> None:
        while self.in_flight < self.capacity and (row := next(self.rows, None)) is not None:
            self.in_flight += 1
            self.loop.create_task(self.answer(*row))

    async def answer(self, key: int, seconds: float) -> None:
        try:
            answer = await _sleep(seconds)
            # Not in one expression with the await: take() may have swapped the list meanwhile.
            self.answers.append((key, seconds, answer))
        except BaseException as failure:
            self.failure = failure
        self.in_flight -= 1
        self.changed.set()
