"""What must hold of a program that has ended, whatever was killed: see ``docs/guarantees.md``."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyed.order_function import by_key, differences
from keyed.order_runners import CLOCK
from kills.programs import Calls, Program


def problems(of: Program, folder: Path, log: list[dict[str, Any]], end: str | None) -> list[str]:
    """What does not hold; nothing if all does."""
    if end != "done":
        return [f"it did not end: {end}", *without_a_kill(log)]
    found = without_a_kill(log)
    found += [
        f"{e['calls']} calls in flight of {e['value'] or 'all'}"
        for e in log
        if e["event"] == "crowd"
    ]
    rows = written(folder)
    if of.golden:
        return found + told_by_keys(of, rows)
    found += answers(of, of.calls, rows) if of.calls else sums(of, rows)
    return [*found, *names(of, log), *asked_again(of, log), *amounts(of, log, rows), *kept(of, log)]


def written(folder: Path) -> list[list[Any]]:
    return [
        row for file in sorted(folder.glob("out/*.json")) for row in json.loads(file.read_text())
    ]


def hits(log: list[dict[str, Any]]) -> int:
    """How often something that the program had was killed, or the query began anew."""
    return sum(entry["event"] in ("kill", "failed") for entry in log)


def without_a_kill(log: list[dict[str, Any]]) -> list[str]:
    found, killed = [], False
    for entry in log:
        if entry["event"] == "failed" and not killed:
            found.append(f"the query failed, and nothing was killed: {entry['told'][:1000]}")
        killed = entry["event"] == "kill" or (killed and entry["event"] != "started")
    return found


def told_by_keys(of: Program, rows: list[list[Any]]) -> list[str]:
    expected = of.group().expected("stream")
    is_scan = of.does.form == "scan"
    if is_scan:
        expected = {key: [one.split()[-1] for one in told] for key, told in expected.items()}
    try:
        found = by_key(rows, numbered=not is_scan)
    except AssertionError as gap:
        return [f"a key's rows are not complete, or are there twice: {gap}"]
    found.pop(CLOCK, None)
    return [f"key {key}: {both}" for key, both in differences(found, expected).items()]


def sums(of: Program, rows: list[list[Any]]) -> list[str]:
    seen: dict[str, list[int]] = defaultdict(list)
    expected = []
    for file in of.questions():
        for row in sorted(file, key=lambda row: row["id"]):
            ids = seen[row["tenant"]]
            ids.append(row["id"])
            expected.append([row["tenant"], len(ids), json.dumps([row["id"], row["ask"], ids])])
    return unlike(rows, expected)


def unlike(found: list[list[Any]], expected: list[list[Any]]) -> list[str]:
    one, other = (Counter(json.dumps(row) for row in rows) for rows in (found, expected))
    more, less = list((one - other).elements()), list((other - one).elements())
    lists = [(more, "too many"), (less, "missing")]
    return [f"{len(some)} rows {what}: {sorted(some)[:4]}" for some, what in lists if some]


def answers(of: Program, does: Calls, rows: list[list[Any]]) -> list[str]:
    """Each row once, with its own answer, or with the error that it must have."""
    expected = [[row["id"], row["ask"]] for file in of.questions() for row in file]
    found = unlike([row[:2] for row in rows], expected)
    for number, ask, answer, kind in rows:
        is_bad = random.Random(f"fate {ask}").random() > 1 - does.bad
        allowed = {"NotRetryable" if is_bad else None}
        if does.max_calls:
            allowed.add("BUDGET_EXCEEDED")
        if kind is None and answer != ask:
            found.append(f"row {number}, which asked {ask}, has the answer of {answer}")
        elif kind not in allowed:
            found.append(f"row {number} has {answer} with the error {kind}")
    return found[:6]


def calls(log: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((at, entry) for at, entry in enumerate(log) if entry["event"] in ("call", "submit"))


def names(of: Program, log: list[dict[str, Any]]) -> list[str]:
    """Of ids: none is of two questions, and a question has one where that is promised."""
    asks, ids = defaultdict(set), defaultdict(set)
    does = of.calls
    by_name = does is not None and (does.journal or does.call_key)
    in_place = does is not None and does.copies == 1 and not (does.by or does.share == "query")
    start = 0
    for entry in log:
        start += entry["event"] == "started" and of.is_batch and not by_name
        if entry["event"] in ("call", "submit"):
            for id, ask in zip(entry["ids"], entry["asks"], strict=True):
                asks[id].add(ask)
                ids[ask, start].add(id)
    found = [f"one id for the questions {sorted(of)}" for of in asks.values() if len(of) > 1]
    if by_name or (in_place and len(of.starts) == 1):
        found += [
            f"{len(of)} ids of the question {ask}" for (ask, _), of in ids.items() if len(of) > 1
        ]
    return found[:6]


def asked_again(of: Program, log: list[dict[str, Any]]) -> list[str]:
    """What was written, or is in a micro-batch that has ended, is not asked again."""
    does = of.calls
    if does and does.copies > 1 and not does.journal:
        return []
    at_once = does and (does.journal or does.mode == "carry_over")
    done: set[str] = set()
    batches: dict[int, set[str]] = {}
    found = []
    for entry in log:
        if entry["event"] == "sink":
            rows = [
                [json.loads(row[2])[1], None] if len(row) == 3 else row[1::2]
                for row in entry["rows"]
            ]
            batches[entry["batch"]] = {ask for ask, kind in rows if kind is None}
            for batch, asks in batches.items():
                if at_once or batch < entry["batch"]:
                    done |= asks
        elif entry["event"] in ("call", "submit") and not entry["orphan"]:
            again = done.intersection(entry["asks"])
            found += [f"{ask} was asked again behind its micro-batch" for ask in again]
    return found[:6]


def kept(of: Program, log: list[dict[str, Any]]) -> list[str]:
    """Of the answers that a worker had, a journal lacks those at most that were in flight.

    The next call of a task waits for a place, and a place is free when an answer is kept.
    """
    does = of.calls
    if not does or not does.journal or does.copies > 1:
        return []
    last = {ask: at for at, entry in calls(log) for ask in entry["asks"]}
    again: dict[int, set[str]] = defaultdict(set)
    for at, entry in enumerate(log):
        if entry["event"] == "answered":
            again[entry["pid"]] |= {ask for ask in entry["asks"] if last[ask] > at}
    most = does.capacity * (4 if does.form == "tickets" else 1)
    return [
        f"of the worker {pid} {len(asks)} answers were asked for again: {sorted(asks)[:9]}"
        for pid, asks in again.items()
        if len(asks) > most
    ]


def amounts(of: Program, log: list[dict[str, Any]], rows: list[list[Any]]) -> list[str]:
    """As many calls as a budget has, and none twice where nothing was killed."""
    does, start = of.calls, 0
    anew = of.is_batch and not (does and does.keep)
    begun, answered = Counter(), Counter()
    for entry in log:
        start += entry["event"] == "started" and anew
        if entry["event"] in ("call", "submit"):
            begun[start] += len(entry["asks"])
        elif entry["event"] == "answered":
            answered.update(entry["asks"])
    found = []
    if does and does.max_calls and max(begun.values(), default=0) > does.max_calls:
        found.append(f"{max(begun.values())} calls, and the budget is {does.max_calls}")
    refused = any(row[3] == "BUDGET_EXCEEDED" for row in rows if len(row) > 3)
    if refused and not hits(log) and sum(begun.values()) < does.max_calls:
        found.append(f"rows are refused after {sum(begun.values())} calls of {does.max_calls}")
    once = does and does.journal and does.share == "query" and of.is_batch
    most = 1 if not does or once else does.copies
    if not hits(log) and any(times > most for times in answered.values()):
        found.append(
            f"answered more than {most} times, and nothing was killed: {answered.most_common(3)}"
        )
    return found
