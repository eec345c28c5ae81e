"""What autodoc shows of the package: docstrings as they are written, and what a user may call."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

import pyarrow
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import pillarbox
import pillarbox.testing
from pillarbox._driver.keyed_input import Backend

# Nobody but Pillarbox makes these.
HANDED = {"OpenContext", "ArrowContext", "ArrowState"}
OPTION = re.compile(r"^([a-z_]+(?:, [a-z_]+)*): (.*)$")
# What the modules import for type checkers alone, and signatures name.
TYPES = {
    **{name: getattr(pillarbox, name) for name in pillarbox.__all__ if name[0].isupper()},
    **{one.__name__: one for one in (DataFrame, Row, SparkSession, StructType)},
    "Backend": Backend,
    "pa": pyarrow,
}


def parameters(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Makes ``name: text`` under "Parameters" an item, with the lines until the next name."""
    if "Parameters" not in lines:
        return
    start = lines.index("Parameters")
    end = next((at for at in range(start + 2, len(lines)) if not lines[at]), len(lines))
    listed = ["**Parameters**", ""]
    for line in lines[start + 2 : end]:
        found = OPTION.match(line)
        names = ", ".join(f"``{one}``" for one in found[1].split(", ")) if found else ""
        listed.append(f"- {names}: {found[2]}" if found else f"  {line.strip()}")
    lines[start:end] = listed


def signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, given: str | None, returned: Any
) -> tuple[str, str] | None:
    return ("", "") if name.removeprefix("pillarbox.") in HANDED else None


def setup(app: Sphinx) -> dict[str, bool]:
    for module in [one for name, one in sys.modules.items() if name.split(".")[0] == "pillarbox"]:
        for name, value in TYPES.items():
            vars(module).setdefault(name, value)
    for kind in filter(lambda one: hasattr(one, "__abstractmethods__"), TYPES.values()):
        for name in kind.__abstractmethods__:  # abstract to Pillarbox, and there for a user
            member = inspect.getattr_static(kind, name)
            getattr(member, "fget", member).__isabstractmethod__ = False
    ModuleAnalyzer.for_module("pillarbox._keyed.opening").analyze()
    ModuleAnalyzer.cache["module", "pillarbox._keyed.opening"].overloads.clear()  # 50 of them
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", parameters)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
