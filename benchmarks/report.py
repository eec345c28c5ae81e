"""Tables and plots of the benchmarks, as they stand in docs/benchmarks."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
OURS, OTHER, INK = "#c8372d", "#9db0c3", "#333333"
LABEL = {"va": "center", "zorder": 5, "bbox": {"fc": "white", "ec": "none", "pad": 0.8}}


@dataclass(frozen=True)
class Line:
    """One contestant at one size. `seconds` are of the repeats, start-up left out."""

    who: str
    rows: int
    perfect: float
    seconds: list[float]

    @property
    def ratio(self) -> float:
        """Of the perfect schedule's speed, the median of the repeats; more than 1 can only be the
        error of the start-up that was subtracted."""
        return self.perfect / statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """Ratios of the slowest and of the fastest repeat."""
        return self.perfect / max(self.seconds), self.perfect / min(self.seconds)


def origin() -> str:
    """When, from which commit and on what a table was made."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return (
        f"{date.today().isoformat()}, commit {commit or 'unknown'}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, load average {os.getloadavg()[2]:.1f} "
        "in the last 15 minutes"
    )


def aim_of(found: float, aim: float, at_least: bool = False, unit: str = "") -> str:
    """An aim, at most or at least so much, and by how much it is missed."""
    missed = aim - found if at_least else found - aim
    return f"{aim:g}{unit} " + ("met" if missed <= 0 else f"missed by {missed:.2f}{unit}")


def page(title: str, question: str, parts: list[str], conditions: str, command: str) -> str:
    """A page of results: what it answers, its tables and drawings, how they were measured, and how
    and when they were made."""
    made = f"`{command}` makes this page again. Made on {origin()}."
    head = [f"# {title}", f"*{question}*"]
    return "\n\n".join([*head, *parts, "## How it is measured", conditions, made]) + "\n"


def table(lines: list[Line]) -> str:
    """A Markdown table of one size, the fastest first."""
    head = "| how | rows/s | of the perfect schedule | slowest - fastest run |\n|---|--:|--:|--:|\n"
    ranked = sorted(lines, key=lambda line: -line.ratio)
    return head + "".join(map(_row, ranked))


def _row(line: Line) -> str:
    speed = line.rows / statistics.median(line.seconds)
    low, high = line.spread
    runs = f"{low:.1%} - {high:.1%}" if len(line.seconds) > 1 else "one run"
    return f"| {line.who} | {speed:,.0f} | **{line.ratio:.1%}** | {runs} |\n"


def bars(path: Path, sizes: dict[int, list[Line]]) -> None:
    """Draw the ratio to the perfect schedule, a panel a size, a bar a contestant."""
    figure, panels = plt.subplots(
        1, len(sizes), figsize=(4.6 * len(sizes) + 3.4, 3.6), sharey=True, squeeze=False
    )
    order = [line.who for line in sorted(next(iter(sizes.values())), key=lambda line: line.ratio)]
    for axes, (rows, lines) in zip(panels[0], sizes.items(), strict=True):
        _panel(axes, rows, {line.who: line for line in lines}, order)
    figure.supxlabel("speed, of the perfect first-come-first-served schedule", fontsize=10)
    figure.subplots_adjust(wspace=0.08, bottom=0.18)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def _panel(axes: plt.Axes, rows: int, lines: dict[str, Line], order: list[str]) -> None:
    for place, who in enumerate(order):
        if who not in lines:
            continue
        line = lines[who]
        axes.barh(place, line.ratio, color=OURS if "async_io" in who else OTHER, height=0.62)
        low, high = line.spread
        axes.plot([low, high], [place, place], color=INK, lw=1.5)
        axes.text(max(high, line.ratio) + 0.015, place, f"{line.ratio:.0%}", **LABEL)
    axes.set_yticks(range(len(order)), order)
    axes.axvline(1, color=INK, lw=1, ls="--")
    axes.set_xlim(0, max(1.14, *(line.spread[1] + 0.12 for line in lines.values())))
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_title(f"{rows:,} calls", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
