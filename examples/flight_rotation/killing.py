"""Runs the query in separate processes, the first of which does not live to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]
LIMIT_S = 600


def committed(folder: Path) -> int:
    """How many micro-batches the query has finished."""
    commits = folder / "checkpoint" / "commits"
    return sum(path.name.isdecimal() for path in commits.iterdir()) if commits.exists() else 0


def run_and_kill(folder: Path, after: int) -> int:
    """Start the query and SIGKILL it, its JVM included, once it has committed ``after``
    micro-batches. How many it had committed in the end."""
    with _start(folder) as query:
        _wait(query, lambda: committed(folder) >= after)
        if query.poll() is not None:
            raise RuntimeError(f"The query ended by itself, with exit code {query.returncode}")
        _kill(query)
        return committed(folder)


def run_to_the_end(folder: Path) -> int:
    """Start the query and let it finish. How many micro-batches are committed then."""
    with _start(folder) as query:
        _wait(query, lambda: False)
        if query.returncode != 0:
            raise RuntimeError(f"The query failed with exit code {query.returncode}")
    return committed(folder)


def _start(folder: Path) -> subprocess.Popen[bytes]:
    # A separate session: the signal reaches the JVM and not only Python.
    command = [sys.executable, "-m", "flight_rotation.query", str(folder)]
    return subprocess.Popen(command, cwd=EXAMPLES, start_new_session=True)


def _wait(query: subprocess.Popen[bytes], until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while query.poll() is None and not until():
        if time.monotonic() > deadline:
            _kill(query)
            raise TimeoutError(f"The query took longer than {LIMIT_S} s")
        time.sleep(0.05)


def _kill(query: subprocess.Popen[bytes]) -> None:
    os.killpg(query.pid, signal.SIGKILL)
    query.wait()
