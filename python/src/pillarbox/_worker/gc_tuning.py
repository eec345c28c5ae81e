"""The tuning of the garbage collector in a worker.

Spark's daemon collects all garbage behind each task. With the objects of the imported modules that
takes 16 ms, more than a small task; so they are frozen, that is, no collection visits them.
"""

from __future__ import annotations

import gc
import sys

_modules = 0


def collect_less_often(young_objects: int) -> None:
    """Raise the threshold of new objects at which Python's garbage collector runs.

    Python's own threshold is 700, or 2,000 from 3.13 on, far fewer objects than a worker makes and
    drops again. A higher one stays.
    """
    young, middle, old = gc.get_threshold()
    if 0 < young < young_objects:
        gc.set_threshold(young_objects, middle, old)
        freeze_imports()


def freeze_imports() -> None:
    """Freeze what is there if modules were imported since the last time, but no garbage."""
    global _modules
    if len(sys.modules) > _modules:
        gc.collect()
        gc.freeze()
        _modules = len(sys.modules)


def collect_frozen() -> None:
    """Collect all garbage, also such as was frozen when it was in use."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
