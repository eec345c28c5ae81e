"""Puts the jar that sbt has built into the wheel: exactly one, of the version of the package."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundledJar(BuildHookInterface):  # type: ignore[type-arg]
    """Editable installs use the jar in the build folder and need none of their own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises ``FileNotFoundError`` if the jar has not been built."""
        if version == "editable":
            return
        name = f"pillarbox-{self.metadata.version}.jar"
        jar = Path(self.root).parent / "target" / name
        if not jar.is_file():
            raise FileNotFoundError(
                f"A wheel needs {jar}: run `make wheel`, which builds it first."
            )
        build_data["force_include"][str(jar)] = f"pillarbox/jars/{name}"
