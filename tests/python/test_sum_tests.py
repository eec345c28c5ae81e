"""``tools/sum_tests.py``: the one line that closes all runs of tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "sum_tests.py"
CASES = {"p": "<testcase/>", "f": "<testcase><failure/></testcase>"}
CASES |= {"e": "<testcase><error/></testcase>", "s": "<testcase><skipped/></testcase>"}


def suite(folder: Path, name: str, code: int, cases: str | None) -> None:
    (folder / f"{name}.code").write_text(f"{code}\n")
    if cases is not None:
        text = "".join(CASES[case] for case in cases)
        (folder / f"{name}.xml").write_text(f"<testsuite>{text}</testsuite>")


@pytest.mark.parametrize(
    ("suites", "told", "code"),
    [
        ({"python": (0, "pps"), "smoke-4.0": (0, "p")}, "3 passed, 0 failed", 0),
        ({"python": (1, "ppfe"), "smoke-4.0": (0, "p")}, "3 passed, 2 failed", 1),
        # No report: nothing was installed or compiled. No test: a marker was misspelt.
        ({"python": (0, "pp"), "smoke-4.0": (1, None)}, "2 passed, 1 failed", 1),
        ({"python": (0, "pp"), "smoke-4.0": (0, "")}, "2 passed, 1 failed", 1),
        ({"python": (3, "pp")}, "2 passed, 1 failed", 1),
        ({}, "0 passed, 1 failed", 1),
        # What failed was run again.
        ({"python": (1, "ppf"), "python-again": (0, "p")}, "3 passed, 0 failed", 0),
        ({"python": (1, "ppff"), "python-again": (1, "pf")}, "2 passed, 2 failed", 1),
        ({"python": (1, "ppff"), "python-again": (0, "p")}, "2 passed, 2 failed", 1),
        ({"python": (1, "pffff"), "python-again": (0, "pppp")}, "1 passed, 4 failed", 1),
        ({"python": (1, "p"), "python-again": (5, None)}, "1 passed, 1 failed", 1),
    ],
)
def test_all_suites_are_summed_and_one_that_ran_nothing_has_failed(
    suites: dict[str, tuple[int, str | None]], told: str, code: int, tmp_path: Path
) -> None:
    for name, (its_code, cases) in suites.items():
        suite(tmp_path, name, its_code, cases)
    run = subprocess.run([sys.executable, TOOL, tmp_path], capture_output=True, text=True)
    assert (run.stdout, run.returncode) == (f"{told}\n", code)
