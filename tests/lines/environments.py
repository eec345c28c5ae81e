"""The environments of the lines of Spark, which ``tools/build_line`` makes."""

from __future__ import annotations

import sys
from pathlib import Path

from pillarbox._base.spark_versions import installed

ROOT = Path(__file__).resolve().parents[2]


def python_of(line: str) -> str:
    """The interpreter that has this line's PySpark; that of the tests for the main line."""
    if line == installed():
        return sys.executable
    return str(ROOT / ".build" / "lines" / line / "bin" / "python")
