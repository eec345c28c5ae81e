"""Draws timers.svg: a key's rows, its state with a TTL, and its timers over a minute.

Run it as a script. A harness runs the function, and what is drawn is what it has each second.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from draw_in_flight import COLOURS, FONT, GRID, INK, PAPER, text

import pillarbox as pb
from pillarbox.testing import KeyedHarness

ROWS_S = (2, 6, 13, 40, 45)
END_S = 60
WIDTH, LEFT, HEIGHT = 860, 130, 236
SCALE = (WIDTH - LEFT - 30) / END_S


class Silence(pb.KeyedProcessFunction):
    """Counts rows, forgets the count after 20 s, and tells of 10 s of silence."""

    def open(self, ctx: pb.OpenContext) -> None:
        self.n = ctx.value_state(
            "n", "bigint", ttl=pb.StateTtl("20 seconds", time_domain="event_time")
        )

    def process(self, row: Any, ctx: pb.Context[str]) -> None:
        self.n.update((self.n.value() or 0) + 1)
        ctx.timers.delete_all()
        ctx.timers.register_event_time(ctx.timestamp + 10_000)

    def on_timer(self, timestamp: int, ctx: pb.Context[str]) -> Iterator[int]:
        yield timestamp


class Second(NamedTuple):
    """The count (None where there is none), the timers, and whether one has fired."""

    n: int | None
    timers: tuple[int, ...]
    fired: bool


def lived() -> list[Second]:
    harness = KeyedHarness(
        Silence(), by="k", schema="k string, t bigint", timestamp="t", returns="at bigint"
    )
    found = []
    for second in range(END_S + 1):
        if second in ROWS_S:
            harness.process({"k": "a", "t": second * 1000})
        fired = harness.advance_watermark(second * 1000)
        timers = tuple(timer.timestamp // 1000 for timer in harness.timers("a"))
        found.append(Second(harness.state("n", "a"), timers, bool(fired)))
    return found


def drawn() -> str:
    seconds = lived()
    parts = [
        text(20, y, words, "start") for y, words in ((45, "rows"), (95, "state n"), (145, "timers"))
    ]
    parts += [circle(x(at), 40, INK) for at in ROWS_S]
    parts += [*states(seconds), *timers(seconds)]
    parts += [text(round(x(at)), 222, f"{at} s", "middle") for at in range(0, END_S + 1, 10)]
    told = "n lives for 20 s from its last write; a timer waits until a row deletes it, or it fires"
    parts.append(text(LEFT, 185, told, "start"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{PAPER}"/>',
            *(line(x(at), 28, 205) for at in range(0, END_S + 1, 10)),
            *parts,
            "</svg>\n",
        ]
    )


def x(second: float) -> float:
    return LEFT + second * SCALE


def spans(values: list[Any]) -> Iterator[tuple[int, int, Any]]:
    """From when to when there was which value; not those times at which there was none."""
    start = 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] != values[start]:
            if values[start]:
                yield start, min(at, END_S), values[start]
            start = at


def states(seconds: list[Second]) -> Iterator[str]:
    for start, end, n in spans([second.n for second in seconds]):
        yield bar(start, end, 80, 22, COLOURS[1])
        yield text(round(x((start + end) / 2)), 96, str(n), "middle")


def timers(seconds: list[Second]) -> Iterator[str]:
    for number, (start, end, _) in enumerate(spans([second.timers for second in seconds])):
        top = 132 + 14 * (number % 2)
        yield bar(start, end, top, 6, "#999999")
        if seconds[end].fired:
            yield circle(x(end), top + 3, COLOURS[0])


def bar(start: int, end: int, top: int, height: int, colour: str) -> str:
    size = f'width="{(end - start) * SCALE - 1:.1f}" height="{height}"'
    return f'<rect x="{x(start):.1f}" y="{top}" {size} fill="{colour}"/>'


def circle(at: float, y: int, colour: str) -> str:
    return f'<circle cx="{at:.1f}" cy="{y}" r="6" fill="{colour}"/>'


def line(at: float, top: int, end: int) -> str:
    return f'<line x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{end}" stroke="{GRID}"/>'


if __name__ == "__main__":
    Path(__file__).with_name("timers.svg").write_text(drawn(), "utf-8")
