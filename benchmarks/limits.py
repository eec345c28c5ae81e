"""Limits over many executors: killed ones in reality, a thousand of them in simulated time.

``python -m benchmarks.limits`` writes the page and its picture; six minutes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from . import leases, overshoot, report


def main() -> None:
    options = arguments()
    run = overshoot.measured(options.calls, options.tokens)
    page = report.page(
        "Limits over many executors",
        "Is a limit held while executors are killed, how much of it is used, and how many messages "
        "does the driver hear for it?",
        [overshoot.told(run), leases.table()],
        f"{overshoot.conditions(run)}\n\n{leases.CONDITIONS}",
        "python -m benchmarks.limits --output docs/benchmarks",
    )
    print(page)
    if options.output:
        (options.output / "limits.md").write_text(page, "utf-8")
        overshoot.draw(options.output / "limits.png", run)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.limits", description=__doc__)
    parser.add_argument("--calls", type=int, default=600, help="the most in a minute")
    parser.add_argument("--tokens", type=int, default=60_000, help="the most in a minute")
    parser.add_argument("--output", type=Path, help="folder to write the page to")
    return parser.parse_args()


if __name__ == "__main__":
    main()
