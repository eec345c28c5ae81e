"""The driver's side of the weather service: start it, ask for its counts, stop it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Service:
    """A running weather service."""

    def __init__(self, url: str) -> None:
        self.url = url

    def reset(self, slow_share: float = 0.0) -> None:
        """Begin a new phase: counts at zero, the same latencies again.

        Of the answers `slow_share` take four seconds.
        """
        url = f"{self.url}/stats/reset?slow={slow_share}"
        request = urllib.request.Request(url, method="POST")
        urllib.request.urlopen(request, timeout=30).close()

    def stats(self) -> dict[str, int]:
        """Counts of the phase: requests, unavailable (503), not_found, in_flight, in_flight_max."""
        return self._get("/stats")

    def timeline(self) -> list[tuple[float, int]]:
        """Seconds since the phase began and calls in flight, at every change."""
        return self._get("/stats/timeline")

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
            return json.load(answer)


@contextmanager
def running_service(weather: Path) -> Iterator[Service]:
    """Run the service in its own process; it ends with the block, or with this process."""
    command = [sys.executable, "-m", "flight_weather.service", str(weather)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise RuntimeError(f"the weather service ended at its start, code {process.wait()}")
        yield Service(f"http://127.0.0.1:{port}")
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
