"""Puts Pillarbox's jar on a session's class path."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """``builder`` with the jar of this package added to ``spark.jars``.

    Jars that the builder already names are kept. With a local master, workers run on the
    interpreter that runs this, unless ``PYSPARK_PYTHON`` names another: in an environment that is
    not activated, ``python3`` would be one without the packages. A session that runs already can't
    load it any more: configure before the first ``getOrCreate()``. Raises ``EngineUnavailable``
    (JAR_NOT_FOUND) if the package holds no jar.
    """
    from ._jars import find_jar

    if str(builder._options.get("spark.master", "")).startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jar = find_jar()
    named = builder._options.get("spark.jars", "")
    jars = [one for one in str(named).split(",") if one.strip()]
    if jar not in jars:
        jars.append(jar)
    return builder.config("spark.jars", ",".join(jars))
