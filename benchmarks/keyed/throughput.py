"""Running count and sum per key as a stream: Pillarbox beside Spark's operators and PyFlink.

Everyone reads the same parquet files in one micro-batch (two tasks, two partitions of state,
RocksDB) into a sink that drops the rows; the time is that of the micro-batches. Contestants that
are slow get a tenth of rows and keys. Repeats are interleaved.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .. import pyflink_peer, report
from . import contestants, data, stream
from .contestants import COUNT, MAP, TIMER, TTL, Contestant

WARM_UP_ROWS = 20_000
SLOW_SHARE = 10
GOALS = [  # group, ours, theirs, at least so many times as fast
    (COUNT, contestants.ROW, contestants.TWS, 20),
    (COUNT, contestants.ROW, "transformWithStateInPandas", 25),
    (COUNT, contestants.ROW, contestants.PYFLINK_BEST, 10),
    (COUNT, contestants.ROW, contestants.TWS_JVM_KEY, 0.4),
    (COUNT, contestants.COLUMNS, contestants.TWS_JVM_KEY, 1),
    (COUNT, contestants.COLUMNS, contestants.TWS, 50),
    (COUNT, contestants.COLUMNS, contestants.IDENTITY, 0.5),
    (COUNT, contestants.SCAN, contestants.AGGREGATE, 1),
    (TIMER, contestants.ROW, contestants.TWS, 20),
    (TIMER, contestants.COLUMNS, contestants.ROW, 3),
    (MAP, contestants.ROW, contestants.TWS, 20),
    (TTL, contestants.ROW, contestants.TWS, 20),
]


@dataclass
class Result:
    """The speeds of one contestant, in rows a second, one for each repeat."""

    group: str
    who: str
    mine: bool
    rows: int
    speeds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.speeds)


def main() -> None:
    options = arguments()
    results: Results = {}
    spark = stream.session()
    try:
        with tempfile.TemporaryDirectory(prefix="keyed-bench-") as name:
            bench = Bench(spark, Path(name), options.rows)
            bench.warm_up()
            for repeat in range(options.repeats):
                for contestant, rows, speed in bench.round():
                    note(results, contestant.group, contestant.who, contestant.mine, rows, speed)
                    print(f"  {repeat + 1}/{options.repeats} {contestant.group}, {contestant.who}: "
                          f"{speed:,.0f} rows/s", flush=True)  # fmt: skip
    finally:
        spark.stop()
    remarks = [] if options.no_pyflink else pyflink(results, options)
    page = document(list(results.values()), remarks, options)
    print(page)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "keyed.md").write_text(page)
        draw(options.output / "keyed.png", list(results.values()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.keyed.throughput", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="ten rows a key")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-pyflink", action="store_true")
    parser.add_argument("--output", type=Path, help="folder to write keyed.md and keyed.png to")
    parser.add_argument("--quick", action="store_true", help="20,000 rows once, without PyFlink")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.repeats, options.no_pyflink = 20_000, 1, True
    return options


class Bench:
    """Runs every contestant in turn over data that is written once."""

    def __init__(self, spark, folder: Path, rows: int) -> None:  # type: ignore[no-untyped-def]
        self.spark = spark
        few = min(WARM_UP_ROWS, rows)
        self.few = data.write(folder / "few", few, few // 10)
        self.all = data.write(folder / "all", rows, rows // 10)
        slow = max(1_000, rows // SLOW_SHARE)
        self.slow = data.write(folder / "slow", slow, slow // 10)

    def warm_up(self) -> None:
        """Everyone once over few rows: the JVM compiles, Python's workers start."""
        for contestant in contestants.ALL:
            self.run(contestant, self.few)

    def round(self) -> Iterator[tuple[Contestant, int, float]]:
        for contestant in contestants.ALL:
            rows = self.slow if contestant.slow else self.all
            self.run(contestant, self.few)  # again: others may have pushed it out of the caches
            yield contestant, rows.rows, rows.rows / self.run(contestant, rows).seconds

    def run(self, contestant: Contestant, rows: data.Rows) -> stream.Ran:
        frame = contestant.transform(stream.read(self.spark, rows.folder))
        ran = stream.run(
            frame,
            counted="n" if contestant.counts else None,
            no_data_batches=contestant.no_data_batches,
        )
        if contestant.counts:
            # With timers that forget keys the counts start again, so only the rows are compared.
            total = None if contestant.group == TIMER else rows.sum_of_counts
            stream.check(ran, rows.rows, total)
        return ran


Results = dict[tuple[str, str], Result]


def note(results: Results, group: str, who: str, mine: bool, rows: int, speed: float) -> None:
    results.setdefault((group, who), Result(group, who, mine, rows)).speeds.append(speed)


