"""The end of the worker's stderr, kept in a file that outlives the process.

A process that is killed or crashes in native code can't report the reason. Its last output is in
the file ``pillarbox-stderr-<pid>`` of the folder ``PILLARBOX_STDERR_DIR``, where the JVM reads it.
The output also goes to the original stderr, for the executor's log.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import threading

FOLDER_VARIABLE = "PILLARBOX_STDERR_DIR"
MAX_BYTES = 1 << 20
_RELAY_INTERVAL_S = 0.2
_CHUNK_BYTES = 1 << 16


def file_of(folder: str, pid: int) -> str:
    """Return the file with the stderr of the process ``pid``, as the JVM does."""
    return os.path.join(folder, f"pillarbox-stderr-{pid}")


class StderrFile:
    """Turns ``fd`` (2, except in tests) into an append-only file until ``close``.

    The contents of a pipe would die with the process. A daemon thread copies the output to the
    original descriptor, at most 0.2 s later, and empties the file once it exceeds ``max_bytes``.
    """

    def __init__(self, path: str, fd: int = 2, max_bytes: int = MAX_BYTES) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._path = path
        self._fd = fd
        self._max_bytes = max_bytes
        self._file = os.open(path, flags, 0o600)
        self._original = os.dup(fd)
        self._relayed = 0
        self._stopped = threading.Event()
        os.dup2(self._file, fd)
        self._thread = threading.Thread(target=self._relay, name="pillarbox-stderr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Copy the rest, remove the file and restore ``fd``. Idempotent."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        os.dup2(self._original, self._fd)
        self._thread.join()
        self._pass_on()
        os.close(self._file)
        os.close(self._original)
        with contextlib.suppress(OSError):  # the file may be gone already
            os.unlink(self._path)

    def _relay(self) -> None:
        while not self._stopped.wait(_RELAY_INTERVAL_S):
            self._pass_on()
            if self._relayed > self._max_bytes:
                os.ftruncate(self._file, 0)
                self._relayed = 0

    def _pass_on(self) -> None:
        while chunk := os.pread(self._file, _CHUNK_BYTES, self._relayed):
            self._relayed += len(chunk)
            self._write(chunk)

    def _write(self, chunk: bytes) -> None:
        # An error means that the executor no longer reads its log; the file has the output.
        with contextlib.suppress(OSError):
            while chunk:
                chunk = chunk[os.write(self._original, chunk) :]


_capture: StderrFile | None = None


def capture() -> None:
    """Begin to keep this process's stderr, once a process; crashes write their stack to it.

    Does nothing if the JVM named no folder, or one that can't be written.
    """
    global _capture
    folder = os.environ.get(FOLDER_VARIABLE)
    if _capture is not None or not folder:
        return
    try:
        _capture = StderrFile(file_of(folder, os.getpid()))
    except OSError:
        return
    if not faulthandler.is_enabled():
        faulthandler.enable(file=2)


def release() -> None:
    """End ``capture`` at a clean exit and remove the file."""
    global _capture
    if _capture is not None:
        _capture.close()
        _capture = None
