"""The doors to the driver of a session. No other module asks which kind of session it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .door import Door, MicroBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Door", "MicroBatch", "door_of"]


def door_of(spark: SparkSession) -> Door:
    """Return the door by py4j for a classic session, by messages for one of Spark Connect."""
    if hasattr(spark, "_jsparkSession"):
        from .classic import ClassicDoor

        return ClassicDoor(spark)
    from .connect import ConnectDoor

    return ConnectDoor(spark)
