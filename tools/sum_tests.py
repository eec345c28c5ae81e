"""Sums the suites of `tools/run-tests`; exits non-zero if one failed or ran nothing."""

import sys
from pathlib import Path
from xml.etree import ElementTree


def count(reports: list[Path]) -> tuple[int, int]:
    """How many cases passed and failed; a skipped one did neither."""
    passed = failed = 0
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            ends = {child.tag for child in case}
            failed += bool(ends & {"failure", "error"})
            passed += not ends & {"failure", "error", "skipped"}
    return passed, failed


def suite(code: Path) -> tuple[int, int]:
    """A suite that failed without a failed test (it did not compile, say), or in which nothing
    passed, counts as one failure."""
    if code.stem == "jvm":
        reports = sorted(Path("jvm").glob("*/target/test-reports/*.xml"))
    else:
        reports = [path for path in [code.with_suffix(".xml")] if path.exists()]
    passed, failed = count(reports)
    is_bad = code.read_text().strip() != "0" or passed == 0
    return passed, failed if failed or not is_bad else 1


def main() -> int:
    codes = sorted(Path(sys.argv[1]).glob("*.code"))
    suites = {code.stem: suite(code) for code in codes}
    for name, (passed, failed) in suites.items():
        print(f"{name}: {passed} of {passed + failed}", file=sys.stderr)
    passed = sum(passed for passed, _ in suites.values())
    failed = sum(failed for _, failed in suites.values()) + (not suites)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
