"""The pictures: calls in flight over time, and how long calls took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from flight_data.style import INK, OTHER, OURS, SLOW, STYLE
from matplotlib import pyplot as plt


def in_flight(path: Path, phases: dict[str, list[tuple[float, int]]]) -> None:
    """Draw the calls in flight at the service over time, one line a phase."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9.5, 4.2))
        for (label, timeline), colour in zip(phases.items(), (OURS, OTHER, SLOW), strict=False):
            times, counts = np.array(timeline).T
            times, counts = thinned(times - times[0], counts)
            axes.plot(times, counts, drawstyle="steps-post", color=colour, lw=1.6, label=label)
        axes.fill_between(*_first(axes), step="post", color=OURS, alpha=0.12, lw=0)
        axes.set(xlabel="seconds since the first call", ylabel="calls in flight")
        axes.set_xlim(0)
        axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
        axes.set_title("Calls in flight at the weather service", pad=12)
        axes.legend(frameon=False, loc="upper right")
        figure.savefig(path)
        plt.close(figure)


def _first(axes: Any) -> tuple[np.ndarray, np.ndarray]:
    line = axes.get_lines()[0]
    return line.get_xdata(), line.get_ydata()


def thinned(times: np.ndarray, counts: np.ndarray, width: int = 600) -> tuple[Any, Any]:
    """At most `width` points: the mean of the counts in each slice of time, 0 at both ends."""
    edges = np.linspace(0, times[-1], width + 1)
    which = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, width - 1)
    filled = np.bincount(which, minlength=width)
    means = np.bincount(which, weights=counts, minlength=width)[filled > 0] / filled[filled > 0]
    middles = ((edges[:-1] + edges[1:]) / 2)[filled > 0]
    return np.r_[0, middles, times[-1]], np.r_[0, means, 0]


def duration(ms: float) -> str:
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"


def batches(path: Path, runs: dict[str, list[float]]) -> None:
    """Draw how long each micro-batch took, one line of bars a stream."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9.5, 4.2))
        width = 0.8 / len(runs)
        for place, ((label, seconds), colour) in enumerate(
            zip(runs.items(), (OURS, OTHER), strict=False)
        ):
            numbers = np.arange(len(seconds)) + 1 + (place - (len(runs) - 1) / 2) * width
            axes.bar(numbers, seconds, width, color=colour, label=label)
        axes.set(xlabel="micro-batch with rows", ylabel="seconds")
        axes.set_title("Micro-batches when one call in a hundred takes four seconds", pad=12)
        axes.set_ylim(0, axes.get_ylim()[1] * 1.2)
        axes.legend(frameon=False, loc="upper right")
        figure.savefig(path)
        plt.close(figure)


def latency(path: Path, latencies_ms: np.ndarray) -> None:
    """Draw the histogram of call latencies on a logarithmic axis, with median and p99."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9.5, 4.2))
        bins = np.geomspace(latencies_ms.min(), latencies_ms.max(), 80)
        axes.hist(latencies_ms, bins=bins, color=OURS, alpha=0.85)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(
            lambda ms, _: f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"
        )
        top = axes.get_ylim()[1] * 1.12
        for share, name in ((50, "median"), (99, "p99")):
            value = float(np.percentile(latencies_ms, share))
            axes.axvline(value, color=INK, lw=1.2, ls="--")
            axes.text(value * 1.05, top * 0.97, f"{name} {value:.0f} ms", va="top", color=INK)
        axes.set_ylim(0, top)
        axes.set(xlabel="latency of a call, as the job saw it", ylabel="calls")
        axes.set_title(f"Latency of {len(latencies_ms):,} calls", pad=12)
        figure.savefig(path)
        plt.close(figure)
