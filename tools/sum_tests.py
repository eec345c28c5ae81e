"""Sums the suites of `tools/run_tests`; exits non-zero if one failed or ran nothing."""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

_AGAIN = "-again"
_MOST_AGAIN = 3


def cases(reports: list[Path]) -> tuple[int, Counter[str]]:
    """How many cases passed, and which failed; a skipped one did neither."""
    passed, failed = 0, Counter[str]()
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            ends = {child.tag for child in case}
            failed[f"{case.get('classname')}::{case.get('name')}"] += bool(
                ends & {"failure", "error"}
            )
            passed += not ends & {"failure", "error", "skipped"}
    return passed, +failed


def suite(code: Path) -> tuple[int, int]:
    """A suite that failed without a failed test (it did not compile, say), or in which nothing
    passed, counts as one failure."""
    if code.stem == "jvm":
        reports = sorted(Path("jvm").glob("*/target/test-reports/*.xml"))
    else:
        reports = [path for path in [code.with_suffix(".xml")] if path.exists()]
    passed, failed = cases(reports)
    if failed and all_pass_again(code, failed):
        names = ", ".join(failed)
        print(f"{code.stem}: FAILED ONCE, passed when run again: {names}", file=sys.stderr)
        return passed + failed.total(), 0
    is_bad = code.read_text().strip() != "0" or passed == 0
    return passed, failed.total() if failed or not is_bad else 1


def all_pass_again(code: Path, failed: Counter[str]) -> bool:
    """Whether the few tests that failed were run a second time, and all of them passed."""
    again = code.with_name(f"{code.stem}{_AGAIN}.code")
    if failed.total() > _MOST_AGAIN or not again.exists() or again.read_text().strip() != "0":
        return False
    passed, _ = cases([again.with_suffix(".xml")])
    return passed == failed.total()


def main() -> int:
    codes = sorted(Path(sys.argv[1]).glob("*.code"))
    suites = {code.stem: suite(code) for code in codes if not code.stem.endswith(_AGAIN)}
    for name, (passed, failed) in suites.items():
        print(f"{name}: {passed} of {passed + failed}", file=sys.stderr)
    passed = sum(passed for passed, _ in suites.values())
    failed = sum(failed for _, failed in suites.values()) + (not suites)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
