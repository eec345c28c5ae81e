"""The entry of Pillarbox's Python worker; everything else is in ``pillarbox._worker``.

It is a top-level module of this name because ``pyspark.daemon`` imports a worker module only if
its name starts with "pyspark". Where Spark runs without the daemon it starts
``python -m pyspark_pillarbox``.
"""

from __future__ import annotations

import struct
import sys
from typing import BinaryIO


def main(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Serves one task on the worker's socket; called again for the next one."""
    try:
        from pillarbox._worker.main import main as serve
    except ImportError as problem:
        _report_import_error(problem, outfile)
        sys.exit(-1)
    serve(infile, outfile)


def _report_import_error(problem: ImportError, outfile: BinaryIO) -> None:
    """Tells the JVM by a FATAL frame what is missing; nothing of the package can be used here."""
    message = (
        f"{problem}. The worker runs on {sys.executable}: install what is missing there, or set "
        "PYSPARK_PYTHON to the interpreter that has it."
    )
    texts = [text.encode() for text in ("WORKER_IMPORT_FAILED", message, "")]
    body = b"T" + b"".join(struct.pack("<I", len(text)) + text for text in texts)
    outfile.write(struct.pack("<I", len(body)) + body)
    outfile.flush()


if __name__ == "__main__":
    from pillarbox._worker.standalone import run

    run(main)
