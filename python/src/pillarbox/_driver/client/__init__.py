"""The clients of a session's driver. No other module asks which kind of session it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .client import DriverClient, MicroBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DriverClient", "MicroBatch", "client_of", "recent_failure"]


def client_of(spark: SparkSession) -> DriverClient:
    """Return the client by py4j for a classic session, by messages for one of Spark Connect."""
    if hasattr(spark, "_jsparkSession"):
        from .classic import ClassicClient

        return ClassicClient(spark)
    from .connect import ConnectClient

    return ConnectClient(spark)


def recent_failure(text: str) -> str | None:
    """Return the JSON of the report of a recent error of the driver; None if there is none.

    ``text`` begins with the error's text. The driver is this process's JVM, or the server of the
    active session.
    """
    found = None
    if "py4j" in sys.modules:  # a client of Spark Connect may have none
        from . import classic

        found = classic.recent_failure(text)
    if found is None and "pyspark.sql.connect.session" in sys.modules:
        from . import connect

        found = connect.recent_failure(text)
    return found
