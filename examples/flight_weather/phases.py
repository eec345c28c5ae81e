"""Measured phases of the demo: run something against the service, show progress, keep counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from .client import Service

PROGRESS_SECONDS = 3


@dataclass
class Phase:
    """What one phase did. `rows` a second is over its wall time."""

    title: str
    rows: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    timeline: list[tuple[float, int]] = field(default_factory=list)
    result: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    @property
    def retries(self) -> int:
        """Requests beyond the first of each row."""
        return self.counts["requests"] - self.rows


def measure(
    title: str, service: Service, run: Callable[[], pd.DataFrame], slow_share: float = 0.0
) -> Phase:
    """Run one phase and print how it goes; its result is a pandas frame, a row a flight."""
    print(f"\n== {title}", flush=True)
    service.reset(slow_share)
    phase = Phase(title)
    with _progress(service):
        started = time.perf_counter()
        phase.result = run()
        phase.seconds = time.perf_counter() - started
    phase.rows = len(phase.result)
    phase.counts = service.stats()
    phase.timeline = service.timeline()
    print(
        f"   {phase.rows:,} rows in {phase.seconds:.1f} s: {phase.rate:,.0f} rows/s, "
        f"at most {phase.counts['in_flight_max']} calls in flight",
        flush=True,
    )
    return phase


@contextmanager
def _progress(service: Service) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        while not done.wait(PROGRESS_SECONDS):
            counts: dict[str, Any] = service.stats()
            print(f"   … {counts['requests']:,} calls, {counts['in_flight']} in flight", flush=True)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
