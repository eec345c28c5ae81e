"""The PySpark job: every flight asks the service for the weather at its hour of departure.

This is the part to copy. `with_weather` works on a batch and on a streaming DataFrame alike.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import aiohttp
from pyspark.sql import DataFrame, Row

import pillarbox as pb

WEATHER = "temp double, wind_speed double, wind_gust double, precip double, visib double"
RETURNS = f"{WEATHER}, latency_ms double"
CAPACITY = 100


def open_session(url: str) -> aiohttp.ClientSession:
    """One HTTP session a Python worker, shared by all its calls."""
    # The operator bounds the calls in flight, so the session need not.
    return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0))


async def weather(row: Row, http: aiohttp.ClientSession) -> dict[str, float | None] | None:
    """One call: the weather at the flight's airport and hour; None where nothing was observed."""
    started = time.perf_counter()
    headers = {"Idempotency-Key": pb.call_id()}
    async with http.get(f"/weather/{row.origin}/{row.time_hour}", headers=headers) as answer:
        if answer.status == 404:
            return None
        if answer.status == 503:
            raise pb.RetryAfter(answer.headers.get("Retry-After"))
        answer.raise_for_status()
        observed = await answer.json()
    return {**observed, "latency_ms": (time.perf_counter() - started) * 1000}


def with_weather(flights: DataFrame, url: str, engine: str = "auto", **options: Any) -> DataFrame:
    """Flights with the weather columns, the latency of their call, and `error` (null if fine)."""
    return flights.transform(
        pb.async_io,
        weather,
        returns=RETURNS,
        ordered=False,
        capacity=CAPACITY,
        timeout=pb.Timeout("30s", attempt="10s"),
        retry=5,
        on_error="column",
        resource=partial(open_session, url),
        inputs=["origin", "time_hour"],
        name="weather",
        engine=engine,
        **options,
    )
