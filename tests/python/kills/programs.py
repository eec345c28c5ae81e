"""Random programs: what a query does, on what input, how it is started, and what is killed in it.

A program follows from its seed alone, and its ``repr`` tells all of it.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keyed.order_function import FOLD, Group, folds
from keyed.order_programs import CLOCK, programs
from keyed.order_runners import CLOCK as CLOCK_KEY
from keyed.order_runners import DELAY_MS, timed

#: What has the function call the service, so that a kill can wait for such a moment.
WITH_CALLS = ("async", "def", "list", "udf", "tickets", "python")


@dataclass(frozen=True)
class Kill:
    """``what`` is killed at the ``count``-th moment ``at`` after the kill before it.

    Moments: "call" (asked, not yet counted by the service), "answer" (counted, not yet answered),
    "row" (in a keyed function), "sink" and "written" (before and after a micro-batch's rows are
    written), "offsets" and "commits" (there is another such file in the checkpoint).
    """

    what: str
    at: str
    count: int


@dataclass(frozen=True)
class Start:
    """With what the query is started, the first time or after a kill."""

    cores: int
    partitions: int
    backend: str


@dataclass(frozen=True)
class Calls:
    """A call for each row. ``mode`` is "batch", "stream" or "carry_over"."""

    mode: str
    form: str
    ordered: bool = True
    capacity: int = 4
    journal: bool = False
    share: bool | str = False
    call_key: bool = False
    by: bool = False
    #: Of calls in flight: over all, or for each value of a column.
    concurrency: int | None = None
    limit_key: bool = False
    #: It paces calls; when they begin is not looked at.
    per_second: int | None = None
    max_calls: int | None = None
    #: What is spent is kept over runs.
    keep: bool = False
    #: How many rows there are of each question.
    copies: int = 1
    #: Shares of the questions whose first call fails, and of those that fail always.
    flaky: float = 0.0
    bad: float = 0.0


@dataclass(frozen=True)
class Keyed:
    """A keyed function, in a stream: "async", or golden programs as rows, columns, jvm or scan."""

    form: str
    time_sorted: bool = False
    keys: int = 8
    capacity: int = 4
    flaky: float = 0.0


@dataclass(frozen=True)
class Program:
    seed: int
    does: Calls | Keyed
    files: int
    rows: int
    starts: tuple[Start, ...]
    kills: tuple[Kill, ...]
    format: int
    cluster: bool

    @property
    def name(self) -> str:
        return f"{getattr(self.does, 'mode', 'keyed')} {self.does.form}"

    @property
    def calls(self) -> Calls | None:
        return self.does if isinstance(self.does, Calls) else None

    @property
    def golden(self) -> bool:
        return isinstance(self.does, Keyed) and self.does.form != "async"

    @property
    def is_batch(self) -> bool:
        return self.calls is not None and self.calls.mode == "batch"

    def questions(self) -> list[list[dict[str, Any]]]:
        """The rows of calls, a list a file: a number, a tenant, and what is asked."""
        dice, copies = random.Random(f"rows {self.seed}"), getattr(self.does, "copies", 1)
        numbers = [n // copies for n in range(self.files * self.rows)]
        dice.shuffle(numbers)
        rows = [
            {"id": n, "tenant": f"t{number % 5}", "ask": f"{self.seed}/{number}"}
            for n, number in enumerate(numbers)
        ]
        return [rows[at : at + self.rows] for at in range(0, len(rows), self.rows)]

    def group(self) -> Group:
        """The golden programs of a keyed function, each the program of one key."""
        assert isinstance(self.does, Keyed)
        folding = self.does.form in ("columns", "scan")
        made = programs(400 if folding else 60, self.seed)["cases"]
        cases = [
            case
            for case in made
            if case.get("time_sorted", False) == self.does.time_sorted
            and "initial" not in case
            and (not folding or folds(case))
        ]
        return Group(self.does.time_sorted, CLOCK, cases[: self.does.keys])


def program(seed: int) -> Program:
    dice = random.Random(f"kills {seed}")
    cluster = dice.random() < 0.15
    does = _calls(dice) if dice.random() < 0.6 else _keyed(dice)
    files = {"batch": 2}.get(getattr(does, "mode", ""), dice.randint(2, 4))
    files = files if not isinstance(does, Keyed) or does.form == "async" else 5
    starts = tuple(
        Start(
            dice.choice([1, 2, 3, 4]),
            dice.choice([1, 2, 2, 3, 4]),
            dice.choice(["heap", "rocksdb"]),
        )
        for _ in range(4)
    )
    if dice.random() < 0.3:
        starts = (starts[0],)
    made = Program(seed, does, files, dice.randint(8, 25), starts, (), dice.choice([1, 2]), cluster)
    kills = tuple(_kill(dice, made) for _ in range(dice.choice([1, 1, 2, 2, 3])))
    return replace(made, kills=kills)


def _calls(dice: random.Random) -> Calls:
    mode = dice.choice(["batch", "stream", "stream", "carry_over", "carry_over"])
    form = dice.choice(
        ["async", "async", "async", "def", "list", "list", "udf", "tickets", "python"]
    )
    if (mode, form) in (("carry_over", "udf"), ("carry_over", "python"), ("stream", "tickets")):
        form = "async"
    does = Calls(
        mode,
        form,
        ordered=form == "udf" or dice.random() < 0.6,
        # A list has four rows.
        capacity=dice.choice([4, 8] if form == "list" else [1, 2, 4, 8]),
        flaky=dice.choice([0.0, 0.2]),
        bad=0.0 if form in ("list", "tickets") else dice.choice([0.0, 0.0, 0.1]),
    )
    if form == "python":
        return does
    journal = form == "tickets" or dice.random() < 0.5
    does = replace(does, journal=journal)
    if form != "udf":
        does = replace(does, call_key=not journal and dice.random() < 0.3)
        shares = [False, False, True] if mode == "carry_over" else [False, False, True, "query"]
        does = replace(does, share=dice.choice(shares))
    if form != "udf" and does.share != "query":
        by = does.ordered and mode != "carry_over" and dice.random() < 0.2
        does = replace(does, by=by)
    if does.share or does.journal or does.call_key:
        does = replace(does, copies=dice.choice([1, 2, 3]))
    if dice.random() < 0.3:
        keyed = form in ("async", "def") and dice.random() < 0.5
        does = replace(does, concurrency=dice.choice([1, 2, 3]), limit_key=keyed)
    elif dice.random() < 0.15:
        does = replace(does, per_second=100)
    if dice.random() < 0.3:
        does = replace(does, max_calls=dice.choice([10, 25, 50, 1000]), keep=dice.random() < 0.5)
    return does


def _keyed(dice: random.Random) -> Keyed:
    form = dice.choice(["rows", "rows", "async", "columns", "jvm", "scan"])
    is_sorted = form != "columns" and form != "async" and dice.random() < 0.5
    flaky = dice.choice([0.0, 0.3]) if form == "async" else 0.0
    return Keyed(form, is_sorted, dice.choice([4, 8, 16]), dice.choice([1, 3]), flaky)


def _kill(dice: random.Random, made: Program) -> Kill:
    does = made.does
    moments = (
        [] if getattr(does, "mode", "") == "batch" else ["sink", "written", "offsets", "commits"]
    )
    if does.form in WITH_CALLS:
        moments = ["call", "call", "answer", "answer", *moments[: dice.randint(0, 4)]]
    elif does.form in ("rows", "columns"):
        moments += ["row"] * 4
    at = dice.choice(moments)
    whats = ["worker", "driver"] if does.form not in ("jvm", "scan") else ["driver"]
    whats += ["executor", "executor"] if made.cluster else []
    few = at not in ("call", "answer", "row")
    most = 2 if few else 6 if does.form in ("list", "tickets", "columns") else 20
    return Kill(dice.choice(whats), at, dice.randint(1, most))


def write_input(of: Program, folder: Path) -> None:
    """A file is a micro-batch."""
    (folder / "in").mkdir(parents=True)
    files: list[list[dict[str, Any]]] = of.questions()
    if of.golden:
        group = of.group()
        idle = FOLD + "0" if of.does.form in ("columns", "scan") else ""
        files = []
        for step, watermark in enumerate([*(after for after, _ in group.clock), None]):
            clock = [] if watermark is None else [(CLOCK_KEY, step, watermark + DELAY_MS, idle)]
            rows = [timed(row) for row in [*group.rows(step), *clock]]
            files.append(
                [
                    {"k": k, "i": i, "ts": ts and ts.isoformat(), "ops": ops}
                    for k, i, ts, ops in rows
                ]
            )
    for number, rows in enumerate(files):
        path = folder / "in" / f"{number}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
