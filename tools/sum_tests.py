"""Sums JUnit XML of sbt and pytest; exits non-zero if anything failed or nothing ran."""

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


def main() -> int:
    python_report, jvm_code, python_code = sys.argv[1:]
    runs = [
        (*count(sorted(Path("jvm").glob("*/target/test-reports/*.xml"))), jvm_code),
        (*count([path for path in [Path(python_report)] if path.exists()]), python_code),
    ]
    # A runner that failed without a failed test (it did not compile, say) counts as one failure.
    failed = sum(bad if bad or code == "0" else 1 for _, bad, code in runs)
    failed += sum(passed == 0 for passed, _, _ in runs)
    print(f"{sum(passed for passed, _, _ in runs)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
