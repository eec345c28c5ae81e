"""The worker's event loop: exact timers, and otherwise a loop like any other."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Iterator

import pytest

from pillarbox._worker.event_loop import new_event_loop

if not hasattr(select, "epoll"):
    pytest.skip("no epoll here", allow_module_level=True)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    one = new_event_loop()
    yield one
    one.close()


def uses_uvloop(loop: asyncio.AbstractEventLoop) -> bool:
    return type(loop).__module__.startswith("uvloop")


async def lateness(seconds: float) -> float:
    """Seconds that a timer fires too late; negative if too early."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    await asyncio.sleep(seconds)
    return loop.time() - start - seconds


def test_timers_are_not_rounded_up_to_whole_milliseconds(loop: asyncio.AbstractEventLoop) -> None:
    if uses_uvloop(loop):
        pytest.skip("uvloop counts in milliseconds")

    # 5.1 ms would become 6 each time; the best of many does not depend on the machine's load.
    late = [loop.run_until_complete(lateness(0.0051)) for _ in range(40)]

    assert min(late) < 0.0005
    assert all(one > -1e-4 for one in late)


def test_what_can_be_read_ends_the_wait_for_a_timer(loop: asyncio.AbstractEventLoop) -> None:
    async def read(descriptor: int) -> bytes:
        arrived: asyncio.Future[bytes] = loop.create_future()
        loop.add_reader(descriptor, lambda: arrived.set_result(os.read(descriptor, 10)))
        try:
            return await asyncio.wait_for(arrived, 60)
        finally:
            loop.remove_reader(descriptor)

    reader, writer = os.pipe()
    try:
        loop.call_soon(os.write, writer, b"here")
        assert loop.run_until_complete(read(reader)) == b"here"
    finally:
        os.close(reader)
        os.close(writer)


def test_another_thread_ends_the_wait_for_a_timer(loop: asyncio.AbstractEventLoop) -> None:
    async def told() -> str:
        word: asyncio.Future[str] = loop.create_future()
        thread = threading.Thread(
            target=loop.call_soon_threadsafe, args=(word.set_result, "from a thread")
        )
        thread.start()
        answer = await asyncio.wait_for(word, 60)
        thread.join()
        return answer

    assert loop.run_until_complete(told()) == "from a thread"
