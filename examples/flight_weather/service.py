"""A weather service on loopback, as slow and as moody as services are.

``GET /weather/{origin}/{time_hour}`` answers that hour's observation as JSON, or 404 if there is
none. Latency is log-normal with a heavy tail (median 20 ms, mean 46 ms, one in a hundred above
400 ms); one answer in a hundred is a 503 with Retry-After. Both come from a seeded generator.
``GET /stats`` counts what happened since the last ``POST /stats/reset``, with ``?slow=0.01``
one answer in a hundred takes four seconds from then on, ``GET /stats/timeline``
tells the calls in flight after every change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import time
from pathlib import Path

import pandas as pd
from aiohttp import web

MEDIAN_SECONDS = 0.020
SIGMA = math.log(0.400 / 0.020) / 2.3263  # the 99th percentile of a normal is 2.3263 sigma out
UNAVAILABLE_SHARE = 0.01
SLOW_SECONDS = 4.0
RETRY_AFTER_SECONDS = 1


class Stats:
    """Counts of one measured phase. Touched by the event loop's thread only."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.requests = self.unavailable = self.not_found = 0
        self.in_flight = self.in_flight_max = 0
        self.timeline: list[tuple[float, int]] = []

    def step(self, change: int) -> None:
        """One request more or one less is in flight from now on."""
        self.in_flight += change
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        self.timeline.append((round(time.monotonic() - self.started, 4), self.in_flight))

    def counts(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}


class WeatherService:
    """Handlers of the service. `weather` maps (origin, time_hour) to the answer's JSON text."""

    def __init__(self, weather: dict[tuple[str, str], str], seed: int) -> None:
        self.weather = weather
        self.seed = seed
        self.reset_state()

    def reset_state(self, slow_share: float = 0.0) -> None:
        self.random = random.Random(self.seed)
        self.slow = random.Random(self.seed + 1)
        self.slow_share = slow_share
        self.stats = Stats()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/weather/{origin}/{time_hour}", self.observation)
        app.router.add_get("/stats", self.show_stats)
        app.router.add_get("/stats/timeline", self.timeline)
        app.router.add_post("/stats/reset", self.reset)
        return app

    async def observation(self, request: web.Request) -> web.Response:
        stats = self.stats
        stats.requests += 1
        stats.step(+1)
        try:
            await asyncio.sleep(self.latency_seconds())
            return self.answer(request.match_info["origin"], request.match_info["time_hour"])
        finally:
            stats.step(-1)

    def latency_seconds(self) -> float:
        usual = self.random.lognormvariate(math.log(MEDIAN_SECONDS), SIGMA)
        return SLOW_SECONDS if self.slow.random() < self.slow_share else usual

    def answer(self, origin: str, time_hour: str) -> web.Response:
        if self.random.random() < UNAVAILABLE_SHARE:
            self.stats.unavailable += 1
            return web.Response(status=503, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
        body = self.weather.get((origin, time_hour))
        if body is None:
            self.stats.not_found += 1
            return web.Response(status=404)
        return web.Response(text=body, content_type="application/json")

    async def show_stats(self, _: web.Request) -> web.Response:
        return web.json_response(self.stats.counts())

    async def timeline(self, _: web.Request) -> web.Response:
        return web.json_response(self.stats.timeline)

    async def reset(self, request: web.Request) -> web.Response:
        if self.stats.in_flight:
            return web.Response(status=409, text=f"{self.stats.in_flight} requests are in flight")
        self.reset_state(float(request.query.get("slow", "0")))
        return web.Response()


def load(path: Path) -> dict[tuple[str, str], str]:
    """Every hour's observation as JSON text; what was not observed is null."""
    frame = pd.read_parquet(path)
    keys = zip(frame.pop("origin"), frame.pop("time_hour"), strict=True)
    clean = frame.astype(object).where(frame.notna(), None)
    return {k: json.dumps(r) for k, r in zip(keys, clean.to_dict("records"), strict=True)}


async def serve(service: WeatherService) -> None:
    """Listen on a free port of loopback, print the address, serve until standard input ends."""
    runner = web.AppRunner(service.app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weather", type=Path)
    parser.add_argument("--seed", type=int, default=2013)
    options = parser.parse_args()
    asyncio.run(serve(WeatherService(load(options.weather), options.seed)))
