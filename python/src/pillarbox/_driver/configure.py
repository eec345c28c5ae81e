"""``configure``: the jar of Pillarbox on the class path of the first session."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .._base.checks import check
from .._base.unknown_options import answers_unknown
from ..errors import error
from .client.plugin import PLUGIN, SETTING
from .jars import how_to_add_jar
from .submit import SubmitArguments, handed_over, in_environment, jar_list

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("pillarbox")
_PYTHON = "PYSPARK_PYTHON"
_set_here: list[str] = []  # the value of it, if it is set for the sessions of this process


@answers_unknown
def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Return ``builder``, whose session will have the jar of this package on its class path.

    For the first session of the process. When ``getOrCreate()`` (or ``create()``) is called, the
    jar is added to those that ``PYSPARK_SUBMIT_ARGS``, ``spark-defaults.conf`` and the builder
    name, unless one of Pillarbox is among them. Under ``spark-submit``, and where a session has run
    before, the JVM runs already and can't load jars any more: if it has none of Pillarbox,
    ``getOrCreate()`` gives a ``RuntimeWarning`` with the remedy. The logger "pillarbox" logs each
    step at level INFO.

    A Spark Connect server that ``getOrCreate()`` starts (a remote of "local[2]", or the API mode
    "connect") gets the jar and the plugin. A server that runs elsewhere ("sc://...") is left as it
    was started.

    Workers run on the interpreter that ``PYSPARK_PYTHON`` names, or ``spark.pyspark.python`` in the
    places above. With a local master and neither of them, they run on the interpreter of this
    process, because ``python3`` may lack the packages where no environment is activated.

    ``getOrCreate()`` raises :class:`EngineUnavailable`: JAR_NOT_FOUND if there is no jar,
    JAR_NOT_THERE and JAR_OF_ANOTHER if the settings name a jar of Pillarbox that can't be used,
    JAR_PATH_UNUSABLE if Spark can't load the package's path. :class:`InvalidOption` is raised at
    once for a ``builder`` that is none.
    """
    is_builder = hasattr(builder, "getOrCreate") and not isinstance(builder, type)
    check(is_builder, "builder", "a builder of sessions", builder, "SparkSession.builder")
    for name in ("getOrCreate", "create"):
        action = getattr(builder, name)
        if not isinstance(getattr(action, "__self__", None), _Start):
            setattr(builder, name, _Start(builder, action).run)
    return builder


class _Start:
    """A builder's ``action``, before which the jar is added.

    Only then have all places named their jars and settings.
    """

    def __init__(self, builder: SparkSession.Builder, action: Callable[[], SparkSession]) -> None:
        self._builder = builder
        self._action = action

    def run(self) -> SparkSession:
        """Run the action, with jar and plugin where it starts a JVM."""
        remote = _remote(self._builder)
        if remote is not None and (
            remote.startswith("sc://") or not _starts_servers(self._builder)
        ):
            _LOG.info("pb.configure: the Spark Connect server %s has its jars already", remote)
            return self._action()
        from .client import classic

        if classic.is_running():
            self._join(remote)
            return self._action()
        return self._launch(remote)

    def _launch(self, remote: str | None) -> SparkSession:
        """Pass the jar by the environment.

        The setting spark.jars would hide the jars that spark-submit finds for packages.
        """
        from . import jars

        arguments = SubmitArguments(self._settings(remote))
        master = remote or arguments.value("--master", "spark.master", "MASTER") or "local[*]"
        _use_python(arguments.value("", "spark.pyspark.python"), master)
        named = jar_list(arguments.value("--jars", "spark.jars"))
        jar = jars.ours_among(named, "spark.jars")
        setting = "spark.driver.extraClassPath"  # its jars hide those of the session
        class_path = arguments.value("--driver-class-path", setting) or ""
        jars.ours_among(jars.jars_on(class_path), setting)
        if jar is None:
            jar = jars.find_jar()
            if {",", "#", os.pathsep} & set(jar):
                raise error("JAR_PATH_UNUSABLE", jar=jar)
            named.append(jar)
            _LOG.info("pb.configure: %s is added to the session's jars", jar)
        else:
            _LOG.info("pb.configure: %s is among the session's jars already", jar)
        self._add_to_option(remote, jar)
        settings = {} if remote is None else self._plugins(remote)
        with in_environment(arguments.changed(named, settings)):
            return self._action()

    def _settings(self, remote: str | None) -> dict[str, object]:
        """Return the builder's settings, and those that spark-submit gives a server to start."""
        return {**({} if remote is None else handed_over()), **self._builder._options}

    def _add_to_option(self, remote: str | None, jar: str) -> None:
        """Add the jar to the builder's jars. If it names any, executors get no others."""
        named = jar_list(str(self._settings(remote).get("spark.jars", "")))
        if named and jar not in named:
            self._builder.config("spark.jars", ",".join([*named, jar]))

    def _plugins(self, remote: str) -> dict[str, str]:
        """Return the plugins of the server that will start.

        The builder gets them only where it names plugins, since PySpark warns of each setting of a
        server in a builder.
        """
        settings = self._settings(remote)
        named = jar_list(SubmitArguments(settings).value("", SETTING))
        plugins = ",".join(named if PLUGIN in named else [*named, PLUGIN])
        if SETTING in settings:
            self._builder.config(SETTING, plugins)
        return {SETTING: plugins}

    def _join(self, remote: str | None) -> None:
        from .client import classic

        options = self._builder._options
        master = options.get("spark.master") or classic.running_master() or ""
        _use_python(options.get("spark.pyspark.python"), str(master))
        jar = classic.running_jar()
        if jar is None:
            text = str(error("JAR_TOO_LATE", advice=how_to_add_jar()))
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        else:
            _LOG.info("pb.configure: the JVM that runs has %s already", jar)
            self._add_to_option(remote, jar)
        server_is_there = "SPARK_LOCAL_REMOTE" in os.environ
        if jar and remote is not None and not server_is_there:
            self._builder.config(SETTING, self._plugins(remote)[SETTING])


def _remote(builder: SparkSession.Builder) -> str | None:
    """Return "sc://..." for a Spark Connect server, the master of one that PySpark starts, or None.

    None stands for a classic session.
    """
    options = builder._options
    named = options.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if not _starts_servers(builder):
        return str(named or "sc://")
    if named is None and _api_mode(options) == "connect":
        named = options.get("spark.master", os.environ.get("MASTER", "local"))
    return None if named is None else str(named)


def _starts_servers(builder: SparkSession.Builder) -> bool:
    """Return False for pyspark-client and for builders of Spark Connect, which start no server."""
    from pyspark.util import is_remote_only

    return not (is_remote_only() or type(builder).__module__.startswith("pyspark.sql.connect"))


def _api_mode(options: Mapping[str, object]) -> str:
    from pyspark import util

    mode = str(options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))).lower()
    return mode if mode in ("classic", "connect") else util.default_api_mode()


def _use_python(named: str | None, master: str) -> None:
    """Make workers run on the Python of the settings, or locally on this one.

    PySpark itself obeys the setting only under spark-submit.
    """
    if master.startswith("local") and not master.startswith("local-cluster"):
        named = named or sys.executable
    if _set_here and os.environ.get(_PYTHON) == _set_here[0]:
        del os.environ[_PYTHON]  # of a session before this one
    if named and _PYTHON not in os.environ:
        os.environ[_PYTHON] = named
        _set_here[:] = [named]
