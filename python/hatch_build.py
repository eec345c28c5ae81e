"""Puts the jars that sbt has built into wheel and sdist, one for each line of Spark; its commit.

A wheel is built from an sdist without a JDK.
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundledJars(BuildHookInterface):  # type: ignore[type-arg]
    """Editable installs use the jars in the build folder and need none of their own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises ``FileNotFoundError`` if none has been built."""
        is_unpacked_sdist = Path(self.root, "PKG-INFO").exists()
        if version == "editable" or is_unpacked_sdist:
            return
        package = "src/pillarbox" if self.target_name == "sdist" else "pillarbox"
        folder = Path(self.root).parent / "target"
        jars = sorted(folder.glob(f"pillarbox-spark_*-{self.metadata.version}.jar"))
        if not jars:
            raise FileNotFoundError(
                f"A wheel or sdist needs jars in {folder}: `make wheel` builds them first."
            )
        for jar in jars:
            build_data["force_include"][str(jar)] = f"{package}/jars/{jar.name}"
        if ".dev" in self.metadata.version:
            self._add_commit(build_data, package)

    def _add_commit(self, build_data: dict[str, Any], package: str) -> None:
        """Tells development builds of one version apart, where the sources are a checkout."""
        command = ["git", "rev-parse", "--short=12", "HEAD"]
        try:
            told = subprocess.run(command, cwd=self.root, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return
        self._folder = tempfile.TemporaryDirectory()
        commit = Path(self._folder.name, "_commit.txt")
        commit.write_bytes(told.stdout)
        build_data["force_include"][str(commit)] = f"{package}/_commit.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Deletes what is in the archive now."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
