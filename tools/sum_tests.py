"""Sums the suites of `tools/run_tests`; exits non-zero if one failed or ran nothing."""

import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

_SLOWEST = 10


@dataclass(frozen=True)
class Case:
    """One test that was not skipped."""

    name: str
    seconds: float
    failed: bool


def reports_of(code: Path) -> list[Path]:
    """A suite of the JVM has a folder of reports, one of Python a file."""
    folder, file = code.with_suffix(""), code.with_suffix(".xml")
    return [*sorted(folder.glob("*.xml")), *([file] if file.exists() else [])]


def cases(code: Path) -> list[Case]:
    return [
        Case(
            f"{case.get('classname')}::{case.get('name')}",
            float(case.get("time") or 0),
            bool({child.tag for child in case} & {"failure", "error"}),
        )
        for report in reports_of(code)
        for case in ElementTree.parse(report).iter("testcase")
        if case.find("skipped") is None
    ]


def counts(code: Path, found: list[Case]) -> tuple[int, int]:
    """How many cases passed and failed. A suite that failed without a failed test (it did not
    compile, say), or in which nothing passed, counts as one failure."""
    failed = sum(case.failed for case in found)
    passed = len(found) - failed
    is_bad = code.read_text().strip() != "0" or passed == 0
    return passed, failed or int(is_bad)


def tell_slowest(language: str, found: list[Case]) -> None:
    slowest = sorted(found, key=lambda case: -case.seconds)[:_SLOWEST]
    for case in slowest:
        print(f"slow, {language}: {case.seconds:6.1f} s {case.name}", file=sys.stderr)


def tell_failed(suite: str, found: list[Case]) -> None:
    for case in found:
        if case.failed:
            print(f"failed, {suite}: {case.name}", file=sys.stderr)


def main() -> int:
    suites = {code: cases(code) for code in sorted(Path(sys.argv[1]).glob("*.code"))}
    jvm = {code for code in suites if code.with_suffix("").is_dir()}
    for language, codes in (("JVM", jvm), ("Python", suites.keys() - jvm)):
        tell_slowest(language, [case for code in codes for case in suites[code]])
    for code, found in suites.items():
        tell_failed(code.stem, found)
    sums = {code.stem: counts(code, found) for code, found in suites.items()}
    for name, (passed, failed) in sums.items():
        print(f"{name}: {passed} of {passed + failed}", file=sys.stderr)
    passed = sum(passed for passed, _ in sums.values())
    failed = sum(failed for _, failed in sums.values()) + (not sums)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
