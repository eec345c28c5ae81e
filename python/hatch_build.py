"""Puts the jars that sbt has built into the wheel: one for each line of Spark; and its commit."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundledJars(BuildHookInterface):  # type: ignore[type-arg]
    """Editable installs use the jars in the build folder and need none of their own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises ``FileNotFoundError`` if none has been built."""
        if version == "editable":
            return
        folder = Path(self.root).parent / "target"
        jars = sorted(folder.glob(f"pillarbox-spark_*-{self.metadata.version}.jar"))
        if not jars:
            raise FileNotFoundError(
                f"A wheel needs jars in {folder}: run `make wheel`, which builds them first."
            )
        for jar in jars:
            build_data["force_include"][str(jar)] = f"pillarbox/jars/{jar.name}"
        if ".dev" in self.metadata.version:
            self._add_commit(build_data)

    def _add_commit(self, build_data: dict[str, Any]) -> None:
        """Tells development builds of one version apart, where the sources are a checkout."""
        command = ["git", "rev-parse", "--short=12", "HEAD"]
        try:
            told = subprocess.run(command, cwd=self.root, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return
        self._folder = tempfile.TemporaryDirectory()
        commit = Path(self._folder.name, "_commit.txt")
        commit.write_bytes(told.stdout)
        build_data["force_include"][str(commit)] = "pillarbox/_commit.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Deletes what is in the wheel now."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
