"""Checks what a release uploads, in the folder dist, and writes its SBOM and the bundle for Maven.

Nothing is uploaded. Ends with what is left to the person who makes the release.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
VERSION = re.findall('"(.+)"', (ROOT / "python/src/pillarbox/_version.py").read_text())[0]
LINES = dict(
    re.findall(r"^([\d.]+)=(.+)$", (ROOT / "project/lines.properties").read_text(), re.MULTILINE)
)
# What is ours in a jar. All else would come from others, with licences of their own.
OURS = re.compile(
    r"(io/pillarbox/|org/apache/spark/sql/pillarbox/|pillarbox/|pyspark_pillarbox\.py$"
    r"|META-INF/(MANIFEST\.MF|LICENSE|services/[\w.]*)?$|(io|org)/(apache/)?(spark/)?(sql/)?$)"
)
# What a public Maven repository asks for, and only the owner knows.
OF_THE_OWNER = ("url", "scm", "developers")

JOB = """
import platform
import pillarbox as pb
from pyspark.sql import SparkSession

spark = pb.configure(SparkSession.builder.master("local[2]")).getOrCreate()

async def twice(row):
    return row.id * 2

class Count(pb.KeyedProcessFunction):
    def open(self, ctx):
        self.n = ctx.value_state("n", "bigint")

    def process(self, row, ctx):
        self.n.update((self.n.value() or 0) + 1)
        yield {"id": row.id, "twice": row.twice, "n": self.n.value()}

called = spark.range(0, 100, 1, 2).transform(pb.async_io, twice, returns="twice long", timeout="1m")
counted = called.selectExpr("*", "id % 5 AS k").transform(
    pb.process_keyed, Count(), by="k", returns="id long, twice long, n long"
)
rows = counted.collect()
assert sorted(row.id for row in rows) == list(range(100))
assert all(row.twice == 2 * row.id for row in rows)
assert sorted(row.n for row in rows) == sorted(list(range(1, 21)) * 5)
print(pb.__file__, "on Spark", spark.version, "and Python", platform.python_version())
"""


def main() -> None:
    """Exits with a message at the first thing that is not right."""
    (wheel,) = DIST.glob(f"pillarbox-{VERSION}-*.whl")
    sdist = DIST / f"pillarbox-{VERSION}.tar.gz"
    run("twine", "check", "--strict", str(wheel), str(sdist))
    jars = jars_of(wheel)
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {size:.1f} MB with the jars of Spark {', '.join(jars)}")
    sbom = DIST / f"pillarbox-{VERSION}.cdx.json"
    sbom.write_text(sbom_of(wheel, jars))
    missing = check_maven(jars)
    bundle = shutil.make_archive(str(DIST / f"pillarbox-{VERSION}-maven"), "zip", DIST / "maven")
    try_on_each_python(wheel)
    print(f"\nReady in {DIST}: {wheel.name}, {sdist.name}, {Path(bundle).name}, {sbom.name}.")
    print("Left to you: sign the files, upload them, tag the commit.")
    if missing:
        print(f"The POMs lack {', '.join(missing)}: a public Maven repository asks for them.")
    if ".dev" in VERSION:
        print(f"{VERSION} is a development version: _version.py has it.")


def run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], check=True)


def jars_of(wheel: Path) -> dict[str, bytes]:
    """The wheel's jars by their lines of Spark: one for each line, and in it only what is ours."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.endswith(".jar")}
        wanted = {line: f"pillarbox/jars/pillarbox-spark_{line}-{VERSION}.jar" for line in LINES}
        if names != set(wanted.values()):
            sys.exit(f"The wheel holds {sorted(names)}, and not {sorted(wanted.values())}.")
        for name in names:
            with archive.open(name) as file, zipfile.ZipFile(file) as jar:
                refuse_foreign(name, jar.namelist())
        return {line: archive.read(name) for line, name in wanted.items()}


def refuse_foreign(jar: str, entries: Iterable[str]) -> None:
    foreign = [entry for entry in entries if not OURS.match(entry)]
    if foreign:
        sys.exit(
            f"{jar} holds {foreign[:5]}, which isn't ours: name it in the SBOM, with its licence."
        )


