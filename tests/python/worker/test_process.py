"""What ends a worker process: blocked loops, sys.exit, signals, the end of the socket."""

from __future__ import annotations

import asyncio
import io
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from unittest.mock import Mock

import pyspark_pillarbox
import pytest

from pillarbox._base.report import Report
from pillarbox._worker import frames
from worker.driver import _SOURCES, OwnProcess


async def double(row):
    return row.x * 2


def test_a_blocked_event_loop_is_reported_with_its_stack_and_ends_the_process(process):
    async def hogs(row):
        time.sleep(3600)

    process.start(hogs, blocked_loop_ms=500)
    process.call(1)
    kind, fatal = process.receive()
    assert (kind, fatal["condition"]) == ("T", "EVENT_LOOP_BLOCKED")
    assert "held for 500 ms or more by one callback" in fatal["text"]
    assert "in hogs" in fatal["text"]
    assert fatal["text"].count("  File ") == 1
    assert process.join()[0] == 1


def test_a_blocked_loop_is_reported_after_the_answers_that_were_under_way(process):
    text = "z" * 400_000

    async def big_then_hog(row):
        if row.x < 10:
            return text
        return time.sleep(3600)

    process.start(big_then_hog, "y string", blocked_loop_ms=500)
    process.call(*range(10))
    select.select([process.socket], [], [], 20)  # the first answers come, the rest can't leave yet
    process.call(10, ids=[10])
    assert process.collect(10) == {x: [(text,)] for x in range(10)}
    assert process.receive()[1]["kind"] == "EVENT_LOOP_BLOCKED"


def test_a_plain_function_may_block_for_as_long_as_it_likes(process, tmp_path):
    latch = str(tmp_path / "latch")

    def first_blocks(row):
        while row.x == 0 and not os.path.exists(latch):
            time.sleep(0.005)
        return row.x

    process.start(first_blocks, blocked_loop_ms=300)
    process.call(0)
    began, calls = time.monotonic(), 0
    # Three times as long as a loop may hang, calls behind the blocked one are answered.
    while time.monotonic() - began < 0.9:
        calls += 1
        process.call(calls, ids=[calls])
        assert process.collect(1) == {calls: [(calls,)]}
    (tmp_path / "latch").touch()
    assert process.collect(1) == {0: [(0,)]}
    assert process.end()


def test_an_idle_loop_is_not_blocked(process):
    process.start(double, blocked_loop_ms=200)
    process.socket.settimeout(1)
    with pytest.raises(TimeoutError):
        process.socket.recv(1)


@pytest.mark.parametrize("how", ["call", "thread", "own_task"])
def test_sys_exit_is_fatal_and_names_itself(process, how):
    async def leaves(row):
        sys.exit(3)

    def leaves_in_thread(row):
        sys.exit(3)

    async def leaves_in_a_task(row):
        task = asyncio.get_running_loop().create_task(leaves(row))
        await asyncio.sleep(3600)
        return task

    functions = {
        "call": leaves,
        "thread": leaves_in_thread,
        "own_task": leaves_in_a_task,
    }
    process.start(functions[how])
    process.call(1)
    kind, fatal = process.receive()
    assert (kind, fatal["kind"]) == ("T", "SystemExit")
    assert "ended the worker with SystemExit: 3" in fatal["text"]
    assert "in leaves" in fatal["traceback"]
    code, _ = process.join()
    assert code != 0


def test_the_end_of_the_socket_ends_the_process(process):
    process.start(double)
    assert process.end()
    process.socket.shutdown(socket.SHUT_RDWR)
    assert process.join()[0] != 0


class Notes:
    """A resource that leaves a file when it is closed."""

    def __init__(self, path):
        self.path = path

    def __call__(self):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        with open(self.path, "w") as file:
            file.write("closed")


async def use(row, resource):
    return row.x


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_of_the_daemon_closes_resources_first(process, tmp_path, number, busy):
    notes = tmp_path / "notes"
    process.start(use, resource=Notes(str(notes)))
    if not busy:
        assert process.end()
    process.process.send_signal(number)
    code, _ = process.join()
    assert code == 128 + number
    assert notes.read_text() == "closed"


def test_a_signal_ends_the_process_even_if_the_loop_hangs(process):
    async def hogs(row):
        while True:
            time.sleep(3600)

    process.start(hogs, blocked_loop_ms=600_000)
    process.call(1)
    process.process.send_signal(signal.SIGTERM)
    assert process.join()[0] == 128 + signal.SIGTERM


def test_without_the_daemon_the_worker_connects_by_what_the_environment_says(tmp_path):
    listener = socket.socket(socket.AF_UNIX)
    path = str(tmp_path / "jvm.sock")
    listener.bind(path)
    listener.listen()
    listener.settimeout(20)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(_SOURCES),
        "PYTHON_WORKER_FACTORY_SOCK_PATH": path,
        "PYTHON_UNIX_DOMAIN_ENABLED": "True",
    }
    child = subprocess.Popen([sys.executable, "-m", "pyspark_pillarbox"], env=environment)
    try:
        jvm = OwnProcess.__new__(OwnProcess)
        jvm.socket, _ = listener.accept()
        jvm.socket.settimeout(20)
        jvm._stream, jvm._pickled = jvm.socket.makefile("rb"), {}
        assert struct.unpack(">i", jvm._stream.read(4)) == (child.pid,)
        for _ in range(2):
            jvm.start(double)
            jvm.call(4)
            assert jvm.collect(1) == {0: [(8,)]}
            assert jvm.end()
        jvm._stream.close()
        jvm.socket.close()
        assert child.wait(20) != 0
    finally:
        child.kill()
        child.wait()
        listener.close()


@pytest.mark.parametrize("readable", [True, False])
def test_what_is_missing_is_told_with_the_interpreter(monkeypatch, readable):
    monkeypatch.setitem(sys.modules, "pillarbox._worker.main", None)
    if not readable:  # as zipimport when the jar is another one by now
        broken = Mock(side_effect=OSError("bad local file header"))
        monkeypatch.setattr(pyspark_pillarbox.importlib.util, "find_spec", broken)
    answer = io.BytesIO()
    with pytest.raises(SystemExit):
        pyspark_pillarbox.main(io.BytesIO(), answer)
    answer.seek(0)
    kind, body = frames.read_frame(answer)
    told = json.loads(bytes(body[4:]))
    assert kind == frames.FATAL
    assert len(body) == 4 + int.from_bytes(body[:4], "little")
    assert told["condition"] == "WORKER_IMPORT_FAILED"
    assert Report(**told).text == told["text"], "the JVM, too, reads no other fields"
    assert "pillarbox._worker.main" in told["text"]
    assert sys.executable in told["text"]
    assert readable or "If its jar was replaced" in told["text"]
