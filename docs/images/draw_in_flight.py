"""Draws in-flight.svg, the picture of README.md: calls over time, one bar a call.

Run it as a script. The calls are simulated: each way makes calls of the same latencies, log-normal
as those of the benchmarks (median 20 ms, p99 400 ms), and the first second of it is drawn.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CAPACITY = 16
WIDTH, LEFT, LANE, BAR = 860, 20, 7, 5
INK, PAPER, GRID, COLOURS = "#333333", "#ffffff", "#dddddd", ("#b3261e", "#d9776f")
FONT = 'font-family="system-ui, sans-serif" font-size="13"'


class Call(NamedTuple):
    """The lane that it is drawn in, and its start and end in seconds."""

    lane: int
    start: float
    end: float


def latencies() -> Iterator[float]:
    """In seconds; the same ones each time."""
    draw = random.Random(7)
    while True:
        yield 0.02 * draw.lognormvariate(0, 1.288)  # p99 is e ** (2.326 * 1.288) medians


def one_at_a_time() -> Iterator[Call]:
    now = 0.0
    for latency in latencies():
        yield Call(0, now, now + latency)
        now += latency


def in_chunks() -> Iterator[Call]:
    now, some = 0.0, latencies()
    while True:
        chunk = [Call(lane, now, now + next(some)) for lane in range(CAPACITY)]
        yield from chunk
        now = max(call.end for call in chunk)


def all_the_time() -> Iterator[Call]:
    free = [(0.0, lane) for lane in range(CAPACITY)]
    for latency in latencies():
        now, lane = heapq.heappop(free)
        yield Call(lane, now, now + latency)
        heapq.heappush(free, (now + latency, lane))


WAYS = (
    ("A UDF: one call at a time", 1, one_at_a_time),
    (f"asyncio.gather over {CAPACITY} rows, then the next {CAPACITY}", CAPACITY, in_chunks),
    (f"pb.async_io, capacity={CAPACITY}", CAPACITY, all_the_time),
)


def first_second(calls: Iterator[Call]) -> list[Call]:
    found = []
    for call in calls:
        if call.start >= 1:
            return found
        found.append(call)
    raise AssertionError("they never end")


def drawn() -> str:
    top, parts = 0, []
    for title, lanes, way in WAYS:
        calls = first_second(way())
        answered = sum(call.end <= 1 for call in calls)
        parts.append(text(LEFT, top + 26, title, "start"))
        parts.append(text(WIDTH - LEFT, top + 26, f"{answered} rows in a second", "end"))
        top += 36
        parts += [frame(top, lanes), *bars(top, calls)]
        top += lanes * LANE + 4
    height = top + 14
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def text(x: int, y: int, words: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" fill="{INK}" text-anchor="{anchor}">{words}</text>'


def frame(top: int, lanes: int) -> str:
    size = f'width="{WIDTH - 2 * LEFT}" height="{lanes * LANE + 2}"'
    return f'<rect x="{LEFT}" y="{top - 2}" {size} fill="none" stroke="{GRID}"/>'


def bars(top: int, calls: list[Call]) -> Iterator[str]:
    """By turns in two colours, in each lane."""
    scale, lanes = WIDTH - 2 * LEFT, Counter[int]()
    for call in calls:
        x, end = LEFT + call.start * scale, LEFT + min(call.end, 1) * scale
        place = f'x="{x:.1f}" y="{top + call.lane * LANE}" width="{end - x:.1f}" height="{BAR}"'
        yield f'<rect {place} fill="{COLOURS[lanes[call.lane] % 2]}"/>'
        lanes[call.lane] += 1


if __name__ == "__main__":
    Path(__file__).with_name("in-flight.svg").write_text(drawn(), "utf-8")
