"""Workers for tests, always ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from worker.driver import InProcess, OwnProcess


@pytest.fixture
def worker() -> Iterator[InProcess]:
    """A worker in a thread of this process."""
    one = InProcess()
    yield one
    one.close()


@pytest.fixture
def process() -> Iterator[OwnProcess]:
    """A worker in a process of its own."""
    one = OwnProcess()
    yield one
    one.close()
