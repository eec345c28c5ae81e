"""Lookups in a journal beside Parquet, sorted by call id, and SQLite.

Each run is a process of its own, and the contestants take turns. The class of the JVM beside this
module does the work; it is compiled here, against Spark's jars and ours.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyspark

from pillarbox._driver.jars import jar_for

from . import report

JARS = Path(pyspark.__file__).parent / "jars"
SOURCE = Path(__file__).parent / "JournalLookups.java"
Figures = dict[str, float]

# Name of a figure, what it says, and its format.
COLUMNS = [
    ("bytes", "bytes an answer", "{:,.0f}"),
    ("write", "written a second", "{:,.0f}"),
    ("open", "to open", "{:,.1f} s"),
    ("heap", "heap", "{:,.0f} MB"),
]
CONTESTANTS = {
    "segments": "segments, with a heap of 4 GB",
    "small": "segments, with a heap of 1 GB",
    "parquet": "Parquet",
    "sqlite": "SQLite",
}
LOOKUPS = [
    ("segments", "written", "segments, in the order of writing"),
    ("segments", "random", "segments, in random order"),
    ("small", "written", "segments with a heap of 1 GB, in the order of writing"),
    ("small", "random", "segments with a heap of 1 GB, in random order"),
    ("parquet", "all", "Parquet, all at a time, sorted"),
    ("parquet", "thousand", "Parquet, a thousand at a time"),
    ("parquet", "one", "Parquet, one at a time"),
    ("sqlite", "random", "SQLite, from Python, in random order"),
]


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="journal-lookups") as folder:
        place = Path(folder)
        class_path = f"{place}:{jar_for(pyspark.__version__)}:{JARS}/*"
        subprocess.run(["javac", "-cp", class_path, "-d", folder, str(SOURCE)], check=True)
        runs = measured(class_path, place, options)
    page = report.page(
        "Async I/O, lookups in a journal",
        "How fast are kept answers found, and would Parquet or SQLite find them faster?",
        [sizes(runs, options.answers), lookups(runs), slope(runs, options.answers)],
        f"{options.answers:,} answers of 100 random bytes with a key of 16, of which one thread "
        f"looks a tenth up, on the local disk; medians of {options.repeats} runs that took turns. "
        "Parquet: parquet-hadoop of Spark, uncompressed, pages of 1,000 rows, Bloom filter and "
        "page index, the latter held in memory.",
        "python -m benchmarks.journal_lookups --output docs/benchmarks",
    )
    print(page)
    if options.output:
        (options.output / "journal-lookups.md").write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.journal_lookups", description=__doc__)
    parser.add_argument("--answers", type=int, default=10_000_000, help="at most 16 million")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="folder to write journal-lookups.md to")
    parser.add_argument("--quick", action="store_true", help="a small journal, one repeat")
    options = parser.parse_args()
    if options.quick:
        options.answers, options.repeats = 200_000, 1
    return options


def measured(class_path: str, place: Path, options: argparse.Namespace) -> dict[str, list[Figures]]:
    def java(answers: int, folder: Path, what: str, heap: str = "4g") -> Figures:
        command = ["java", f"-Xmx{heap}", "-cp", class_path, "JournalLookups", str(answers)]
        done = subprocess.run([*command, str(folder), what], check=True, stdout=subprocess.PIPE)
        lines = (line.split() for line in done.stdout.decode().splitlines())
        return {name: float(value) for name, value in lines}

    half = options.answers // 2
    contestants: dict[str, Callable[[], Figures]] = {
        "half": lambda: java(half, place / "half", "segments", "1g"),
        "segments": lambda: java(options.answers, place / "whole", "segments"),
        "small": lambda: java(options.answers, place / "whole", "segments", "1g"),
        "parquet": lambda: java(options.answers, place / "whole", "parquet"),
        "sqlite": lambda: sqlite(options.answers, place / "answers.db"),
    }
    for folder in ("half", "whole"):
        (place / folder).mkdir()
    runs: dict[str, list[Figures]] = {name: [] for name in contestants}
    for _ in range(options.repeats):
        for name, run in contestants.items():
            runs[name].append(run())
    return runs


def sqlite(answers: int, file: Path) -> Figures:
    def call(number: int) -> bytes:
        return hashlib.blake2b(number.to_bytes(8, "big"), digest_size=16).digest()

    figures: Figures = {}
    is_new = not file.exists()
    start = time.perf_counter()
    database = sqlite3.connect(file)
    database.execute("pragma cache_size = -1000000")
    if is_new:
        database.execute(
            "create table answers (call blob primary key, at int, key blob, answer blob) "
            "without rowid"
        )
        rows = ((call(n), n, bytes(16), os.urandom(100)) for n in range(answers))
        database.executemany("insert into answers values (?, ?, ?, ?)", rows)
        database.commit()
        figures["write"] = answers / (time.perf_counter() - start)
    figures["bytes"] = file.stat().st_size / answers
    numbers = random.Random(7)
    wanted = [call(numbers.randrange(answers)) for _ in range(answers // 10)]
    start = time.perf_counter()
    for one in wanted:
        found = database.execute("select answer from answers where call = ?", (one,)).fetchone()
        assert len(found[0]) == 100
    figures["random"] = len(wanted) / (time.perf_counter() - start)
    database.close()
    return figures


def median(runs: list[Figures], figure: str) -> float:
    return statistics.median(run[figure] for run in runs if figure in run)


def sizes(runs: dict[str, list[Figures]], answers: int) -> str:
    head = " | ".join(told for _, told, _ in COLUMNS)
    lines = [f"## {answers:,} answers\n", f"| | {head} |", "|---|" + "--:|" * len(COLUMNS)]
    for name in ("segments", "small", "parquet", "sqlite"):
        cells = [
            form.format(median(runs[name], figure)) if figure in runs[name][0] else "-"
            for figure, _, form in COLUMNS
        ]
        lines.append(f"| {CONTESTANTS[name]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def lookups(runs: dict[str, list[Figures]]) -> str:
    base = [run["random"] for run in runs["segments"]]
    lines = [
        "## Lookups\n",
        "| | lookups a second | of segments in random order |",
        "|---|--:|--:|",
    ]
    for name, figure, told in LOOKUPS:
        ratios = [run[figure] / of for run, of in zip(runs[name], base, strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"
        lines.append(f"| {told} | {median(runs[name], figure):,.0f} | {spread} |")
    return "\n".join(lines)


def slope(runs: dict[str, list[Figures]], answers: int) -> str:
    half, whole = (median(runs[name], "heap") for name in ("half", "small"))
    grown = (whole - half) / (answers / 2)
    billion = whole + grown * (1_000_000_000 - answers)
    return (
        "## Memory\n\n"
        f"In a heap of 1 GB the index of {answers // 2:,} answers takes {half:,.0f} MB, that of "
        f"{answers:,} takes {whole:,.0f} MB: {grown * 1e6:,.1f} MB a million more, and by that "
        f"slope {billion:,.0f} MB for a billion."
    )


if __name__ == "__main__":
    main()
