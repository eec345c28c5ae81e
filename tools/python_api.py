"""Writes down the public names of the Python package: signatures, methods, fields and bases.

``python tools/python_api.py --update`` writes ``tests/python/api.txt``, which a test holds against
the package: a name that was released must not change unseen. Without it the text is printed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pillarbox as pb
import pillarbox.columns
import pillarbox.testing

FILE = Path(__file__).resolve().parent.parent / "tests" / "python" / "api.txt"
MODULES = {"pb": pb, "pb.columns": pillarbox.columns, "pb.testing": pillarbox.testing}


def text() -> str:
    return (
        "\n".join(line for name, module in MODULES.items() for line in of_module(name, module))
        + "\n"
    )


def of_module(prefix: str, module: Any) -> Iterator[str]:
    for name in sorted(public_names(module)):
        value = getattr(module, name)
        if isinstance(value, type):
            yield from of_class(f"{prefix}.{name}", value)
        elif callable(value):
            yield f"{prefix}.{name}{signature(value)}"
        elif name != "__version__":
            yield f"{prefix}.{name} = {value!r}"


def public_names(module: Any) -> list[str]:
    """Those of ``__all__``, or what the module defines itself."""
    told = getattr(module, "__all__", None)
    if told is not None:
        return list(told)
    own = (name for name in vars(module) if not name.startswith("_"))
    return [
        name for name in own if getattr(vars(module)[name], "__module__", "") == module.__name__
    ]


def of_class(name: str, kind: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    made = signature(kind, of_object=True) if {"__init__", "__new__"} & set(vars(kind)) else ""
    yield f"class {name}{made}{f' of {bases}' if bases else ''}"
    told = {
        name: value
        for one in (*reversed(hidden_bases(kind)), kind)
        for name, value in {**inspect.get_annotations(one), **vars(one)}.items()
    }
    for attribute, value in sorted(told.items(), key=lambda item: item[0]):
        if attribute in fields(kind):
            continue
        if attribute.startswith("_") and attribute not in (
            "__getitem__",
            "__setitem__",
            "__enter__",
        ):
            continue
        if isinstance(value, property):
            yield f"  {name}.{attribute}{'' if value.fset is None else ' (writable)'}"
        elif isinstance(value, (staticmethod, classmethod)) or callable(value):
            yield f"  {name}.{attribute}{signature(getattr(kind, attribute))}"
        elif attribute not in vars(kind):
            yield f"  {name}.{attribute}: {value}"
        elif not inspect.ismemberdescriptor(value):
            yield f"  {name}.{attribute} = {shown(value)}"


def hidden_bases(kind: type) -> list[type]:
    """Our classes that users see by what is derived from them alone."""
    public = {getattr(module, name) for module in MODULES.values() for name in public_names(module)
              if isinstance(getattr(module, name), type)}  # fmt: skip
    return [
        one
        for one in kind.__mro__[1:]
        if one.__module__.startswith("pillarbox") and one not in public
    ]


def fields(kind: type) -> list[str]:
    """Those of a dataclass or a named tuple, which its signature has."""
    return [*getattr(kind, "__dataclass_fields__", ()), *getattr(kind, "_fields", ())]


def signature(value: Any, of_object: bool = False) -> str:
    found = inspect.signature(value)
    parameters = list(found.parameters.values())
    parts: list[str] = []
    for at, parameter in enumerate(parameters):
        before = parameters[at - 1].kind if at else None
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            parts.append("*")
        parts.append(one(parameter))
    returns = found.return_annotation
    told = "" if of_object or returns is found.empty else f" -> {returns}"
    return f"({', '.join(parts)}){told}"


def one(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    told = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        told += f": {getattr(parameter.annotation, '__forward_arg__', parameter.annotation)}"
    return told if parameter.default is parameter.empty else f"{told} = {shown(parameter.default)}"


def shown(value: Any) -> str:
    """A default without addresses of this process."""
    if isinstance(value, type) or callable(value):
        return str(getattr(value, "__name__", "..."))
    return repr(value) if isinstance(value, (str, int, float, tuple, type(None))) else "..."


if __name__ == "__main__":
    if "--update" in sys.argv[1:]:
        FILE.write_text(text(), "utf-8")
    else:
        sys.stdout.write(text())
