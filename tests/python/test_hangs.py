from __future__ import annotations

import threading
from pathlib import Path
from typing import TextIO

import pytest

from hangs import TestHangs, ending_after


def test_a_test_that_hangs_ends_and_shows_its_stack(tmp_path: Path) -> None:
    with (tmp_path / "told").open("w+") as told:
        with pytest.raises(TestHangs, match=r"after 0\.1 s"):
            wait_for_ever(told)
        told.seek(0)
        text = told.read()
    assert "The test hangs after 0.1 s" in text
    assert "in wait_for_ever" in text


def wait_for_ever(told: TextIO) -> None:
    with ending_after(0.1, told):
        threading.Event().wait()


def test_the_next_test_is_left_alone() -> None:
    with ending_after(0.05):
        pass
    assert not threading.Event().wait(0.1)
