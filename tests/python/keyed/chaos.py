"""Runs ``chaos_app`` and kills parts of it with SIGKILL at random moments."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pillarbox as pb
from spark_support import eventually

EPOCH = datetime(2026, 11, 1, tzinfo=timezone.utc)
KINDS = ("worker", "task", "job", "executor", "driver")
APP = Path(__file__).with_name("chaos_app.py")
SOURCES = str(Path(pb.__file__).parents[1])
LIMIT_S = 600.0
# What the application writes when it has killed a task or a job.
STRUCK = "chaos: killed"


def write_input(folder: Path, files: int, seed: int = 1) -> None:
    """Files that are micro-batches: rows out of order within 3 s, some late; at last all state."""
    folder.mkdir(parents=True, exist_ok=True)
    random_ = random.Random(seed)
    keys = [f"key {i}" for i in range(8)]
    seq = 0

    def row(key: str, at_s: float, what: str) -> dict[str, Any]:
        nonlocal seq
        seq += 1
        ts = (EPOCH + timedelta(seconds=at_s)).isoformat()
        return {"seq": seq, "k": key, "v": random_.randint(1, 30), "ts": ts, "what": what}

    batches = []
    for number in range(files):
        times = [number * 4 + random_.uniform(-3, 4) for _ in range(14)]
        late = [number * 4 - 20.0] if number > 5 and number % 4 == 0 else []
        batches.append([row(random_.choice(keys), at, "row") for at in [*times, *late]])
    end = files * 4 + 10
    batches.append([row(key, end, "dump") for key in keys])
    batches.append([row("end", end + 1000, "end")])
    for number, batch in enumerate(batches):
        path = folder / f"{number:04}.json"
        path.write_text("".join(json.dumps(one) + "\n" for one in batch))
        os.utime(path, (1_000_000 + number * 10, 1_000_000 + number * 10))


def carried(folder: Path, after: str) -> list[list[Any]]:
    """What the calls with carry-over give for the files of a folder: "rows", or "windows" of them.

    Windows have five seconds; the last row is so far ahead that all but its own are closed.
    """
    lines = [line for file in folder.iterdir() for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    if after == "rows":
        return [[row["k"], row["what"], row["seq"], f"{row['k']} {row['v']}"] for row in rows]
    windows = defaultdict(list)
    for row in rows:
        number = (datetime.fromisoformat(row["ts"]) - EPOCH) // timedelta(seconds=5)
        windows[number, row["k"]].append(row)
    del windows[max(windows)]
    return [
        [
            key,
            max(row["what"] for row in of),
            sum(row["seq"] for row in of),
            f"{EPOCH + number * timedelta(seconds=5):%Y-%m-%d %H:%M:%S} {len(of)}",
        ]
        for (number, key), of in windows.items()
    ]


@dataclass(frozen=True)
class Process:
    """One process of the machine, as ``/proc`` shows it.

    The same only if it also started at the same time: the machine uses numbers again.
    """

    pid: int
    started: str
    parent: int = field(compare=False)
    command: str = field(compare=False)

    @classmethod
    def all(cls) -> list[Process]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except (OSError, IndexError):
                    continue
                if stat[0] != "Z":
                    found.append(cls(int(entry.name), stat[19], int(stat[1]), command.strip()))
        return found

    @classmethod
    def under(cls, pid: int) -> list[Process]:
        """The process and all that it has started."""
        processes = cls.all()
        wanted = {pid}
        size = 0
        while size < len(wanted):
            size = len(wanted)
            wanted |= {one.pid for one in processes if one.parent in wanted}
        return [one for one in processes if one.pid in wanted]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def close(app: subprocess.Popen[str]) -> None:
    """Waits for the end of an application."""
    app.wait(60)
    if app.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            app.stdin.close()


@dataclass
class Chaos:
    """A run of the application in ``folder``, with kills on the way.

    :param kills: how often each kind of part is killed, over the run
    """

    folder: Path
    settings: dict[str, Any]
    kills: dict[str, int]
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    left: list[Process] = field(default_factory=list)

    def run(self) -> list[list[Any]]:
        """The rows of the sink at the end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        app = self.start()
        try:
            for count, kind in self.schedule():
                self.wait(app, lambda count=count: self.handed_out() >= count, f"file {count}")
                time.sleep(
                    random.Random(self.seed * 1000 + sum(self.done.values())).uniform(0, 0.5)
                )
                app = self.strike(app, kind)
            self.wait(app, lambda: app.poll() is not None, "the end")
        finally:
            self.end(app)
        return json.loads((self.folder / "answer.json").read_text())

    def schedule(self) -> list[tuple[int, str]]:
        """After how many files what is killed: one after another file each, in random order."""
        kinds = [kind for kind, times in self.kills.items() for _ in range(times)]
        random.Random(self.seed).shuffle(kinds)
        return list(enumerate(kinds, start=1))

    def start(self) -> subprocess.Popen[str]:
        settings = {"folder": str(self.folder), "restarts": 1000, **self.settings}
        env = {
            **os.environ,
            "PYTHONPATH": SOURCES,
            "PYSPARK_PYTHON": sys.executable,
        }
        with open(self.folder / "log", "a") as log:
            return subprocess.Popen(
                [sys.executable, str(APP), json.dumps(settings)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, env=env,
            )  # fmt: skip

    def strike(self, app: subprocess.Popen[str], kind: str) -> subprocess.Popen[str]:
        """Kills one, or all Python workers; the application that runs afterwards."""
        self.note(f"kill {sum(self.done.values()) + 1}: {kind}")
        if kind in ("task", "job"):
            self.command(app, kind)
        elif kind == "driver":
            orphans = Process.under(app.pid)
            for one in orphans:
                if one.pid == app.pid or one.parent == app.pid:
                    kill(one.pid)
            close(app)
            # Executors find out by themselves, while the next driver starts.
            self.left += orphans
            app = self.start()
        else:
            victims = self.victims(app, kind)
            if kind != "workers":
                victims = [random.Random(self.seed + sum(self.done.values())).choice(victims)]
            for one in victims:
                kill(one.pid)
        self.done[kind] += 1
        return app

    def command(self, app: subprocess.Popen[str], kind: str) -> None:
        """Has the application kill one, and waits until it has."""
        assert app.stdin is not None
        before = self.text().count(STRUCK)
        app.stdin.write(kind + "\n")
        app.stdin.flush()

        def struck() -> bool:
            return self.text().count(STRUCK) > before

        self.wait(app, struck, f"a {kind} to kill")
        assert struck(), self.told(f"The application ended while a {kind} was looked for")

    def victims(self, app: subprocess.Popen[str], kind: str) -> list[Process]:
        """Waits until there is one."""
        found: list[Process] = []

        def look() -> bool:
            processes = Process.under(app.pid)
            daemons = {one.pid for one in processes if "pyspark.daemon" in one.command}
            found[:] = [
                one
                for one in processes
                if (
                    one.parent in daemons
                    if kind in ("worker", "workers")
                    else "CoarseGrainedExecutor" in one.command
                )
            ]
            return bool(found) or app.poll() is not None

        self.wait(app, look, f"a {kind}")
        assert found, self.told(f"The application ended while a {kind} was looked for")
        return found

    def handed_out(self) -> int:
        """How many files the query has been given."""
        folder = self.folder / "in"
        return len(os.listdir(folder)) if folder.exists() else 0

    def wait(self, app: subprocess.Popen[str], condition: Callable[[], bool], what: str) -> None:
        def ready() -> bool:
            return condition() or app.poll() is not None

        try:
            eventually(ready, what, LIMIT_S)
        except AssertionError as late:
            raise AssertionError(self.told(str(late))) from None
        if app.poll() not in (None, 0):
            raise AssertionError(self.told(f"Exit code {app.returncode} before {what}"))

    def end(self, app: subprocess.Popen[str]) -> None:
        """Leaves no process behind."""
        if app.poll() is None:
            self.left += Process.under(app.pid)

        def alive() -> set[Process]:
            return set(self.left).intersection(Process.all())

        for one in alive():
            kill(one.pid)
        close(app)
        try:
            eventually(lambda: not alive(), "the end of all processes")
        except AssertionError as late:
            raise AssertionError(self.told(f"{late}: {alive()}")) from None

    def compare(self, rows: list[list[Any]], expected: list[list[Any]]) -> None:
        """Fails with the first rows that are too many and that are missing."""
        found, wanted = (Counter(json.dumps(row) for row in some) for some in (rows, expected))
        if found != wanted:
            more, less = found - wanted, wanted - found
            lists = [
                f"{sum(some.values())} rows {which}:\n" + "\n".join(sorted(some.elements())[:10])
                for which, some in (("too many", more), ("missing", less))
            ]
            raise AssertionError(self.told("The rows differ.\n" + "\n".join(lists)))

    def told(self, what: str) -> str:
        """What went wrong, where, what was killed, and the end of the driver's log."""
        kills = [line for line in self.text().splitlines() if " kill " in line[:16]]
        after = "\n".join(kills) or "nothing"
        return f"{what}\nIn {self.folder}, after:\n{after}\n...{self.text()[-4000:]}"

    def note(self, what: str) -> None:
        with open(self.folder / "log", "a") as log:
            log.write(f"\n{time.strftime('%H:%M:%S')} {what}\n")

    def text(self) -> str:
        return (self.folder / "log").read_text(errors="replace")
