"""How long one callback may hold the loop, by a clock of the test's."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pillarbox._async.watchdog import Watchdog


def runs(callback: Any) -> None:
    callback()


class Loop:
    """Turns at once while no callback holds it; the clock tells when one does."""

    def __init__(self, held_from: float) -> None:
        self.held_from = held_from
        self.now = 0.0

    def call_soon_threadsafe(self, action: Any) -> None:
        if self.now < self.held_from:
            action()

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now > 30


@pytest.mark.parametrize("held_from", [0.0, 0.001, 0.1, 0.24, 0.25, 0.26, 0.4, 0.499, 1.0, 7.77])
def test_a_callback_that_holds_the_loop_is_found_after_five_seconds(held_from: float) -> None:
    release, ready = threading.Event(), threading.Event()

    def hogs() -> None:
        ready.set()
        release.wait(60)

    thread = threading.Thread(target=runs, args=(hogs,))
    thread.start()
    ready.wait(60)
    loop, alarms = Loop(held_from), []
    try:
        Watchdog(
            loop,  # type: ignore[arg-type]
            thread.ident or 0,
            runs.__code__,
            5000,
            lambda error: alarms.append((loop.now, str(error))),
            loop.wait,
        )._watch()
    finally:
        release.set()
        thread.join()
    ((when, message),) = alarms
    assert 5.0 <= when - held_from <= 5.51
    assert "held for 5000 ms or more" in message
    assert "in hogs" in message
