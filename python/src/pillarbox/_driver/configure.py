"""Puts Pillarbox's jar on the class path of the session to come."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING

from ..errors import error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("pillarbox")


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """``builder``, whose session will have the jar of this package on its class path.

    For the first session of the process. The jar is added to those that ``PYSPARK_SUBMIT_ARGS``,
    ``spark-defaults.conf`` and the builder name when ``getOrCreate()`` is called; one that is there
    already is taken. Under ``spark-submit``, and where a session has run before, the JVM runs
    already and can't load jars any more: if it has none of ours, ``getOrCreate()`` gives a
    ``RuntimeWarning`` with the remedy. A Spark Connect session needs no jar. What was done is
    logged, at level INFO, by the logger "pillarbox".

    Workers run on the interpreter that ``PYSPARK_PYTHON`` names, or ``spark.pyspark.python`` in the
    places above; with a local master and neither of them on the one that runs this: in an
    environment that is not activated, ``python3`` would be one without the packages.

    ``getOrCreate()`` raises :class:`EngineUnavailable` (JAR_NOT_FOUND) if the package holds no jar
    and there is none.
    """
    if not isinstance(getattr(builder.getOrCreate, "__self__", None), _Start):
        builder.getOrCreate = _Start(builder).run  # type: ignore[method-assign]
    return builder


class _Start:
    """Stands in front of a builder's ``getOrCreate``: only then is known what all have named."""

    def __init__(self, builder: SparkSession.Builder) -> None:
        self._builder = builder
        self._get_or_create = builder.getOrCreate

    def run(self) -> SparkSession:
        from . import jvm

        if _is_remote(self._builder):
            _LOG.info("pb.configure: a Spark Connect session needs no jar")
        elif jvm.is_running():
            self._join()
        else:
            return self._launch()
        return self._get_or_create()

    def _launch(self) -> SparkSession:
        """By the environment, for Python's own setting of spark.jars would win over what
        spark-submit makes of all jars and packages."""
        from . import jars
        from .submit import SubmitArguments, in_environment, jar_list

        arguments = SubmitArguments(self._builder._options)
        master = arguments.value("--master", "spark.master", "MASTER") or "local[*]"
        _use_python(arguments.value("", "spark.pyspark.python"), master)
        named = jar_list(arguments.value("--jars", "spark.jars"))
        jar = next(filter(jars.is_ours, named), None)
        if jar is None:
            jar = jars.find_jar()
            named.append(jar)
            _LOG.info("pb.configure: %s is added to the session's jars", jar)
        else:
            _LOG.info("pb.configure: %s is among the session's jars already", jar)
        _add_to_option(self._builder, jar)
        with in_environment(arguments.with_jars(named)):
            return self._get_or_create()

    def _join(self) -> None:
        from . import jvm

        named = self._builder._options.get("spark.pyspark.python")
        _use_python(named, jvm.running_master() or "")
        jar = jvm.running_jar()
        if jar is None:
            text = str(error("JAR_TOO_LATE", advice=how_to_add_jar()))
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        else:
            _LOG.info("pb.configure: the JVM that runs has %s already", jar)
            _add_to_option(self._builder, jar)


def _is_remote(builder: SparkSession.Builder) -> bool:
    return (
        type(builder).__module__.startswith("pyspark.sql.connect")
        or "spark.remote" in builder._options
        or "SPARK_REMOTE" in os.environ
    )


def _add_to_option(builder: SparkSession.Builder, jar: str) -> None:
    """Executors get what the builder names, if it names jars, and nothing else."""
    from .submit import jar_list

    named = jar_list(str(builder._options.get("spark.jars", "")))
    if named and jar not in named:
        builder.config("spark.jars", ",".join([*named, jar]))


def _use_python(named: str | None, master: str) -> None:
    """Workers run on the Python of the settings (which PySpark itself obeys only under
    spark-submit), or locally on this one."""
    if master.startswith("local") and not master.startswith("local-cluster"):
        named = named or sys.executable
    if named:
        os.environ.setdefault("PYSPARK_PYTHON", named)


def how_to_add_jar() -> str:
    """What to do where the JVM runs and has no jar of ours."""
    from ..errors import PillarboxError
    from .jars import find_jar

    try:
        jar = find_jar()
    except PillarboxError:
        jar = "the jar of Pillarbox"
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return (
            f"Start the application with spark-submit --jars {jar} "
            "(python -m pillarbox jar prints where it is)."
        )
    return (
        "Restart Python (in a notebook its kernel) and make the first session by "
        "pb.configure(SparkSession.builder).getOrCreate(); where a platform makes the session, "
        f"add {jar} to its spark.jars."
    )
