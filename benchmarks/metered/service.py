"""A service that allows so many calls and tokens in any 60 seconds, and refuses the rest with 429.

``python -m benchmarks.metered.service CALLS TOKENS``; it prints its port. A call is charged when it
arrives, with the tokens that it will have used. It knows nothing of whoever calls it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

WINDOW_S = 60.0
MOST_COMPLETION = 100
#: When it arrived, the number of what was asked, its tokens, and the status.
Call = tuple[float, int, int, int]


def completion(call: int) -> int:
    """Return the tokens of the answer, from 1 to ``MOST_COMPLETION``; the same in each run."""
    return 1 + call * 7919 % MOST_COMPLETION


class Window:
    """The sum of what was taken in the last 60 seconds."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._taken: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def wait_s(self, amount: float, now: float) -> float:
        """Return the seconds until the amount fits; 0 if it fits now."""
        while self._taken and self._taken[0][0] <= now - WINDOW_S:
            self._sum -= self._taken.popleft()[1]
        excess = self._sum + amount - self._most
        for at, taken in self._taken:
            if excess <= 0:
                break
            excess -= taken
            last = at
        return 0.0 if self._sum + amount <= self._most else last + WINDOW_S - now

    def take(self, amount: float, now: float) -> None:
        self._taken.append((now, amount))
        self._sum += amount


class Service:
    """Answers after 0.3 to 1 s, and keeps a log of all requests."""

    def __init__(self, calls: float, tokens: float) -> None:
        self._limits = calls, tokens
        self.log: list[Call] = []
        self.reset()

    def reset(self) -> None:
        self._calls, self._tokens = map(Window, self._limits)
        self.log = []

    async def call(self, request: web.Request) -> web.Response:
        asked = await request.json()
        call, now = int(asked["id"]), time.monotonic()
        tokens = int(asked["prompt_tokens"]) + completion(call)
        wait_s = max(self._calls.wait_s(1, now), self._tokens.wait_s(tokens, now))
        self.log.append((now, call, tokens, 429 if wait_s else 200))
        if wait_s:
            return web.Response(status=429, headers={"Retry-After": f"{max(1, round(wait_s))}"})
        self._calls.take(1, now)
        self._tokens.take(tokens, now)
        await asyncio.sleep(0.3 + call * 104_729 % 1000 * 0.7e-3)
        return web.json_response({"answer": call * 2, "tokens": tokens})


@contextmanager
def serving(calls: float, tokens: float) -> Iterator[str]:
    """Run the service in a process of its own; gives its URL."""
    command = [sys.executable, "-m", "benchmarks.metered.service", str(calls), str(tokens)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
        finally:
            process.kill()


def calls_at(url: str) -> list[Call]:
    with urllib.request.urlopen(url + "log") as answer:
        return [tuple(call) for call in json.load(answer)]


def most_in_a_minute(calls: list[Call], amount: int | None) -> float:
    """The most that was asked for in any minute, refused or not: calls, or tokens."""
    most = total = first = 0
    for at, _, tokens, _ in calls:
        total += 1 if amount is None else tokens
        while calls[first][0] <= at - WINDOW_S:
            total -= 1 if amount is None else calls[first][2]
            first += 1
        most = max(most, total)
    return most


def main() -> None:
    service = Service(float(sys.argv[1]), float(sys.argv[2]))

    async def log(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(service.log))

    async def reset(_: web.Request) -> web.Response:
        service.reset()
        return web.Response()

    async def serve() -> None:
        app = web.Application()
        app.add_routes(
            [web.post("/", service.call), web.get("/log", log), web.post("/reset", reset)]
        )
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
