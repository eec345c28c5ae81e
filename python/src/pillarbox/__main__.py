"""``python -m pillarbox jar`` prints the path of the jar, for ``spark-submit --jars``."""

from __future__ import annotations

import argparse
import sys

from ._driver.jars import find_jar
from .errors import EngineUnavailable


def main() -> int:
    """Return the exit code: 1, with the reason on stderr, if there is no jar."""
    parser = argparse.ArgumentParser(prog="python -m pillarbox")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("jar", help="print where the jar of this package is")
    parser.parse_args()
    try:
        print(find_jar())
    except EngineUnavailable as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
