"""What a service sees of two limits while executors are killed, in ``local-cluster[3,1,1024]``.

The service is that of ``benchmarks.metered``: a process that knows nothing of the limiter, counts
calls and tokens when they arrive, and refuses what is beyond its caps, which are the limits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from . import report
from .metered.service import WINDOW_S, Call, calls_at, most_in_a_minute, serving

sys.path.insert(0, str(report.ROOT / "tests" / "python"))

from keyed.chaos import Process
from local_cluster import cluster_environment, executor_logs

APP = Path(__file__).with_name("overshoot_app.py")
EXECUTORS = 3
#: The number of the app's rows that use many tokens, which come first.
MANY = 480
#: Seconds after the first call at which an executor is killed.
KILLS_AT = (70, 100, 160, 190)


@dataclass(frozen=True)
class Run:
    calls: list[Call]
    kills: list[float]
    most_calls: int
    most_tokens: int
    load: float

    def amounts(self, is_calls: bool) -> np.ndarray:
        return np.array([1 if is_calls else tokens for _, _, tokens, _ in self.calls])

    def most(self, is_calls: bool) -> int:
        return self.most_calls if is_calls else self.most_tokens

    @property
    def times(self) -> np.ndarray:
        """Seconds since the first call."""
        return np.array([call[0] for call in self.calls]) - self.calls[0][0]

    def of_last_minute(self, at: np.ndarray, is_calls: bool) -> np.ndarray:
        """The amounts that arrived in the minute before each time."""
        sums = np.cumsum([0, *self.amounts(is_calls)])
        ends = np.searchsorted(self.times, at, side="right")
        return sums[ends] - sums[np.searchsorted(self.times, at - WINDOW_S, side="right")]

    def used(self, is_calls: bool) -> float:
        """Of the limit that is nearer, on average over the minutes that have rows of one kind
        alone: the tokens' for those of many, the calls' for those of few."""
        has_few = np.array([call >= MANY for _, call, _, _ in self.calls])
        if is_calls:
            at = np.arange(self.times[~has_few][-1] + WINDOW_S, self.times[-1])
        else:
            at = np.arange(WINDOW_S, self.times[has_few][0])
        return float((self.of_last_minute(at, is_calls) / self.most(is_calls)).mean())

    @property
    def repeated(self) -> int:
        times = Counter(call for _, call, _, status in self.calls if status == 200)
        return sum(times.values()) - len(times)


def measured(most_calls: int, most_tokens: int) -> Run:
    """Run the job, and kill executors on the way."""
    with (
        tempfile.TemporaryDirectory(prefix="overshoot-") as place,
        serving(most_calls, most_tokens) as url,
    ):
        folder = Path(place)
        command = [sys.executable, str(APP), url, str(most_calls), str(most_tokens)]
        env = cluster_environment(folder, EXECUTORS)
        with (folder / "log").open("w") as log:
            job = subprocess.Popen([*command, str(folder / "journal")], env=env, stderr=log)
            kills = killed(job, url)
        if job.wait() != 0:
            raise RuntimeError((folder / "log").read_text()[-3000:] + executor_logs(folder))
        return Run(calls_at(url), kills, most_calls, most_tokens, os.getloadavg()[1])


def killed(job: subprocess.Popen[bytes], url: str) -> list[float]:
    """Kill an executor at each of the times; returns when that was."""
    while not calls_at(url):
        if job.poll() is not None:
            return []
        time.sleep(0.2)
    kills: list[float] = []
    start = calls_at(url)[0][0]
    for at in KILLS_AT:
        time.sleep(max(0.0, start + at - time.monotonic()))
        if job.poll() is None:
            os.kill(min(executors(job.pid)), signal.SIGKILL)
            kills.append(time.monotonic() - start)
    return kills


def executors(driver: int) -> list[int]:
    """The processes of executors below the driver's."""
    kind = "CoarseGrainedExecutorBackend"
    return [
        process.pid
        for process in Process.under(driver)
        if kind in process.command and "java" in process.command.split(" ")[0]
    ]


def told(run: Run) -> str:
    lines = [
        "## While executors are killed\n",
        "| | limit a minute | most in any minute, of the limit | used, of the limit |",
        "|---|--:|--:|--:|",
    ]
    refused = sum(status == 429 for *_, status in run.calls)
    for name, is_calls in (("calls", True), ("tokens", False)):
        most = most_in_a_minute(run.calls, None if is_calls else 2) / run.most(is_calls)
        shares = f"{most:.1%} | {run.used(is_calls):.1%}"
        lines.append(f"| {name} | {run.most(is_calls):,} | {shares} |")
    text = (
        f"The service refused {refused:,} calls (429). {len(run.kills)} executors were killed and "
        f"replaced; {run.repeated:,} calls were in flight at a kill and made again. The tokens' "
        "limit is the nearer one for the first rows, the calls' for the others; what is used is "
        "told of minutes that have one kind of rows."
    )
    picture = "![Calls and tokens a second beside their limits, with the kills](limits.png)"
    return "\n".join([*lines, "", text, "", picture])


def conditions(run: Run) -> str:
    return (
        "**While executors are killed**: `local-cluster[3,1,1024]`, 480 rows of 201 to 300 tokens "
        "and then 1,200 of 21 to 120, each charged with its prompt and 100 tokens before the call. "
        "A service in a process of its own, which knows nothing of the limiter, counts calls and "
        "tokens when they arrive, answers after 0.3 to 1 s, and refuses what is more than the "
        "limits in any 60 seconds. A journal keeps the answers. Load average in the last five "
        f"minutes of the run {run.load:.1f}."
    )


def draw(path: Path, run: Run) -> None:
    """Draw what arrived a second and in the last minute, a panel for calls and one for tokens."""
    figure, panels = plt.subplots(2, 1, figsize=(8, 5.4), sharex=True)
    seconds = np.arange(0, np.ceil(run.times[-1]) + 1)
    for axes, (name, is_calls) in zip(panels, (("calls", True), ("tokens", False)), strict=True):
        each, _ = np.histogram(run.times, seconds, weights=run.amounts(is_calls))
        axes.bar(seconds[:-1], each, width=1, align="edge", color=report.OTHER, label="a second")
        minute = run.of_last_minute(seconds, is_calls) / WINDOW_S
        axes.plot(seconds, minute, color=report.OURS, lw=1.8, label="of the last minute, by 60")
        limit = run.most(is_calls) / WINDOW_S
        axes.axhline(limit, color=report.INK, lw=1, ls="--", label="the limit")
        for at in run.kills:
            axes.axvline(at, color=report.INK, lw=1)
        axes.set_title(f"{name} a second", loc="left", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(loc="upper left", fontsize=8, frameon=False, ncols=3)
    panels[0].set_ylim(top=panels[0].get_ylim()[1] * 1.2)
    figure.supxlabel("seconds since the first call (upright: an executor is killed)", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
