"""The same metered job in five ways: what it costs, how long it takes, and what a kill repeats.

``python -m benchmarks.metered``. A service allows so many calls and tokens in any minute. Each way
asks it for all rows, once left alone, and once with the driver and all of its processes killed at
half of the answers and started again. Daft, Ray and aiolimiter are installed into .build/peers.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .. import report
from .service import WINDOW_S, Call, calls_at, completion, most_in_a_minute, serving

HERE = Path(__file__).parent
PEERS = report.ROOT / ".build/peers"
PACKAGES = ["daft", "ray[data]", "aiolimiter", "aiohttp", "pandas"]
OURS = "pb.async_io, two limits and a journal"
WAYS = {
    OURS: ("way_pillarbox.py", ""),
    "mapInPandas, asyncio, aiolimiter": ("way_map_in_pandas.py", "aiolimiter"),
    "mapInPandas, asyncio, retries": ("way_map_in_pandas.py", "retries"),
    "Daft, aiolimiter": ("way_daft.py", ""),
    "Ray Data, aiolimiter": ("way_ray.py", ""),
}


@dataclass(frozen=True)
class Run:
    """One run of a way: what the service saw, and what came out."""

    who: str
    calls: list[Call]
    seconds: float
    lost: int
    killed_at: float | None = None

    @property
    def refused(self) -> int:
        return sum(status == 429 for *_, status in self.calls)

    @property
    def paid_twice(self) -> int:
        times = Counter(call for _, call, _, status in self.calls if status == 200)
        return sum(times.values()) - len(times)


def main() -> None:
    options = arguments()
    install()
    runs: dict[str, list[Run]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="metered-") as folder,
        serving(options.calls, options.tokens) as url,
    ):
        rows = Path(folder) / "rows"
        prompts = write(rows, options.rows)
        for who in WAYS:
            if options.only in who:
                runs[who] = [
                    one_run(who, url, rows, Path(folder), options, kill) for kill in (False, True)
                ]
    page = document(runs, prompts, options)
    print(page)
    if options.output:
        (options.output / "metered.md").write_text(page)
        draw(options.output / "metered.png", runs, options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.metered", description=__doc__)
    parser.add_argument("--rows", type=int, default=900)
    parser.add_argument("--calls", type=int, default=600, help="the most in a minute")
    parser.add_argument("--tokens", type=int, default=60_000, help="the most in a minute")
    parser.add_argument("--only", default="", help="ways whose name has this")
    parser.add_argument("--output", type=Path, help="folder to write the page to")
    return parser.parse_args()


def install() -> None:
    if not (PEERS / "bin/ray").exists():
        venv.create(PEERS, with_pip=True)
        spark = subprocess.run(
            [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        pip = [str(PEERS / "bin/pip"), "install", "-q", f"pyspark=={spark}", *PACKAGES]
        subprocess.run(pip, check=True)


def write(folder: Path, rows: int) -> int:
    """Write two files of rows; returns the tokens of all prompts."""
    ids = np.arange(rows)
    prompts = 20 + ids * 6_131 % 121
    folder.mkdir()
    for part in range(2):
        columns = {"id": ids[part::2], "prompt_tokens": prompts[part::2]}
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet")
    return int(prompts.sum())


def one_run(
    who: str, url: str, rows: Path, folder: Path, options: argparse.Namespace, kill: bool
) -> Run:
    urllib.request.urlopen(urllib.request.Request(url + "reset", method="POST")).close()
    script, how = WAYS[who]
    python = sys.executable if who == OURS else str(PEERS / "bin/python")
    place = folder / f"{script}-{how}-{kill}"
    out = place / "answers"
    place.mkdir()
    command = [python, str(HERE / script), url, str(options.calls), str(options.tokens), str(rows)]
    command += [str(out), how or str(place / "journal")]
    started, killed_at = time.monotonic(), None
    log = place / "log"
    process = start(command, python, log)
    while kill and killed_at is None and process.poll() is None:
        time.sleep(0.2)
        if len({call for _, call, _, status in calls_at(url) if status == 200}) * 2 >= options.rows:
            kill_all(process)
            killed_at = time.monotonic()
            process = start(command, python, log)
    if process.wait() != 0:
        raise RuntimeError(f"{who} ended with {process.returncode}: {log.read_text()[-3000:]}")
    seconds = time.monotonic() - started
    answered = sum(
        column.is_valid().to_numpy(zero_copy_only=False).sum()
        for file in sorted(out.glob("*.parquet"))
        for column in [pq.read_table(file).column("answer").combine_chunks()]
    )
    run = Run(who, calls_at(url), seconds, options.rows - int(answered), killed_at)
    print(f"{who}: {len(run.calls)} calls, {run.refused} refused, {seconds:.0f} s", flush=True)
    return run


def start(command: list[str], python: str, log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    environment["PYTHONPATH"] = str(HERE)  # where workers of Spark and Ray find by_hand
    environment.pop("SPARK_HOME", None)
    with log.open("a") as written:
        return subprocess.Popen(command, env=environment, stderr=written)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and all that it has started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    doomed = [process.pid]
    for pid in doomed:
        doomed += [child for child, parent in parents.items() if parent == pid]
    for pid in doomed:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def document(runs: dict[str, list[Run]], prompts: int, options: argparse.Namespace) -> str:
    tokens = prompts + sum(map(completion, range(options.rows)))
    least_s = 60 * max(tokens / options.tokens, options.rows / options.calls) - 60
    head = (
        "| how | calls | refused (429) | rows lost | time | asked for in the busiest minute, of "
        "the limit | calls, with a kill | paid twice, with a kill |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|\n"
    )
    lines = "".join(line(alone, killed, options) for alone, killed in runs.values())
    conditions = (
        f"{options.rows:,} rows need {tokens:,} tokens. The service allows {options.calls:,} calls "
        f"and {options.tokens:,} tokens in any minute, counted when a call arrives, answers after "
        "0.3 to 1 s, and refuses the rest with 429 and Retry-After. What an answer will use is not "
        "known before: all ways charge the prompt and 100 tokens. Each way has 50 calls at a time, "
        "and tries a row five times. The times include the start of the processes. Spread evenly "
        f"the calls take {least_s + 60:,.0f} s; if the first minute's begin at once, "
        f"{least_s:,.0f} s. The kill comes at half of the answers, to the driver and all of its "
        "processes, and the job starts again."
    )
    parts = [head + lines, "![What was asked for in the last minute, by each way](metered.png)"]
    return report.page(
        "A metered job by other means",
        "What does a job against a service with two limits cost, how long does it take, and what "
        "does a kill repeat?",
        parts,
        conditions,
        "python -m benchmarks.metered --output docs/benchmarks",
    )


def line(alone: Run, killed: Run, options: argparse.Namespace) -> str:
    busiest = max(
        most_in_a_minute(alone.calls, None) / options.calls,
        most_in_a_minute(alone.calls, 2) / options.tokens,
    )
    return (
        f"| {alone.who} | {len(alone.calls):,} | {alone.refused:,} | {alone.lost:,} "
        f"| {alone.seconds:,.0f} s | {busiest:.2f} | {len(killed.calls):,} "
        f"| {killed.paid_twice:,} |\n"
    )


def draw(path: Path, runs: dict[str, list[Run]], options: argparse.Namespace) -> None:
    """Draw the tokens of the last minute over time, with a kill, a panel for each way."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(len(runs), 1, figsize=(8, 1.7 * len(runs)), sharex=True)
    for axes, (who, (_, run)) in zip(np.atleast_1d(panels), runs.items(), strict=True):
        start_s = run.calls[0][0]
        at = np.array([call[0] for call in run.calls]) - start_s
        sums = np.cumsum([0, *(call[2] for call in run.calls)])
        before = np.searchsorted(at, at - WINDOW_S, side="right")
        asked = (sums[1:] - sums[before]) / options.tokens
        axes.plot(at, asked, color=report.OURS if who == OURS else report.OTHER, lw=1.5)
        refused = [moment for moment, call in zip(at, run.calls, strict=True) if call[3] == 429]
        axes.plot(refused, np.zeros(len(refused)), "|", color=report.INK, ms=5)
        axes.axhline(1, color=report.INK, lw=1, ls="--")
        if run.killed_at is not None:
            axes.axvline(run.killed_at - start_s, color=report.INK, lw=1)
        axes.set_title(who, loc="left", fontsize=9)
        axes.set_ylim(bottom=-0.08)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supylabel("tokens asked for in the last minute, of the limit", fontsize=9)
    figure.supxlabel("seconds (a tick below: a refused call; upright: the kill)", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
