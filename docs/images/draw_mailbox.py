"""Draws mailbox.png, the picture of how-it-works.md. Run it as a script."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, PAPER, RED, BLUE, GREY = "#333333", "#ffffff", "#c8372d", "#5b7a99", "#8a8a8a"


def box(axes, x, y, width, height, title, text="", fill=PAPER, edge=INK):
    shape = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, fc=fill, ec=edge, lw=1.4))
    top = y + height - 0.2
    axes.text(x + width / 2, top, title, ha="center", va="top", weight="bold", color=edge)
    if text:
        axes.text(x + width / 2, top - 0.42, text, ha="center", va="top", color=INK, fontsize=9)


def arrow(axes, start, end, label="", at=(0, 0), bend=0.0, colour=INK):
    path = f"arc3,rad={bend}"
    axes.add_patch(
        FancyArrowPatch(
            start, end, connectionstyle=path, arrowstyle="-|>", mutation_scale=14, lw=1.6,
            color=colour, shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip
    axes.text(*at, label, ha="center", va="center", fontsize=9, color=colour)


def draw(path: Path) -> None:
    plt.rcParams["font.size"] = 10
    figure, axes = plt.subplots(figsize=(11, 5.2))
    axes.set_xlim(0, 14.3)
    axes.set_ylim(0, 6.7)
    axes.axis("off")
    box(axes, 2.0, 0.3, 6.9, 5.9, "Spark task: one thread", fill="#fbf3f2", edge=RED)
    box(axes, 2.5, 3.75, 2.6, 1.55, "default action", "takes the next row\nwhile there is room")
    box(axes, 5.9, 3.75, 2.6, 1.55, "element queue", "rows in flight,\nordered or not")
    box(axes, 2.5, 0.8, 6.0, 1.75, "mailbox", fill="#ffffff", edge=RED)
    for place, mail in enumerate(["answer", "deadline", "retry", "cancel"]):
        box(axes, 2.75 + place * 1.42, 1.05, 1.24, 0.72, "", fill="#f6dedc", edge=RED)
        axes.text(3.37 + place * 1.42, 1.41, mail, ha="center", va="center", fontsize=9)
    box(axes, 10.9, 0.3, 3.1, 5.9, "Python worker", fill="#f0f4f8", edge=BLUE)
    box(axes, 11.2, 3.75, 2.5, 1.55, "event loop", "runs the coroutines,\nnothing else", edge=BLUE)
    box(axes, 11.2, 0.8, 2.5, 1.75, "resource", "an open client,\nshared by all calls", edge=BLUE)
    arrow(axes, (0.5, 4.52), (2.5, 4.52), "rows in", (1.1, 4.8))
    arrow(axes, (5.1, 4.52), (5.9, 4.52))
    arrow(axes, (7.2, 5.3), (7.2, 6.62), "rows out", (7.95, 6.45))
    arrow(axes, (8.5, 4.75), (11.2, 4.75), "calls", (9.9, 5.0), colour=BLUE)
    arrow(axes, (11.2, 4.1), (8.5, 2.0), "results", (9.45, 3.3), colour=BLUE)
    arrow(axes, (7.2, 2.55), (7.2, 3.75), "completes", (7.98, 3.1), colour=RED)
    arrow(axes, (3.8, 2.55), (3.8, 3.75), "resumes", (4.5, 3.1), colour=RED)
    arrow(axes, (12.45, 3.75), (12.45, 2.55), colour=BLUE)
    figure.savefig(path, dpi=140, bbox_inches="tight", facecolor="white")


if __name__ == "__main__":
    draw(Path(__file__).with_name("mailbox.png"))
