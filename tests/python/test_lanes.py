"""The lines of calls that wait for their limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pillarbox._async.lanes import Lanes


@dataclass(eq=False)
class Element:
    values: tuple[Any, ...] = ()
    outside: bool = False
    done: bool = False


class Owner:
    def __init__(self, start: Callable[[Element], None]) -> None:
        self._start = start

    def has_place(self) -> bool:
        return True

    def start_call(self, elements: list[Element]) -> None:
        self._start(elements[0])


def test_the_next_call_may_come_while_one_starts_that_ends_at_once() -> None:
    first, second = Element(), Element()
    started = []

    def start(element: Element) -> None:
        started.append(element)
        if element is first:
            lanes.end(())
            lanes.add([second])

    async def run() -> Lanes[Element]:
        return Lanes((), Owner(start), asyncio.get_running_loop().call_later)

    lanes = asyncio.run(run())
    lanes.add([first])
    assert started == [first, second]
    lanes.end(())
