"""How the same join is written without Pillarbox: one call after another, and gather by chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import aiohttp
import pandas as pd
from pyspark.sql import DataFrame

from .job import WEATHER

ATTEMPTS = 5
CHUNK = 1_000
NOTHING: dict[str, Any] = {}


async def fetch(http: aiohttp.ClientSession, origin: str, time_hour: str) -> dict[str, Any]:
    """One call with the retries that the job has too."""
    for _ in range(ATTEMPTS):
        async with http.get(f"/weather/{origin}/{time_hour}") as answer:
            if answer.status == 404:
                return NOTHING
            if answer.status == 503:
                delay = float(answer.headers.get("Retry-After", 1))
            else:
                answer.raise_for_status()
                return await answer.json()
        await asyncio.sleep(delay)
    raise RuntimeError(f"{origin} {time_hour}: unavailable {ATTEMPTS} times")


def one_after_another(flights: DataFrame, url: str) -> DataFrame:
    """Each task has one call in flight."""
    return _map(flights, url, chunk=1)


def gather_by_chunk(flights: DataFrame, url: str) -> DataFrame:
    """Each task has up to 1,000 calls in flight, then waits for the slowest of them."""
    return _map(flights, url, chunk=CHUNK)


def _map(flights: DataFrame, url: str, chunk: int) -> DataFrame:
    schema = ", ".join(f"`{n}` {t}" for n, t in flights.dtypes)
    return flights.mapInPandas(_enrich(url, chunk), f"{schema}, {WEATHER}")


def _enrich(url: str, chunk: int) -> Callable[[Iterable[pd.DataFrame]], Iterator[pd.DataFrame]]:
    def enrich(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        loop = asyncio.new_event_loop()
        http = loop.run_until_complete(_session(url))
        try:
            for frame in frames:
                for start in range(0, len(frame), chunk):
                    part = frame.iloc[start : start + chunk].reset_index(drop=True)
                    calls = map(fetch, [http] * len(part), part.origin, part.time_hour)
                    found = loop.run_until_complete(_gather(list(calls)))
                    yield part.join(pd.DataFrame(found, columns=COLUMNS))
        finally:
            loop.run_until_complete(http.close())
            loop.close()

    return enrich


COLUMNS = [column.split()[0] for column in WEATHER.split(", ")]


async def _session(url: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0))


async def _gather(calls: list[Any]) -> list[dict[str, Any]]:
    return await asyncio.gather(*calls)
