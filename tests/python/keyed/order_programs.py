"""Random programs of the form of ``tests/golden``, with what the model gives for them.

``python -m keyed.order_programs COUNT SEED FILE`` in ``tests/python``.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from keyed.order_function import FOLD
from keyed.order_model import run

CLOCK = [[10, 10], [20, 10], [30, 10], [40, 10]]
NEVER = 10**15
# The batch's own time is far beyond the clock's, and NEVER beyond both.
CLOCK_TIMES = [1, 2, 3, 9, 10, NEVER, NEVER + 1]


def programs(count: int, seed: int) -> dict[str, Any]:
    """As a file of ``tests/golden``; half of the cases are time-sorted."""
    draw = random.Random(seed)
    cases = [_case(draw, f"{seed}/{number}", number % 2 == 1) for number in range(count)]
    return {"clock": CLOCK, "cases": [case | _told(case) for case in cases]}


def _told(case: dict[str, Any]) -> dict[str, Any]:
    told = run(case, CLOCK)
    return {form: what for form, what in told.items() if what or form != "left"}


def _case(draw: random.Random, name: str, time_sorted: bool) -> dict[str, Any]:
    case: dict[str, Any] = {"name": name, "time_sorted": True} if time_sorted else {"name": name}
    if draw.random() < 0.15:
        steps = [step for step in range(1, 5) if draw.random() < 0.7]
        rows = [[step, _time(draw, step, time_sorted), FOLD + str(step)] for step in steps]
        return case | {"rows": rows or [[1, 5, FOLD + "1"]]}
    # What happens may only set timers that stand behind it in this order: so no program is endless.
    timers = [f"event {time}" for time in draw.sample(range(-2, 48), 9)]
    timers += [f"clock {time}" for time in draw.sample(CLOCK_TIMES, 3)]
    draw.shuffle(timers)
    case["rows"] = [
        [step, _time(draw, step, time_sorted), _ops(draw, timers)]
        for step in range(1, 5)
        for _ in range(draw.choice([0, 1, 1, 2, 3]))
    ] or [[1, 5, _ops(draw, timers)]]
    case["on"] = {
        timer: ops
        for place, timer in enumerate(timers)
        if draw.random() < 0.6 and (ops := _ops(draw, timers[place + 1 :], 3))
    }
    if draw.random() < 0.2:
        started = draw.sample(timers, draw.randint(0, 3))
        case["initial"] = {"value": draw.randint(50, 59), "timers": started}
    return case


def _time(draw: random.Random, step: int, time_sorted: bool) -> float | None:
    """Mostly ahead of the watermark, sometimes late, on it, or within a millisecond."""
    if not time_sorted and draw.random() < 0.05:
        return None
    time = 10 * step - 10 + draw.choice([-3, 0, 1, 2, 2, 3, 5, 5, 5, 8, 10, 10, 12, 19])
    return time - 0.5 if draw.random() < 0.1 else time


def _ops(draw: random.Random, timers: list[str], most: int = 5) -> str:
    ops = []
    for _ in range(draw.randint(0, most)):
        kind = draw.random()
        if kind < 0.45 and timers:
            ops.append(draw.choice(timers))
        elif kind < 0.6 and timers:
            ops.append("no " + draw.choice(timers))
        else:
            value = draw.randint(1, 9)
            choices = ["get", "all", "ttl.get", "ttl.get", "timers"]
            choices += [f"put {value}", f"add {value}", f"ttl.put {value}", f"ttl.put {value}"]
            ops.append(draw.choice(choices))
    return ", ".join(ops)


def written(golden: dict[str, Any]) -> str:
    """One line a case."""
    lines = ",\n".join(json.dumps(case) for case in golden["cases"])
    return f'{{"clock": {json.dumps(golden["clock"])}, "cases": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(written(programs(int(sys.argv[1]), int(sys.argv[2]))))
