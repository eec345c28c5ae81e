"""The line of ``pb.progress``: what it says of figures, and when it stays."""

from __future__ import annotations

import io
from typing import Any

from pillarbox._driver.progress import ProgressLine


def figures(**changed: Any) -> dict[str, Any]:
    none = dict.fromkeys(
        ("done", "done_rows", "rows", "calls", "retries", "errors", "in_flight"), 0
    )
    place = {"operator": "prices", "node": 1, "stage": 3, "ended": False, "tasks": 4}
    return {**place, **none, **changed}


class Screen(io.StringIO):
    """A terminal; ``line`` is what stands in its last line, ``lines`` what stays."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        return [one.split("\r")[-1].rstrip() for one in self.getvalue().split("\n")[:-1]]

    @property
    def line(self) -> str:
        shown = ""
        for text in self.getvalue().split("\n")[-1].split("\r"):
            shown = text + shown[len(text) :]
        return shown.rstrip()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_line_says_how_calls_get_on(monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    screen, clock = Screen(), Clock()
    line = ProgressLine(screen, clock=clock)
    line.show([])
    assert screen.getvalue() == ""
    line.show([figures(rows=40, calls=52, in_flight=10)])
    assert screen.line == "prices: 40 rows, 10 in flight, 0 retries, 0 errors, 130 calls/s"
    clock.now = 10.0
    line.show([figures(rows=1500, calls=2052, retries=1, errors=2, in_flight=9)])
    assert screen.line == "prices: 1,500 rows, 9 in flight, 1 retry, 2 errors, 200 calls/s"
    # Half of the rows, when all tasks have as many as the first.
    line.show([figures(done=1, done_rows=1000, rows=2000, calls=2500, in_flight=5)])
    assert screen.line.endswith("calls/s, 0:10 left")
    assert screen.lines == []


def test_a_line_with_the_sums_stays_of_a_stage_that_has_ended() -> None:
    screen, clock = Screen(), Clock()
    line = ProgressLine(screen, clock=clock)
    running, ended = figures(stage=4, rows=1), figures(ended=True, rows=12, calls=13, retries=1)
    line.show([figures(rows=3)])
    clock.now = 75.0
    line.show([ended, running])
    line.show([ended, running])
    assert screen.lines == ["prices: 12 rows, 13 calls, 1 retry, 0 errors in 1:15"]
    assert screen.line.startswith("prices: 1 row, 0 in flight")
    clock.now = 3675.0
    line.end([ended, running])
    assert screen.lines[1:] == ["prices: 1 row, 0 calls, 0 retries, 0 errors in 1:00:00"]
    assert screen.line == ""


def test_a_long_line_is_cut_and_a_shorter_one_covers_it(monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Screen()
    line = ProgressLine(screen, clock=Clock())
    both = [figures(rows=1), figures(operator="scores", node=2, rows=2)]
    line.show(both)
    assert screen.line == "prices: 1 row, 0 in flight, 0 retries,"
    line.show([])
    assert screen.line == ""


def test_a_file_gets_only_the_lines_that_stay() -> None:
    file = io.StringIO()
    line = ProgressLine(file, clock=Clock())
    line.show([figures(rows=3)])
    assert file.getvalue() == ""
    line.end([figures(rows=4, calls=4)])
    assert file.getvalue() == "prices: 4 rows, 4 calls, 0 retries, 0 errors in 0:00\n"
