"""A PostgreSQL server with a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ports import free_port
from spark_support import eventually

ROOT = Path(__file__).parents[2]


def programs() -> Path:
    """The folder of its programs; skips the test where there are none."""
    found = subprocess.run([str(ROOT / "tools/postgres")], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(found.stderr.strip())
    return Path(ROOT, found.stdout.strip())


@contextmanager
def server() -> Iterator[str]:
    """The URL of its database, while it runs."""
    binaries = programs()
    # It refuses to run as root, and another user must reach its folder.
    user: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
    folder = tempfile.mkdtemp(prefix="pillarbox-postgres-")
    if user:
        shutil.chown(folder, user["user"])
    port = free_port()
    initdb = [binaries / "initdb", "-D", f"{folder}/data", "-U", "tests", "-A", "trust"]
    initdb += ["-N", "--no-locale", "-E", "UTF8"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **user)
    options = ["-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    with Path(folder, "log").open("w") as log:
        command = [binaries / "postgres", "-D", f"{folder}/data", *options]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **user)
        try:
            told = Path(folder, "log")
            # It listens before it takes connections.
            ready = "ready to accept connections"
            eventually(lambda: process.poll() is not None or ready in told.read_text(), ready)
            assert process.poll() is None, told.read_text()[-3000:]
            yield f"postgresql://tests@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)  # without waiting for clients to go
            process.wait()
            shutil.rmtree(folder)
