"""Draws order.svg: the calls of eight rows, and when the rows leave, ordered and unordered.

Run it as a script. The times follow from the rules of ``capacity``: a row is in flight as long as
its call.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from draw_in_flight import COLOURS, FONT, GRID, INK, PAPER, text

CAPACITY = 4
LATENCIES_MS = (40, 150, 30, 60, 50, 40, 70, 30)
WIDTH, LEFT, LANE, BAR = 860, 70, 18, 11
SCALE = (WIDTH - LEFT - 40) / 240


class Row(NamedTuple):
    """In milliseconds: the start and the end of its call, and when it leaves."""

    start: int
    end: int
    leaves: int


def rows(ordered: bool) -> list[Row]:
    found: list[Row] = []
    places = [0] * CAPACITY  # the times at which they are free
    for latency in LATENCIES_MS:
        start = heapq.heappop(places)
        end = start + latency
        leaves = max(end, found[-1].leaves) if ordered and found else end
        heapq.heappush(places, end)
        found.append(Row(start, end, leaves))
    return found


def drawn() -> str:
    top, parts = 0, []
    for ordered, title in ((True, "ordered=True"), (False, "ordered=False")):
        found = rows(ordered)
        last = max(row.leaves for row in found)
        parts.append(text(20, top + 26, f"{title}, capacity={CAPACITY}", "start"))
        parts.append(text(WIDTH - 20, top + 26, f"the last row leaves after {last} ms", "end"))
        top += 40
        for number, row in enumerate(found):
            parts += lane(top + number * LANE, number, row)
        top += len(found) * LANE + 6
    parts.append(
        text(
            LEFT, top + 18, "red: the call; grey: its result waits; circle: the row leaves", "start"
        )
    )
    height = top + 32
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def lane(top: int, number: int, row: Row) -> Iterator[str]:
    start, end, leaves = (LEFT + at * SCALE for at in row)
    yield text(20, top + BAR, f"row {number}", "start")
    below = top + BAR + 3
    yield f'<line x1="{LEFT}" y1="{below}" x2="{WIDTH - 20}" y2="{below}" stroke="{GRID}"/>'
    yield bar(start, end, top, COLOURS[0])
    yield bar(end, leaves, top, "#bbbbbb")
    look = f'fill="{PAPER}" stroke="{INK}" stroke-width="2"'
    yield f'<circle cx="{leaves:.1f}" cy="{top + BAR / 2}" r="5" {look}/>'


def bar(start: float, end: float, top: int, colour: str) -> str:
    size = f'width="{end - start:.1f}" height="{BAR}"'
    return f'<rect x="{start:.1f}" y="{top}" {size} fill="{colour}"/>'


if __name__ == "__main__":
    Path(__file__).with_name("order.svg").write_text(drawn(), "utf-8")
