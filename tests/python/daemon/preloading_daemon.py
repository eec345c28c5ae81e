"""Spark's daemon of Python workers, with what each worker imports imported before it is forked.

Spark itself imports after the fork, since pandas and PyArrow may start threads, which a fork loses;
with one thread for NumPy they start none that a worker needs. That is 0.3 to 0.6 s of a processor
for each worker, and tests end hundreds of them. Drivers of their own have Spark's daemon. The
folder has nothing else: what is in it, workers can import.
"""

from __future__ import annotations

import contextlib
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A worker whose Python lacks one of them tells so itself.
with contextlib.suppress(ImportError):
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401

    import pillarbox._worker.main  # noqa: F401

from pyspark import daemon

if __name__ == "__main__":
    daemon.manager()
