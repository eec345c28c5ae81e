"""PyFlink in its own environment, made on first use. Absent where it can't be installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

VERSION = "2.3.0"
ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".build" / "flink"
START_UPS = 4
BUNDLE = 100_000  # rows; larger than Flink's default of 1,000, which ends in a wait for each bundle


class Unavailable(Exception):
    """PyFlink can't be installed or run here; the message says why."""


def python() -> Path:
    """The interpreter that has PyFlink; installs it at first. Raises Unavailable."""
    interpreter = HOME / "bin" / "python"
    ready = HOME / f"ready-{VERSION}"
    if not ready.exists():
        print(f"Installing PyFlink {VERSION} into {HOME.relative_to(ROOT)}…", flush=True)
        _run([sys.executable, "-m", "venv", str(HOME)])
        _run([str(interpreter), "-m", "pip", "install", "-q", f"apache-flink=={VERSION}"])
        ready.touch()
    return interpreter


def seconds(capacity: int, few: Path, many: Path) -> float:
    """Time of the calls in `many`, start-up (the job over `few`) left out. Raises Unavailable."""
    script = Path(__file__).with_name("pyflink_job.py")
    # The first job of a process also warms it up, so it does not count.
    arguments = [str(capacity), str(BUNDLE), *[str(few)] * START_UPS, str(many)]
    output = _run([str(python()), str(script), *arguments])
    _, *start_ups, whole = json.loads(output.strip().splitlines()[-1])
    return float(whole - min(start_ups))


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise Unavailable(f"{Path(command[0]).name} ended with {done.returncode}: {lines[-1]}")
    return done.stdout
