"""Makes Python look for cycles of objects less often in a worker."""

from __future__ import annotations

import gc


def collect_less_often(young_objects: int) -> None:
    """Makes Python look for cycles once there are so many new objects.

    Python's own threshold is 700, or 2,000 from 3.13 on: far fewer than a worker makes and drops
    again. One that someone has raised is left.
    """
    young, middle, old = gc.get_threshold()
    if 0 < young < young_objects:
        gc.set_threshold(young_objects, middle, old)
        gc.freeze()  # here alone: cycles that functions leave behind later must still be found
