"""The entry of Pillarbox's Python worker; everything else is in ``pillarbox._worker``.

It is a top-level module of this name because ``pyspark.daemon`` imports a worker module only if
its name starts with "pyspark". Where Spark runs without the daemon it starts
``python -m pyspark_pillarbox``.
"""

from __future__ import annotations

from typing import BinaryIO


def main(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Serves one task on the worker's socket; called again for the next one."""
    from pillarbox._worker.main import main as serve

    serve(infile, outfile)


if __name__ == "__main__":
    from pillarbox._worker.standalone import run

    run(main)
