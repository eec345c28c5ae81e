"""How a limit that the driver lends grows with the number of executors, in simulated time.

Runs ``LeaseSimulation``, of the tests of ``metered``.
"""

from __future__ import annotations

import re
import subprocess

from . import report

MAIN = "metered/Test/runMain io.pillarbox.metered.lease.LeaseSimulation"
HEAD = """## With up to 1,000 executors

| limit | executors | reports a second | share used | µs of the driver a report |
|---|--:|--:|--:|--:|
"""
CONDITIONS = (
    "**With up to 1,000 executors**: The driver's ledger and the executors' gates as they run in "
    "Spark, in simulated time, with messages of 1 to 3 ms each way. Every executor has 20 calls or "
    "more at all times; a call lasts 0.5 to 2 s, is charged with up to twice what it uses, and "
    "reports what it used. A check that knows nothing of the limiter adds up what calls use in "
    "each stretch of the interval: it found none over the limit. The share is that of the last "
    "three of four minutes."
)


def table() -> str:
    """Run the simulation, which fails if a limit is exceeded."""
    command = [str(report.ROOT / "tools/sbt"), MAIN]
    told = subprocess.run(command, cwd=report.ROOT, check=True, capture_output=True, text=True)
    return HEAD + "\n".join(re.findall(r"\| .+ \|$", told.stdout, re.MULTILINE))
