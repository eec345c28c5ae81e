"""The public API as Python stubs with their docstrings, in the groups of the reference."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import python_api

import pillarbox

NAMED = re.compile(
    r"^(?P<title>\S.*)\n[=-]{4,}$"
    r"|^\.\. (?:auto)?(?P<kind>function|class|module|data):: (?P<name>\S+)$",
    re.MULTILINE,
)
ROLE = re.compile(r":\w+:`([^`]+)`")


def text(index: Path) -> str:
    """A heading and a block of code for each group of the pages that ``index`` names."""
    groups: list[tuple[str, list[str]]] = []
    for page in re.findall(r"^   (\w+)$", index.read_text("utf-8"), re.MULTILINE):
        for found in NAMED.finditer(index.with_name(f"{page}.rst").read_text("utf-8")):
            if found["title"]:
                groups.append((found["title"], []))
            else:
                groups[-1][1].extend(stubs(found["kind"], found["name"]))
    return "\n\n".join(
        f"### {title}\n\n```python\n" + "\n\n\n".join(found) + "\n```"
        for title, found in groups
        if found
    )


def stubs(kind: str, name: str) -> Iterator[str]:
    """That of one name, or those of all that a module offers."""
    if kind != "module":
        owner, _, last = name.rpartition(".")
        value = getattr(importlib.import_module(owner), last)
        yield f"pb.{last}: str" if kind == "data" else stub(f"pb.{last}", value)
        return
    module = importlib.import_module(name)
    yield documented(module, "")
    if module in python_api.MODULES.values():
        for public in sorted({*python_api.public_names(module)} - {*pillarbox.__all__}):
            yield stub(f"{name.replace('pillarbox', 'pb')}.{public}", getattr(module, public))


def stub(name: str, value: Any) -> str:
    if not isinstance(value, type):
        first = wrapped(f"def {name}{python_api.signature(value)}:")
        return f"{first}\n{documented(value, '    ')}"
    first, *members = python_api.of_class(name, value)
    made = first.partition(" of ")[0]
    bases = [
        one.__name__
        for one in value.__bases__
        if one.__module__ in ("pillarbox.errors", "builtins")
    ]
    told = f"  # extends {', '.join(bases)}" if issubclass(value, Exception) else ""
    lines = [wrapped(f"{made}:{told}"), documented(value, "    ")]
    for member in members:
        told = member.removeprefix(f"  {name}.")
        attribute = getattr(value, re.split(r"\W", told)[0], None)
        is_method = "(" in told.split(" ")[0]
        lines.append(wrapped(f"    def {told}:" if is_method else f"    {told}"))
        if inspect.isfunction(attribute) or isinstance(attribute, property):
            lines += [documented(attribute, "        ")] * bool(attribute.__doc__)
    return "\n".join(lines)


def wrapped(line: str) -> str:
    return textwrap.fill(
        line, 110, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False
    )


def documented(value: Any, indent: str) -> str:
    told = ROLE.sub(r"`\1`", inspect.getdoc(value) or "").replace("``", "`")
    return textwrap.indent(f'"""{told}"""', indent, lambda line: bool(line.strip()))
