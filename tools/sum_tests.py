"""Sums the closing lines of ScalaTest and pytest; exits non-zero if anything failed or nothing ran."""

import re
import sys
from pathlib import Path

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def scalatest(text: str) -> tuple[int, int]:
    lines = re.findall(r"Tests: succeeded (\d+), failed (\d+), canceled (\d+)", text)
    aborted = sum(int(n) for n in re.findall(r"\*\*\* (\d+) SUITES? ABORTED", text))
    return (
        sum(int(ok) for ok, _, _ in lines),
        sum(int(bad) + int(canceled) for _, bad, canceled in lines) + aborted,
    )


def pytest(text: str) -> tuple[int, int]:
    closing = re.findall(r"^.*\b(?:passed|failed|errors?)\b.* in [\d.]+s.*$", text, re.MULTILINE)
    last = closing[-1] if closing else ""

    def count(word: str) -> int:
        return sum(int(n) for n in re.findall(rf"(\d+) {word}", last))

    return count("passed"), count("failed") + count("errors?")


def main() -> int:
    jvm_log, python_log, jvm_code, python_code = sys.argv[1:]
    jvm = scalatest(ANSI.sub("", Path(jvm_log).read_text(errors="replace")))
    python = pytest(ANSI.sub("", Path(python_log).read_text(errors="replace")))
    # A runner that failed without a failed test (it did not compile, say) counts as one failure.
    failed = sum(
        bad if bad or code == "0" else 1
        for (_, bad), code in ((jvm, jvm_code), (python, python_code))
    )
    failed += sum(1 for ok, _ in (jvm, python) if ok == 0)
    print(f"{jvm[0] + python[0]} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
