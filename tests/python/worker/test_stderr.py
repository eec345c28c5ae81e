"""The file that keeps the end of a worker's stderr."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from pillarbox._worker.stderr import StderrFile, file_of


class Pipe:
    """Stands for stderr: a descriptor to write to, and what came out at the other end."""

    def __init__(self) -> None:
        self._out, self.fd = os.pipe()
        os.set_blocking(self._out, False)
        self.received = b""

    def has_received(self, expected: bytes) -> bool:
        with contextlib.suppress(BlockingIOError):
            self.received += os.read(self._out, 1 << 20)
        return self.received == expected

    def close(self) -> None:
        os.close(self._out)
        os.close(self.fd)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_written_is_in_the_file_at_once_and_then_in_the_log(
    pipe: Pipe, tmp_path: Path
) -> None:
    kept = StderrFile(file_of(str(tmp_path), 7), pipe.fd)
    os.write(pipe.fd, b"one\n")
    assert (tmp_path / "pillarbox-stderr-7").read_bytes() == b"one\n"
    eventually(lambda: pipe.has_received(b"one\n"))
    kept.close()


def test_closing_passes_on_the_rest_removes_the_file_and_restores_the_descriptor(
    pipe: Pipe, tmp_path: Path
) -> None:
    kept = StderrFile(str(tmp_path / "file"), pipe.fd)
    os.write(pipe.fd, b"before,")
    kept.close()
    kept.close()
    os.write(pipe.fd, b"after")
    assert pipe.has_received(b"before,after")
    assert list(tmp_path.iterdir()) == []


def test_the_file_stays_small_and_nothing_is_lost_from_the_log(pipe: Pipe, tmp_path: Path) -> None:
    file = tmp_path / "file"
    kept = StderrFile(str(file), pipe.fd, max_bytes=1000)
    written = b""
    for round_ in range(3):
        line = b"%d" % round_ * 1500
        written += line
        os.write(pipe.fd, line)
        eventually(partial(pipe.has_received, written))
        eventually(lambda: file.stat().st_size == 0)
    kept.close()


def test_a_killed_process_leaves_its_last_words(tmp_path: Path) -> None:
    program = (
        "import os, signal; from pillarbox._worker import stderr; stderr.capture();"
        "os.write(2, b'last words'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    env = {**os.environ, "PILLARBOX_STDERR_DIR": str(tmp_path)}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    process = subprocess.Popen([sys.executable, "-c", program], env=env)
    process.wait(60)
    assert Path(file_of(str(tmp_path), process.pid)).read_bytes() == b"last words"
