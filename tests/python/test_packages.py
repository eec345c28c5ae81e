"""The packages of the package, and which of them may use which; read from the source."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pillarbox as pb

PACKAGE = Path(pb.__file__).parent
VALUES = ("errors", "_base", "_arrow")
# What may be used by each part of the package; what users import has no underscore.
MAY_USE: dict[str, tuple[str, ...]] = {
    "_version": (),
    "errors": (),
    "columns": (),
    "_base": ("errors",),
    "retry": ("errors", "_base"),
    "limits": ("errors", "_base"),
    "options": ("errors", "_base", "retry", "limits"),
    "budgets": ("errors", "_base", "options"),
    "_arrow": ("errors", "_base"),
    "_metered": (*VALUES, "retry", "limits"),
    "_async": (*VALUES, "retry", "options", "limits", "budgets", "_metered"),
    "_keyed": (*VALUES, "options"),
    "_keyed_async": (*VALUES, "retry", "limits", "_metered", "_async", "_keyed"),
    "_harness": (*VALUES, "_metered", "_async", "_keyed", "_keyed_async"),
    "_worker": (*VALUES, "_metered", "_async", "_keyed", "_keyed_async"),
    "_driver": (
        *(*VALUES, "options", "limits", "budgets"),
        *("_metered", "_async", "_keyed", "_keyed_async", "_version"),
    ),
    "testing": (
        *(*VALUES, "options", "retry"),
        *("_metered", "_async", "_keyed", "_keyed_async", "_harness", "_driver"),
    ),
    "__main__": ("errors", "_driver"),
    "__init__": (
        *("errors", "retry", "options", "budgets", "columns", "testing", "_version"),
        *("_base", "_metered", "_async", "_keyed", "_driver"),
    ),
}


@dataclass(frozen=True)
class Import:
    """``user`` uses ``used``, modules by dotted name inside the package, in ``line``."""

    user: str
    used: str
    names: tuple[str, ...]
    line: int

    def __str__(self) -> str:
        return f"{self.user}:{self.line} uses {self.used} ({', '.join(self.names)})"


@functools.cache
def modules(package: Path) -> dict[str, ast.Module]:
    """By dotted name; ``__init__`` keeps its name."""
    return {
        ".".join(path.relative_to(package).with_suffix("").parts): ast.parse(
            path.read_text("utf-8")
        )
        for path in sorted(package.rglob("*.py"))
    }


@functools.cache
def imports(package: Path) -> list[Import]:
    found = modules(package)
    return [one for name, tree in found.items() for one in imports_of(name, tree, found)]


def imports_of(name: str, tree: ast.Module, known: dict[str, ast.Module]) -> Iterator[Import]:
    for node in ast.walk(tree):
        for used, names in targets(name, node, known):
            yield Import(name, used, names, getattr(node, "lineno", 0))


def targets(
    name: str, node: ast.AST, known: dict[str, ast.Module]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "pillarbox":
                yield module_of(alias.name.partition(".")[2], known), ()
    if not isinstance(node, ast.ImportFrom):
        return
    base = base_of(name, node)
    if base is None:
        return
    names = [alias.name for alias in node.names]
    inside = [one for one in names if module_of(join(base, one), known) != module_of(base, known)]
    for one in inside:
        yield module_of(join(base, one), known), ()
    if len(inside) < len(names):
        yield module_of(base, known), tuple(one for one in names if one not in inside)


def base_of(name: str, node: ast.ImportFrom) -> str | None:
    """The module that is imported from, "" for the package itself; None for another package."""
    told = node.module or ""
    if not node.level:
        head, _, rest = told.partition(".")
        return rest if head == "pillarbox" else None
    folders = name.split(".")[: -node.level]
    return ".".join([*folders, told]).strip(".")


def join(base: str, name: str) -> str:
    return f"{base}.{name}".strip(".")


def module_of(dotted: str, known: dict[str, ast.Module]) -> str:
    """The module of that name, or the ``__init__`` of a package; as it is for neither."""
    if dotted in known:
        return dotted
    package = join(dotted, "__init__")
    return package if package in known else dotted.rpartition(".")[0] or "__init__"


def package_of(module: str) -> str:
    return module.split(".")[0]


def circle(arrows: set[tuple[str, str]]) -> list[str]:
    """The names along a circle; none if there is none."""
    graph: dict[str, set[str]] = {}
    for user, used in arrows:
        graph.setdefault(user, set()).add(used)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        return list(found.args[1])
    return []


def circle_of_packages(package: Path) -> list[str]:
    """Each module that users import counts as a package of its own."""
    pairs = {(package_of(one.user), package_of(one.used)) for one in imports(package)}
    return circle({(user, used) for user, used in pairs if user != used})


def circle_of_modules(package: Path) -> list[str]:
    """Within a package. An import counts in a function, and for type checkers alone, too."""
    pairs = {(one.user, one.used) for one in imports(package)}
    return circle({(user, used) for user, used in pairs if package_of(user) == package_of(used)})


def against_the_table(package: Path) -> list[str]:
    return [
        str(one)
        for one in imports(package)
        if package_of(one.user) != package_of(one.used)
        and package_of(one.used) not in MAY_USE.get(package_of(one.user), ())
    ]


def flat_private_modules(package: Path) -> list[str]:
    """And whatever else stands beside the packages without being in the table."""
    return sorted(
        module
        for module in modules(package)
        if package_of(module) not in MAY_USE
        or ("." not in module and is_private(module) and module != "_version")
    )


def private_names(package: Path) -> list[str]:
    """Another module's private names, imported or as its attributes."""
    found = modules(package)
    told = [
        str(one)
        for one in imports(package)
        if one.used != one.user and any(is_private(name) for name in one.names)
    ]
    return told + [
        f"{name}:{node.lineno} uses {ast.unparse(node)}"
        for name, tree in found.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and is_private(node.attr)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules_in(name, tree, found)
    ]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def modules_in(name: str, tree: ast.Module, known: dict[str, ast.Module]) -> set[str]:
    """The names by which a module calls others of the package."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (base := base_of(name, node)) is not None
        for alias in node.names
        if join(base, alias.name) in known
    }


def test_no_package_needs_one_that_needs_it() -> None:
    assert circle_of_packages(PACKAGE) == []


def test_no_module_needs_one_that_needs_it() -> None:
    assert circle_of_modules(PACKAGE) == []


def test_packages_use_what_the_table_lets_them_use() -> None:
    assert against_the_table(PACKAGE) == []


def test_the_table_lets_nothing_be_used_that_is_not() -> None:
    used = {(package_of(one.user), package_of(one.used)) for one in imports(PACKAGE)}
    allowed = {(user, one) for user, several in MAY_USE.items() for one in several}
    assert allowed - used == set()


def test_no_module_uses_private_names_of_another() -> None:
    assert private_names(PACKAGE) == []


def test_private_modules_stand_in_packages() -> None:
    assert flat_private_modules(PACKAGE) == []


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A package with a mistake of each kind."""
    files = {
        "__init__.py": "from ._driver.clients import enter\n",
        "_flat.py": "",
        "_driver/clients.py": "def enter():\n    from .._worker import serve\n",
        "_worker/serve.py": "from typing import TYPE_CHECKING\n\n"
        "if TYPE_CHECKING:\n    from .._driver.clients import enter\n",
        "_keyed/state.py": "from . import timers\n\ntimers._due()\n",
        "_keyed/timers.py": "from .surface import _Timer\n",
        "_keyed/surface.py": "from typing import TYPE_CHECKING\n\n"
        "if TYPE_CHECKING:\n    from .state import Cell\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_mistakes_are_found(house: Path) -> None:
    assert set(circle_of_packages(house)) == {"_driver", "_worker"}
    assert set(circle_of_modules(house)) == {"_keyed.state", "_keyed.timers", "_keyed.surface"}
    assert against_the_table(house) == [
        "_driver.clients:2 uses _worker.serve ()",
        "_worker.serve:4 uses _driver.clients (enter)",
    ]
    assert flat_private_modules(house) == ["_flat"]
    assert private_names(house) == [
        "_keyed.timers:1 uses _keyed.surface (_Timer)",
        "_keyed.state:3 uses timers._due",
    ]
