"""A worker without the daemon, which connects to the JVM by Spark's environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, BinaryIO

from pyspark.serializers import write_int
from pyspark.util import local_connect_and_auth


def run(main: Callable[[BinaryIO, BinaryIO], None]) -> None:
    """Serve tasks until ``main`` ends the process; never returns."""
    where: Any = os.environ.get(
        "PYTHON_WORKER_FACTORY_SOCK_PATH", int(os.environ.get("PYTHON_WORKER_FACTORY_PORT", -1))
    )
    secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    sock_file, sock = local_connect_and_auth(where, secret)
    sock.settimeout(None)
    write_int(os.getpid(), sock_file)  # type: ignore[no-untyped-call]
    sock_file.flush()
    code = 0
    try:
        # The file of makefile("rwb") has no descriptor to read from.
        with os.fdopen(os.dup(sock.fileno()), "rb") as infile:
            while True:
                main(infile, sock_file)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        # Threads of a plain function that don't stop must not keep the process alive.
        os._exit(code & 0xFF)
