"""What the ways without Pillarbox share: a call that is tried five times, as users write it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp

ATTEMPTS = 5
ESTIMATED_COMPLETION = 100  # the most, as one gives max_tokens
AT_A_TIME = 50
TASKS = 2

Before = Callable[[int], Awaitable[None]]


async def unlimited(tokens: int) -> None:
    """Let every call begin."""


def limiter(calls: float, tokens: float) -> Before:
    """Return what waits at two limiters of aiolimiter, for a minute's calls and tokens."""
    from aiolimiter import AsyncLimiter

    of_calls, of_tokens = AsyncLimiter(calls, 60), AsyncLimiter(tokens, 60)

    async def wait(amount: int) -> None:
        await of_calls.acquire()
        await of_tokens.acquire(amount)

    return wait


async def answer(
    session: aiohttp.ClientSession, url: str, call: int, prompt_tokens: int, before: Before
) -> int | None:
    """Call up to five times, as the service asks or after 1, 2, 4 and 8 s; None if all failed."""
    for attempt in range(ATTEMPTS):
        await before(prompt_tokens + ESTIMATED_COMPLETION)
        asked = {"id": call, "prompt_tokens": prompt_tokens}
        async with session.post(url, json=asked) as response:
            if response.status == 200:
                return int((await response.json())["answer"])
            delay_s = float(response.headers.get("Retry-After", 0)) or 2**attempt
        if attempt < ATTEMPTS - 1:
            await asyncio.sleep(delay_s * random.uniform(1, 1.2))
    return None


async def answers(
    url: str, rows: Iterable[tuple[int, int]], before: Before, at_a_time: int
) -> list[int | None]:
    """Call for all rows, so many at a time."""
    places: AbstractAsyncContextManager[Any] = asyncio.Semaphore(at_a_time)

    async def one(call: int, prompt_tokens: int) -> int | None:
        async with places:
            return await answer(session, url, call, prompt_tokens, before)

    async with aiohttp.ClientSession() as session:
        return list(await asyncio.gather(*(one(*row) for row in rows)))