def pyflink(results: Results, options: argparse.Namespace) -> list[str]:
    """Adds PyFlink's faster mode: the net time of a job less that of a small one. Gives remarks."""
    rows = max(1_000, options.rows // SLOW_SHARE)
    who, script = contestants.PYFLINK_BEST, Path(__file__).with_name("pyflink_job.py")
    try:
        python = pyflink_peer.python()
        sizes = ["1000"] * 4 + [str(rows)] * options.repeats
        # Thread mode finds its packages by the path alone.
        packages = next((python.parents[1] / "lib").glob("python3*/site-packages"))
        output = subprocess.run(
            [str(python), str(script), "thread", "rocksdb", str(rows // 10), *sizes],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(packages)},
        ).stdout
    except (pyflink_peer.Unavailable, subprocess.CalledProcessError) as problem:
        text = str(getattr(problem, "stderr", None) or problem).strip().splitlines()
        return [f"{who} was not measured: {text[-1]}"]
    _, *times = json.loads(output.strip().splitlines()[-1])  # the first job warms the process up
    start_up = min(times[:3])
    for seconds in times[3:]:
        note(results, COUNT, who, False, rows, rows / max(seconds - start_up, 1e-3))
        print(f"  {who}: {rows / (seconds - start_up):,.0f} rows/s", flush=True)
    return []


def document(results: list[Result], remarks: list[str], options: argparse.Namespace) -> str:
    parts = ["![Speed of each way](keyed.png)"]
    for group in dict.fromkeys(result.group for result in results):
        rows = table([r for r in results if r.group == group])
        parts.append(f"## {group[0].upper()}{group[1:]}\n\n{rows}")
    parts.append(f"## The aims\n\n{aims(results)}")
    conditions = [
        f"{options.rows:,} rows with {options.rows // 10:,} keys in random order, parquet files, "
        "`availableNow`, two tasks, state in RocksDB, rows into a no-op sink; rows over the time "
        f"of the micro-batches, {options.repeats} interleaved repeats, the median and the range. "
        f"Contestants with fewer rows would take minutes with all of them: they have a "
        f"{SLOW_SHARE}th of rows and keys. PyFlink, with a tenth too, counts "
        "numbers from its own source, its job's start left out. The sum of all counts is "
        "checked.",
        *remarks,
    ]
    return report.page(
        "Keyed process functions, as a stream",
        "How many rows a second go through a keyed function, beside what Spark and PyFlink have?",
        parts,
        "\n\n".join(conditions),
        "python -m benchmarks.keyed.throughput --output docs/benchmarks",
    )


def table(results: list[Result]) -> str:
    head = "| how | rows | rows/s | slowest - fastest run |\n|---|--:|--:|--:|"
    lines = [
        f"| {'**' if r.mine else ''}{r.who}{'**' if r.mine else ''} | {r.rows:,} | {r.median:,.0f} "
        f"| {min(r.speeds):,.0f} - {max(r.speeds):,.0f} |"
        for r in sorted(results, key=lambda r: -r.median)
    ]
    return "\n".join([head, *lines])


def aims(results: list[Result]) -> str:
    """Ours against theirs, in times as fast, beside what it was to be."""
    found = {(r.group, r.who): r for r in results}
    lines = ["| what | against | times as fast | lowest - highest | aim |\n|---|---|--:|--:|--:|"]
    for group, ours, theirs, least in GOALS:
        mine, other = found.get((group, ours)), found.get((group, theirs))
        if mine and other:
            low, high = min(mine.speeds) / max(other.speeds), max(mine.speeds) / min(other.speeds)
            ratio = mine.median / other.median
            lines.append(f"| {group}: {ours} | {theirs} | {ratio:.2f} | {low:.2f} - {high:.2f} "
                         f"| {report.aim_of(ratio, least, at_least=True)} |")  # fmt: skip
    plain, ttl = found.get((COUNT, contestants.ROW)), found.get((TTL, contestants.ROW))
    if plain and ttl:
        ratio = plain.median / ttl.median
        lines.append(f"| {contestants.ROW}: time with TTL | without | {ratio:.2f} | | "
                     f"at most {report.aim_of(ratio, 1.2)} |")  # fmt: skip
    return "\n".join(lines)


def draw(path: Path, results: list[Result]) -> None:
    """Bars on a logarithmic scale, a panel a group."""
    groups = list(dict.fromkeys(r.group for r in results))
    sizes = [sum(r.group == group for r in results) for group in groups]
    figure, panels = report.plt.subplots(
        len(groups), 1, figsize=(9, 0.34 * sum(sizes) + 2.4), sharex=True,
        gridspec_kw={"height_ratios": sizes}, squeeze=False,
    )  # fmt: skip
    for (axes,), group in zip(panels, groups, strict=True):
        chosen = sorted((r for r in results if r.group == group), key=lambda r: r.median)
        colours = [report.OURS if r.mine else report.OTHER for r in chosen]
        axes.barh([r.who for r in chosen], [r.median for r in chosen], color=colours)
        for place, result in enumerate(chosen):
            axes.text(result.median * 1.08, place, f"{result.median:,.0f}", **report.LABEL)
        axes.set_xscale("log")
        axes.set_title(group, loc="left", fontweight="bold", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1][0].set_xlabel("rows a second, two tasks (logarithmic)")
    panels[-1][0].set_xlim(right=2.5 * max(r.median for r in results))
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    report.plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
