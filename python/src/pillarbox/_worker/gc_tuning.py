"""The tuning of the garbage collector in a worker."""

from __future__ import annotations

import gc


def collect_less_often(young_objects: int) -> None:
    """Raise the threshold of new objects at which Python's garbage collector runs.

    Python's own threshold is 700, or 2,000 from 3.13 on, far fewer objects than a worker makes and
    drops again. A higher one stays.
    """
    young, middle, old = gc.get_threshold()
    if 0 < young < young_objects:
        gc.set_threshold(young_objects, middle, old)
        gc.freeze()  # only here, so that later cycles of functions are still found
