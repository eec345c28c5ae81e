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
    if name == "jvm":
        (folder / name).mkdir()
        name = "jvm/io.pillarbox.Suite"
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
        ({"jvm": (0, "pp"), "python": (0, "p")}, "3 passed, 0 failed", 0),
        ({"jvm": (1, "pf"), "python": (0, "p")}, "2 passed, 1 failed", 1),
        ({}, "0 passed, 1 failed", 1),
    ],
)
def test_all_suites_are_summed_and_one_that_ran_nothing_has_failed(
    suites: dict[str, tuple[int, str | None]], told: str, code: int, tmp_path: Path
) -> None:
    for name, (its_code, cases) in suites.items():
        suite(tmp_path, name, its_code, cases)
    run = subprocess.run([sys.executable, TOOL, tmp_path], capture_output=True, text=True)
    assert (run.stdout, run.returncode) == (f"{told}\n", code)


def test_each_failed_test_is_named_beside_the_sums(tmp_path: Path) -> None:
    cases = '<testcase classname="test_a" name="good"/>'
    cases += '<testcase classname="test_a" name="bad"><failure/></testcase>'
    suite(tmp_path, "python", 1, "")
    (tmp_path / "python.xml").write_text(f"<testsuite>{cases}</testsuite>")
    run = subprocess.run([sys.executable, TOOL, tmp_path], capture_output=True, text=True)
    assert run.stderr.splitlines()[-2:] == ["failed, python: test_a::bad", "python: 1 of 2"]


def test_the_ten_slowest_tests_of_each_language_are_named(tmp_path: Path) -> None:
    times = "".join(f'<testcase classname="test_a" name="test_{i}" time="{i}"/>' for i in range(99))
    suite(tmp_path, "jvm", 0, "p")
    suite(tmp_path, "python", 0, None)
    (tmp_path / "python.xml").write_text(f"<testsuite>{times}</testsuite>")
    run = subprocess.run([sys.executable, TOOL, tmp_path], capture_output=True, text=True)
    slow = [line for line in run.stderr.splitlines() if line.startswith("slow")]
    assert [line for line in slow if "Python" in line] == [
        f"slow, Python:   {i}.0 s test_a::test_{i}" for i in range(98, 88, -1)
    ]
    assert len(slow) == 11
