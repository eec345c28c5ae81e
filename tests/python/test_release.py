"""What ``make release`` refuses."""

from __future__ import annotations

import importlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pillarbox._driver.jars import find_jar

ROOT = Path(__file__).parents[2]
NAMESPACE = 'xmlns="http://maven.apache.org/POM/4.0.0"'
DESCRIBED = "<name>n</name><description>d</description><licenses/>"


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("release_check")


def wheel_with(check: Any, folder: Path, lines: dict[str, list[str]]) -> Path:
    """A wheel with a jar for each line, which has these entries."""
    wheel = folder / "pillarbox.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for line, entries in lines.items():
            jar = folder / f"pillarbox-spark_{line}-{check.VERSION}.jar"
            with zipfile.ZipFile(jar, "w") as content:
                for entry in entries:
                    content.writestr(entry, "")
            archive.write(jar, f"pillarbox/jars/{jar.name}")
    return wheel


def test_a_wheel_without_the_jar_of_a_line_is_refused(check: Any, tmp_path: Path) -> None:
    lines = {line: ["io/pillarbox/api/Row.class"] for line in check.LINES}
    assert list(check.jars_of(wheel_with(check, tmp_path, lines))) == list(check.LINES)
    line, _ = lines.popitem()
    with pytest.raises(SystemExit, match=f"and not .*spark_{line}-"):
        check.jars_of(wheel_with(check, tmp_path, lines))


@pytest.mark.parametrize(
    "foreign", ["com/acme/A.class", "META-INF/maven/x/pom.xml", "org/x/A.class"]
)
def test_a_jar_with_classes_of_others_is_refused(check: Any, tmp_path: Path, foreign: str) -> None:
    with zipfile.ZipFile(find_jar()) as jar:
        ours = jar.namelist()
    lines = dict.fromkeys(check.LINES, ours)
    assert len(check.jars_of(wheel_with(check, tmp_path, lines))) == len(check.LINES)
    lines["4.2"] = [*ours, foreign]
    with pytest.raises(SystemExit, match=f"{foreign}.*isn't ours"):
        check.jars_of(wheel_with(check, tmp_path, lines))


def test_a_pom_tells_what_it_lacks_and_has_no_dependencies(check: Any) -> None:
    full = "<url>u</url><scm><url>u</url></scm><developers><developer>d</developer></developers>"
    assert check.lacks(f"<project {NAMESPACE}>{DESCRIBED}{full}</project>") == set()
    empty = f"<project {NAMESPACE}>{DESCRIBED}<url/><scm><url> </url></scm></project>"
    assert check.lacks(empty) == {"url", "scm", "developers"}
    with pytest.raises(SystemExit, match="has no name"):
        check.lacks(f"<project {NAMESPACE}/>")
    with pytest.raises(SystemExit, match="has dependencies"):
        check.lacks(f"<project {NAMESPACE}>{DESCRIBED}<dependencies/></project>")


def test_the_sbom_lists_each_jar_with_its_checksum(check: Any, tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx", reason="make release installs it")
    (tmp_path / "pillarbox.whl").write_bytes(b"wheel")
    told = json.loads(check.sbom_of(tmp_path / "pillarbox.whl", {"4.0": b"one", "4.2": b"two"}))
    assert told["bomFormat"] == "CycloneDX"
    assert [one["purl"] for one in told["components"]] == [
        f"pkg:maven/io.pillarbox/pillarbox-spark_{line}@{check.VERSION}" for line in ("4.0", "4.2")
    ]
    checksums = {one["hashes"][0]["content"] for one in told["components"]}
    assert len(checksums) == 2
    assert told["components"][0]["licenses"] == [{"expression": "Apache-2.0"}]
