"""How a limit that the driver lends grows with the number of executors, in simulated time.

Runs ``LeaseSimulation``, of the tests of the core, and writes ``docs/benchmarks/limits.md``.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/benchmarks/limits.md"
MAIN = "core/Test/runMain io.pillarbox.async.LeaseSimulation"
HEAD = """# Limits over many executors

*How many messages does the driver hear for a limit, and how much of it is used?*

The driver's ledger and the executors' gates as they run in Spark, in simulated time, with messages
of 1 to 3 ms each way. Every executor has 20 calls or more at all times; a call lasts 0.5 to 2 s, is
charged with up to twice what it uses, and reports what it used. A check that knows nothing of the
limiter adds up what calls use in each stretch of the interval: it found none over the limit. The
share is that of the last three of four minutes. Run by `python -m benchmarks.leases`.

| limit | executors | reports a second | share used | µs of the driver a report |
|---|--:|--:|--:|--:|
"""


def main() -> None:
    """Run the simulation and write the page."""
    command = [str(ROOT / "tools/sbt"), MAIN]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    rows = re.findall(r"\\| .+ \\|$", told.stdout, re.MULTILINE)
    PAGE.write_text(HEAD + "\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
