"""Draws modules.svg: the modules and who knows whom, and the stages of a call in their order.

Run it as a script. A test holds the stages against those of ``CallPipeline.scala``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from draw_in_flight import COLOURS, FONT, GRID, INK, PAPER, text

WIDTH, LEFT, ROW, GAP = 860, 20, 48, 8
FULL = WIDTH - 2 * LEFT


class Part(NamedTuple):
    name: str
    what: str


MODULES = (
    (
        Part("Python: _driver", "options, specs, clients of the JVM"),
        Part("Python: _worker", "runs the functions of users"),
    ),
    (Part("spark", "nodes of plans, tasks, checkpoints, Python workers"),),
    (Part("async", "the operator, its queues, the stages of a call, retries"),),
    (
        Part("state", "keyed state, TTL, timers, their order"),
        Part("metered", "limits, budgets, usage, journals"),
    ),
    (
        Part("api", "what users of Java and Scala see"),
        Part("mailbox", "the mailbox thread of a task, its clock"),
    ),
)
KNOWN = (
    "A module knows those of the rows below: spark all, async all but state.",
    "_driver calls spark, which runs _worker.",
)
STAGES = (
    Part("Answered", "journal"),
    Part("Shared", "share_calls"),
    Part("Answered", "after a wait"),
    Part("Kept", "journal"),
    Part("Retries", "retry, limit"),
    Part("KnownTickets", "Ticketed"),
    Part("Admission", "key, slot, budget, limit"),
    Part("Tickets", "Ticketed"),
    Part("Batches", "batch_size"),
    Part("Admission", "limit of lists"),
    Part("Attempts", "the function"),
)
A_ROW = 6
WAYS = (
    "The stages of a call: those that its options ask for. A call goes from the first to the last.",
    "The end of an attempt goes the way back, until a stage takes it.",
)


def drawn() -> str:
    parts = list(title(KNOWN, 0))
    top = 58
    for row in MODULES:
        parts += boxes(row, top, COLOURS[0])
        top += ROW + GAP
    parts += title(WAYS, top)
    top += 58
    for start in range(0, len(STAGES), A_ROW):
        parts += boxes(STAGES[start : start + A_ROW], top, INK)
        top += ROW + GAP
    height = top + 12
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def title(lines: tuple[str, ...], top: int) -> list[str]:
    return [text(LEFT, top + 24 + 20 * number, line, "start") for number, line in enumerate(lines)]


def boxes(row: tuple[Part, ...], top: int, edge: str) -> Iterator[str]:
    width = (FULL - GAP * (len(row) - 1)) // len(row)
    for number, part in enumerate(row):
        x = LEFT + number * (width + GAP)
        size = f'width="{width}" height="{ROW}" rx="4"'
        yield f'<rect x="{x}" y="{top}" {size} fill="none" stroke="{GRID}"/>'
        yield f'<rect x="{x}" y="{top}" width="4" height="{ROW}" fill="{edge}"/>'
        name = f'<tspan font-weight="600">{part.name}</tspan>'
        yield text(x + width // 2, top + 20, name, "middle")
        yield text(x + width // 2, top + 38, part.what, "middle")


if __name__ == "__main__":
    Path(__file__).with_name("modules.svg").write_text(drawn(), "utf-8")
