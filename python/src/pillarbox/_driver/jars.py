"""The jar that belongs to this package."""

from __future__ import annotations

import importlib.resources
import os
import re
import zipfile
from collections.abc import Iterable
from glob import glob
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from .._base.spark_versions import installed, line_of
from .._version import __version__
from ..errors import PillarboxError, error

_BRIDGE = "io/pillarbox/spark/PythonBridge.class"
_ANY_LINE = "pillarbox-spark_*-*.jar"
_NAME = re.compile(r"pillarbox(?:-spark_([\d.]+))?(?:-(\d[\w.+-]*))?\.jar")


def find_jar(line: str | None = None) -> str:
    """Return the path of the jar for a line of Spark, by default the line of the installed PySpark.

    This is the jar in the wheel, the newest that was built in a checkout, or the jar from which the
    package itself was loaded. Raises ``EngineUnavailable`` (JAR_NOT_FOUND).
    """
    line = installed() if line is None else line
    package = importlib.resources.files("pillarbox")
    if isinstance(package, zipfile.Path):
        return _around(package, line)
    if not isinstance(package, Path):
        raise _not_found(line, f"{package}, which is neither a folder nor a jar", [])
    bundled, built = package / "jars", package.parents[2] / "target"
    name = f"pillarbox-spark_{line}-*.jar"
    jars = sorted(bundled.glob(name)) or _built(built, name)
    if not jars:
        others = [*bundled.glob(_ANY_LINE), *built.glob(_ANY_LINE)]
        raise _not_found(line, f"{bundled}, {built}", others)
    return str(jars[-1])


def jar_for(version: str) -> str:
    """Return the path of the jar for a release of Spark, or its name if there is none."""
    try:
        return find_jar(line_of(version))
    except PillarboxError:
        return f"pillarbox-spark_{line_of(version)}-{__version__}.jar"


def how_to_add_jar(spark: str | None = None) -> str:
    """Return the remedy where the JVM of this process runs without the right jar.

    ``spark`` is the version that runs there, if it is known.
    """
    if spark is not None and line_of(spark) != installed():
        return (
            f"Here PySpark {installed()} runs on Spark {spark}, perhaps that of SPARK_HOME: "
            f"install PySpark {line_of(spark)} for it, or unset SPARK_HOME; where a platform "
            f"makes the session, add {jar_for(spark)} to its spark.jars."
        )
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


def ours_among(named: Iterable[str], setting: str) -> str | None:
    """Return the first jar of Pillarbox among the paths and URLs that ``setting`` names.

    The content of a jar decides, or its name where the file can't be read from here. Raises
    ``EngineUnavailable`` (JAR_NOT_THERE, JAR_OF_ANOTHER) if that jar can't be used.
    """
    return next((jar for jar in named if _is_ours(jar, setting)), None)


def jars_on(class_path: str) -> list[str]:
    """Return the jars of a class path, with those of its wildcards."""
    entries = [entry for entry in class_path.split(os.pathsep) if entry]
    found = [glob(entry + ".jar") if entry.endswith("*") else [entry] for entry in entries]
    return [one for group in found for one in group if one.endswith(".jar")]


def _is_ours(jar: str, setting: str) -> bool:
    name = _NAME.fullmatch(re.split(r"[/\\]", jar)[-1])
    path = _local(jar)
    if path is None:
        line, version = (None, None) if name is None else name.groups()
    elif not zipfile.is_zipfile(path):
        if name is None:
            return False
        raise error("JAR_NOT_THERE", jar=jar, setting=setting)
    else:
        with zipfile.ZipFile(path) as archive:
            if _BRIDGE not in archive.namelist():
                return False
            line, version = _told_by(archive)
    # The line of SPARK_HOME is not known before its JVM runs.
    wanted_line = line if "SPARK_HOME" in os.environ else installed()
    if line not in (None, wanted_line) or version not in (None, __version__):
        found = f"{version or 'of an unknown version'} for Spark {line or 'of an unknown line'}"
        wanted = f"{__version__} for Spark {wanted_line}"
        raise error("JAR_OF_ANOTHER", jar=jar, setting=setting, found=found, wanted=wanted)
    return path is not None or name is not None


def _local(jar: str) -> Path | None:
    """Return where a jar is on this machine; None for one that can't be looked into: one of another
    file system, or several by a pattern."""
    if re.match(r"(file|local):", jar):
        return Path(url2pathname(urlsplit(jar).path))
    is_path = not re.match(r"[a-z][a-z0-9+.-]+:", jar) and not re.search(r"[*?\[{]", jar)
    return Path(jar) if is_path else None


def _told_by(archive: zipfile.ZipFile) -> tuple[str | None, str | None]:
    """Return the line and the version in the manifest, if it has them."""
    try:
        manifest = archive.read("META-INF/MANIFEST.MF").decode()
    except KeyError:
        return None, None
    told = dict(re.findall(r"^([\w-]+): (.*?)\r?$", manifest, re.MULTILINE))
    if told.get("Implementation-Vendor-Id") != "io.pillarbox":
        return None, None
    return told.get("Spark-Line"), told.get("Implementation-Version")


def _not_found(line: str, searched: str, others: list[Path]) -> PillarboxError:
    lines = sorted({jar.name.split("_")[1].split("-")[0] for jar in others})
    there = (
        f"the jars there are for Spark {', '.join(lines)}" if lines else "there is no jar at all"
    )
    install = f'pip install "pyspark=={lines[-1]}.*"' if lines else "install the wheel"
    return error("JAR_NOT_FOUND", spark=line, searched=searched, there=there, install=install)


def _around(package: zipfile.Path, line: str) -> str:
    """Return the archive that the package was loaded from, if it has the JVM's classes too."""
    archive = package.root
    if _BRIDGE not in archive.namelist():
        raise _not_found(line, f"{archive.filename}, which has no classes", [])
    return str(Path(str(archive.filename)).absolute())


def _built(folder: Path, name: str) -> list[Path]:
    """Return the jars in ``folder``, oldest first; only those of this version if there are any."""
    jars = sorted(folder.glob(name), key=lambda jar: jar.stat().st_mtime)
    return [jar for jar in jars if jar.stem.endswith(f"-{__version__}")] or jars