def sbom_of(wheel: Path, jars: dict[str, bytes]) -> str:
    """CycloneDX, valid by its schema: the wheel, and the jars in it. Each holds our files alone."""
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from packageurl import PackageURL

    def component(kind: str, group: str | None, name: str, content: bytes) -> Component:
        purl = PackageURL(kind, group, name, VERSION)
        return Component(
            type=ComponentType.LIBRARY,
            group=group,
            name=name,
            version=VERSION,
            purl=purl,
            bom_ref=str(purl),
            licenses=[LicenseFactory().make_with_expression("Apache-2.0")],
            hashes=[
                HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(content).hexdigest())
            ],
        )

    bom = Bom()
    bom.metadata.component = component("pypi", None, "pillarbox", wheel.read_bytes())
    parts = [
        component("maven", "io.pillarbox", f"pillarbox-spark_{line}", content)
        for line, content in jars.items()
    ]
    bom.components.update(parts)
    bom.register_dependency(bom.metadata.component, parts)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    mistake = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if mistake:
        sys.exit(f"The SBOM is not valid: {mistake}")
    return text


def check_maven(jars: dict[str, bytes]) -> list[str]:
    """What the POMs lack that the owner knows.

    Of each line there are jar, sources, documentation and POM with their checksums, and the jar is
    the wheel's.
    """
    missing: set[str] = set()
    for line, content in jars.items():
        name = f"pillarbox-spark_{line}"
        folder = DIST / "maven/io/pillarbox" / name / VERSION
        for end in (".jar", "-sources.jar", "-javadoc.jar", ".pom"):
            file = folder / f"{name}-{VERSION}{end}"
            if not file.exists():
                sys.exit(f"There is no {file}.")
            for kind in ("md5", "sha1"):
                told = Path(f"{file}.{kind}").read_text().strip()
                if hashlib.new(kind, file.read_bytes()).hexdigest() != told:
                    sys.exit(f"{file}.{kind} is not the checksum of its file.")
        if (folder / f"{name}-{VERSION}.jar").read_bytes() != content:
            sys.exit(f"{name} in the wheel and in Maven's folder differ.")
        missing |= lacks((folder / f"{name}-{VERSION}.pom").read_text())
    return sorted(missing)


def lacks(pom: str) -> set[str]:
    """Which elements that the owner must fill in a POM has not, or has empty."""
    project = ElementTree.fromstring(pom)
    found = {element.tag.rpartition("}")[2]: element for element in project}
    for name in ("name", "description", "licenses"):
        if name not in found:
            sys.exit(f"The POM has no {name}.")
    if "dependencies" in found:
        sys.exit("The POM has dependencies: all that the jar needs is Spark's.")
    return {
        name
        for name in OF_THE_OWNER
        if name not in found or not "".join(found[name].itertext()).strip()
    }


def try_on_each_python(wheel: Path) -> None:
    """Runs a small job on the oldest Python with the oldest line of Spark, and on both newest."""
    told = subprocess.run([ROOT / "tools/pythons"], check=True, capture_output=True, text=True)
    pythons = told.stdout.split() or [sys.executable]
    releases = list(LINES.values())
    for python, release in {pythons[0]: releases[0], pythons[-1]: releases[-1]}.items():
        try_on(python, wheel, release)


def try_on(python: str, wheel: Path, release: str) -> None:
    """Installs the wheel alone into an empty environment, and then with PySpark."""
    home = ROOT / ".build/release"
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(home)], check=True)
    ours = str(home / "bin/python")
    pip = [ours, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(wheel)], check=True)
    alone = subprocess.run([ours, "-I", "-c", "import pillarbox"], capture_output=True, text=True)
    if "[PYSPARK_MISSING]" not in alone.stderr:
        sys.exit(
            f"Without PySpark the import must say so, and it said: {alone.stderr or 'nothing'}"
        )
    subprocess.run([*pip, f"pyspark=={release}"], check=True)
    told = subprocess.run(
        [ours, "-I", "-c", JOB],
        env={**os.environ, "PYSPARK_PYTHON": ours, "PYSPARK_DRIVER_PYTHON": ours},
        cwd=home,
        stdout=subprocess.PIPE,
        text=True,
    )
    if told.returncode:
        sys.exit(f"The job failed on {python} with PySpark {release}: see above.")
    if not told.stdout.startswith(str(home)):
        sys.exit(f"The job ran another package: {told.stdout}")
    print(told.stdout.strip())


if __name__ == "__main__":
    main()
