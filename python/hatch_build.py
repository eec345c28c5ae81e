"""Puts the jars that sbt has built into the wheel: one for each line of Spark."""

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
