"""The options of all JVMs that tests start."""

from __future__ import annotations

from pathlib import Path

# They run for some minutes on small data: what the second compiler and a collector with threads
# take, they don't give back. With the first compiler alone a JVM has 48 MiB for code, which the
# generated code of many queries fills.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


def archive_of(environment: Path) -> Path:
    """Where ``tools/class_archive.py`` puts the classes of the PySpark of an environment."""
    return environment / "classes.jsa"


def java_options(environment: Path) -> str:
    """For JVMs with the jars of this environment's PySpark. Logs would be among what tests read."""
    archive = archive_of(environment)
    shared = f" -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() else ""
    return OPTIONS + shared
