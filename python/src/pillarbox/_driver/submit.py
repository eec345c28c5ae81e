"""The arguments with which PySpark starts its JVM: PYSPARK_SUBMIT_ARGS and Spark's defaults."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .._base.checks import invalid

VARIABLE = "PYSPARK_SUBMIT_ARGS"

_SWITCHES = frozenset(
    {"-v", "--verbose", "-h", "--help", "--version", "--usage-error", "--supervise"}
    | {"--load-spark-defaults"}
)
_ALIASES = {"-c": "--conf"}


class SubmitArguments:
    """The arguments of ``spark-submit`` in the environment.

    Values are looked up in spark-submit's order: its options, ``--conf``, the session's builder
    (which PySpark hands over as ``--conf`` before the others), files of properties, the defaults.
    """

    def __init__(self, builder: Mapping[str, object]) -> None:
        """Raise ``InvalidOption`` for quotes that are not closed."""
        self._builder = builder
        self._tokens = _split(os.environ.get(VARIABLE, "pyspark-shell"))
        self._options = list(_options(self._tokens))

    def value(self, option: str, key: str, variable: str = "") -> str | None:
        """Return the value of ``option`` (as in "--jars"), the setting ``key`` or the variable."""
        for given in (self._last(option), self._setting(key), os.environ.get(variable)):
            if given is not None:
                return given
        return None

    def changed(self, jars: list[str], settings: Mapping[str, str]) -> str:
        """Return the arguments with these jars and settings instead of their own."""
        rest = list(self._tokens)
        for name, value, start, end in reversed(self._options):
            if name == "--jars" or (name == "--conf" and _conf(value)[0] in settings):
                del rest[start:end]
        told = [part for one in settings.items() for part in ("--conf", "=".join(one))]
        return shlex.join(["--jars", ",".join(jars), *told, *rest])

    def _setting(self, key: str) -> str | None:
        settings = dict(_conf(value) for name, value, _, _ in self._options if name == "--conf")
        if key in settings:
            return settings[key]
        if key in self._builder:
            return str(self._builder[key])
        return next((found[key] for found in self._files() if key in found), None)

    def _files(self) -> Iterator[dict[str, str]]:
        named = self._last("--properties-file")
        if named is not None:
            yield _properties(Path(named))
        if named is None or "--load-spark-defaults" in self._tokens:
            yield _properties(_conf_folder() / "spark-defaults.conf")

    def _last(self, option: str) -> str | None:
        values = [value for name, value, _, _ in self._options if name == option]
        return values[-1] if values else None


@contextmanager
def in_environment(arguments: str) -> Iterator[None]:
    """Set the arguments of a JVM that is started in the body."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = arguments
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def handed_over() -> dict[str, str]:
    """Return the settings that ``spark-submit --remote`` hands over to the application."""
    groups = range(int(os.environ.get("PYSPARK_REMOTE_INIT_CONF_LEN", "0")))
    told = [json.loads(os.environ[f"PYSPARK_REMOTE_INIT_CONF_{group}"]) for group in groups]
    return {key: value for group in told for key, value in group.items()}


def jar_list(text: str | None) -> list[str]:
    """Split a list of jars at its commas."""
    return [jar.strip() for jar in (text or "").split(",") if jar.strip()]


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as problem:
        expected = f"arguments of spark-submit ({problem})"
        raise invalid(VARIABLE, expected, text, '"--jars /a.jar pyspark-shell"') from None


def _options(tokens: list[str]) -> Iterator[tuple[str, str, int, int]]:
    """Yield the name, value and place of each option before the application."""
    at = 0
    while at < len(tokens) and tokens[at].startswith("-"):
        name, assigned, value = tokens[at].partition("=")
        start, at = at, at + 1
        if not assigned and name not in _SWITCHES and at < len(tokens):
            value, at = tokens[at], at + 1
        yield _ALIASES.get(name, name), value, start, at


def _conf(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def _conf_folder() -> Path:
    if "SPARK_CONF_DIR" in os.environ:
        return Path(os.environ["SPARK_CONF_DIR"])
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "conf"


_PROPERTY = re.compile(r"((?:\\.|[^\\\s=:])+)\s*[=:\s]?\s*(.*)", re.DOTALL)


def _properties(file: Path) -> dict[str, str]:
    """Read a file as ``java.util.Properties`` does, without its \\u escapes."""
    if not file.is_file():
        return {}
    found = {}
    text = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n\s*", r"\1", file.read_text("utf-8", "replace"))
    for line in map(str.lstrip, text.splitlines()):
        parts = None if line.startswith(("#", "!")) else _PROPERTY.match(line)
        if parts:
            key, value = (re.sub(r"\\(.)", r"\1", part) for part in parts.groups())
            found[key] = value.strip()
    return found
