"""The entry of Pillarbox's Python worker; everything else is in ``pillarbox._worker``.

It is a top-level module of this name because ``pyspark.daemon`` imports a worker module only if
its name starts with "pyspark". Where Spark runs without the daemon it starts
``python -m pyspark_pillarbox``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import sys
from typing import Any, BinaryIO


def main(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Serve one task on the worker's socket; called again for the next one."""
    try:
        from pillarbox._worker.main import main as serve
    except Exception as problem:  # also what a package raises that was built for another one
        _report_import_error(problem, outfile)
        sys.exit(-1)
    serve(infile, outfile)


def _report_import_error(problem: Exception, outfile: BinaryIO) -> None:
    """Report the missing module to the JVM by a FATAL frame, without imports that may fail."""
    kind, condition = "WorkerFailed", "WORKER_IMPORT_FAILED"
    words = _words(kind, condition)
    reason = str(problem) if isinstance(problem, ImportError) else repr(problem)
    if sys.version_info < (3, 10):  # noqa: UP036 - it runs on what the executors have
        reason = (
            f"this is Python {sys.version.split()[0]}, and 3.10 is the oldest that is supported"
        )
    text = f"{words['message']} {words['remedy']}".format(reason=reason, python=sys.executable)
    told: dict[str, Any] = {"type": kind, "condition": condition, "text": text}
    told |= {"kind": condition, "message": text, "operator": "", "traceback": ""}
    told |= dict.fromkeys(("key", "row", "timer", "attempts", "elapsed_ms"))
    report = json.dumps(told).encode()
    body = b"T" + struct.pack("<I", len(report)) + report
    outfile.write(struct.pack("<I", len(body)) + body)
    outfile.flush()


def _words(kind: str, condition: str) -> dict[str, str]:
    """Return an error of the package, read from its folder or jar without importing it."""
    try:
        spec: Any = importlib.util.find_spec("pillarbox")
        file = os.path.join(os.path.dirname(spec.origin), "errors.json")
        return dict(json.loads(spec.loader.get_data(file))[kind][condition])
    except Exception:
        return {
            "message": "{python} can't read the worker's package: {reason}.",
            "remedy": "If its jar was replaced while the application runs, start the application "
            "again.",
        }


if __name__ == "__main__":
    from pillarbox._worker.standalone import run

    run(main)
