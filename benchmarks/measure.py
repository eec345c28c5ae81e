"""Timing of Spark jobs and the counts of processes behind them (Linux: read from /proc)."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
}


def session(tasks: int, engines: list[str]) -> SparkSession:
    """A local session without UI, with our jar if one of the engines needs it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run PATH's python3
    builder = SparkSession.builder.master(f"local[{tasks}]").appName("pillarbox benchmarks")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    if "jvm" in engines:
        builder = pb.configure(builder)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(frame: DataFrame, rows: int, answers: float) -> float:
    """Seconds to compute every row of `frame` and drop it. Raises if it had not just `rows` rows,
    whose column answer sums up to `answers`: losing rows is no way to win."""
    seen = Observation()
    watched = frame.observe(seen, F.count(F.lit(1)).alias("rows"), F.sum("answer").alias("sum"))
    started = time.perf_counter()
    watched.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - started
    found = seen.get
    if found["rows"] != rows or abs(found["sum"] - answers) > 1e-6 * max(1, rows):
        raise RuntimeError(f"{rows} rows with the sum {answers} expected, found {found}")
    return seconds


@dataclass
class Usage:
    """What the JVM and the Python workers used while a block ran."""

    seconds: float = 0.0
    cpu_of: dict[str, float] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu_of.values())


@contextmanager
def usage(every_seconds: float = 0.05) -> Iterator[Usage]:
    """Measure this process's descendants (the JVM, Spark's daemon, its workers)."""
    found, done = Usage(), threading.Event()

    def watch() -> None:
        while not done.wait(every_seconds):
            for kind, size in _resident().items():
                found.peak_bytes[kind] = max(found.peak_bytes.get(kind, 0), size)

    watcher = threading.Thread(target=watch, daemon=True)
    cpu, started = _cpu_seconds(), time.perf_counter()
    watcher.start()
    try:
        yield found
    finally:
        found.seconds = time.perf_counter() - started
        found.cpu_of = {"jvm": 0.0, "worker": 0.0}
        for (kind, pid), one in _cpu_seconds().items():
            found.cpu_of[kind] += one - cpu.get((kind, pid), 0.0)
        done.set()
        watcher.join()


def jvm_files() -> int:
    """The files and sockets that the JVM has open."""
    pids = [pid for pid in _descendants() if _name(pid) == "java"]
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)


def _descendants() -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            stat = _stat(int(entry.name))
            if stat:
                parents[int(entry.name)] = int(stat[1])
    family = {os.getpid()}
    while new := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= new
    return sorted(family - {os.getpid()})


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name: state, parent, …; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_seconds() -> dict[tuple[str, int], float]:
    """User and system time of the JVM, and of Spark's daemon and its workers, by process.

    Ended processes count that were waited for.
    """
    seconds = {}
    for pid in _descendants():
        stat = _stat(pid)
        if stat:
            kind = "jvm" if _name(pid) == "java" else "worker"
            seconds[kind, pid] = sum(map(int, stat[11:15])) / TICKS
    return seconds


def _resident() -> dict[str, int]:
    """Resident bytes of the JVM, and of the biggest Python worker."""
    sizes: dict[str, int] = {}
    for pid in _descendants():
        stat, name = _stat(pid), _name(pid)
        # Not a fork that is about to become another program: it has its parent's size.
        if stat and (name == "java" or name.startswith("python")):
            kind = "jvm" if name == "java" else "worker"
            sizes[kind] = max(sizes.get(kind, 0), int(stat[21]) * PAGE)
    return sizes


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
