"""Whether the jar of each line of Spark finds all that it names in every release of that line.

``python tools/link_check.py`` compares the jars in `target` with the lists in
`project/links`: what a jar names of other libraries, and each patch release of PySpark has. It
fails if a jar names more. ``--refresh`` downloads all releases of the lines from the package index,
looks each reference up in their jars, and writes the lists; it fails on what a release lacks and on
a class of ours that leaves a release's abstract method out. It needs some gigabytes of traffic.
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINKS = ROOT / "project" / "links"
ABSTRACT, INTERFACE, PRIVATE = 0x0400, 0x0200, 0x0002
SIZES = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}

Member = tuple[str, str]  # name and descriptor


@dataclass(frozen=True)
class ClassFile:
    """What of a class file other classes can name, and what it names."""

    name: str
    parents: tuple[str, ...]
    is_abstract: bool
    members: dict[Member, int]  # to access flags
    references: frozenset[str]


def read_class(data: bytes) -> ClassFile:
    """Follows chapter 4 of the Java Virtual Machine Specification."""
    pool, at = read_pool(data)
    flags, this, parent, count = struct.unpack_from(">HHHH", data, at)
    parents = struct.unpack_from(f">{count}H", data, at + 8)
    members: dict[Member, int] = {}
    at += 8 + 2 * count
    for _ in ("fields", "methods"):
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            access, name, descriptor, attributes = struct.unpack_from(">HHHH", data, at)
            members[text(pool, name), text(pool, descriptor)] = access
            at += 8
            for _ in range(attributes):
                at += 6 + struct.unpack_from(">I", data, at + 2)[0]
    return ClassFile(
        class_name(pool, this),
        tuple(class_name(pool, one) for one in (parent, *parents) if one),
        bool(flags & (ABSTRACT | INTERFACE)),
        members,
        frozenset(references(pool)),
    )


def read_pool(data: bytes) -> tuple[dict[int, tuple[int, bytes]], int]:
    """The constants by index, each with its tag; and where they end."""
    (count,) = struct.unpack_from(">H", data, 8)
    pool: dict[int, tuple[int, bytes]] = {}
    at, index = 10, 1
    while index < count:
        tag = data[at]
        size = 2 + struct.unpack_from(">H", data, at + 1)[0] if tag == 1 else SIZES[tag]
        pool[index] = (tag, data[at + 1 : at + 1 + size])
        at += 1 + size
        index += 2 if tag in (5, 6) else 1
    return pool, at


def references(pool: dict[int, tuple[int, bytes]]) -> Iterator[str]:
    """Classes as ``a/B``, their fields and methods as ``a/B.name descriptor``."""
    for tag, body in pool.values():
        if tag == 7:
            name = text(pool, struct.unpack(">H", body)[0])
            if not name.startswith("["):
                yield name
            elif name.endswith(";"):
                yield name.lstrip("[")[1:-1]
        elif tag in (9, 10, 11):
            owner, signature = struct.unpack(">HH", body)
            name, descriptor = struct.unpack(">HH", pool[signature][1])
            where = class_name(pool, owner)
            if not where.startswith("["):
                yield f"{where}.{text(pool, name)} {text(pool, descriptor)}"


def text(pool: dict[int, tuple[int, bytes]], index: int) -> str:
    return pool[index][1][2:].decode("utf-8", "surrogateescape")


def class_name(pool: dict[int, tuple[int, bytes]], index: int) -> str:
    return text(pool, struct.unpack(">H", pool[index][1])[0])


class Jars:
    """The classes of some jars, read when they are asked for."""

    def __init__(self, paths: list[Path]) -> None:
        self._where: dict[str, zipfile.ZipFile] = {}
        for archive in map(zipfile.ZipFile, paths):
            for name in archive.namelist():
                if name.endswith(".class") and not name.startswith("META-INF/"):
                    self._where.setdefault(name[:-6], archive)
        self._get = cache(self._read)

    @property
    def names(self) -> list[str]:
        return list(self._where)

    def get(self, name: str) -> ClassFile | None:
        return self._get(name)

    def _read(self, name: str) -> ClassFile | None:
        archive = self._where.get(name)
        return None if archive is None else read_class(archive.read(f"{name}.class"))


class World:
    """Our jar among those of a release; classes of the JDK count as complete. What is private in a
    class of theirs is not there: a method may become public within a line."""

    def __init__(self, ours: Jars, theirs: Jars) -> None:
        self._ours, self._theirs = ours, theirs

    def find(self, name: str) -> ClassFile | None:
        return self._ours.get(name) or self._theirs.get(name)

    def has(self, reference: str) -> bool:
        owner, _, signature = reference.partition(".")
        if not signature:
            return is_of_jdk(owner) or self.find(owner) is not None
        name, _, descriptor = signature.partition(" ")
        return self._inherits(owner, (name, descriptor))

    def _inherits(self, owner: str, member: Member) -> bool:
        if is_of_jdk(owner):
            return True
        found = self.find(owner)
        if found is None:
            return False
        is_ours = self._ours.get(owner) is not None
        return (
            (member in found.members and (is_ours or not found.members[member] & PRIVATE))
            or any(
                self._inherits(parent, member)
                for parent in found.parents
                if parent != "java/lang/Object"
            )
            or member in OBJECT
        )

    def left_out(self, name: str) -> list[str]:
        """The abstract methods that a class of ours, which is none itself, has no body for."""
        found = self.find(name)
        if found is None or found.is_abstract:
            return []
        missing = {m for one in self._lineage(name) for m, f in one.members.items() if f & ABSTRACT}
        there = {
            m for one in self._lineage(name) for m, f in one.members.items() if not f & ABSTRACT
        }
        return [f"{name}.{method} {of}" for method, of in sorted(missing - there - OBJECT)]

    def _lineage(self, name: str) -> Iterator[ClassFile]:
        found = self.find(name)
        if found is not None:
            yield found
            for parent in found.parents:
                yield from self._lineage(parent)


# Every interface has these too.
OBJECT = {
    ("equals", "(Ljava/lang/Object;)Z"),
    ("hashCode", "()I"),
    ("toString", "()Ljava/lang/String;"),
    ("getClass", "()Ljava/lang/Class;"),
    ("notify", "()V"),
    ("notifyAll", "()V"),
    ("wait", "()V"),
    ("wait", "(J)V"),
    ("wait", "(JI)V"),
    ("clone", "()Ljava/lang/Object;"),
    ("finalize", "()V"),
}


def is_of_jdk(name: str) -> bool:
    return name.startswith(("java/", "javax/", "jdk/", "sun/")) or name == ""


def named_by(jar: Jars) -> set[str]:
    """What the classes of a jar name of other libraries."""
    inside = set(jar.names)
    found: set[str] = set()
    for name in jar.names:
        one = jar.get(name)
        assert one is not None
        found |= one.references
    return {
        one
        for one in found
        if one.partition(".")[0] not in inside and not is_of_jdk(one.partition(".")[0])
    } | inherited(jar, found)


def inherited(jar: Jars, found: set[str]) -> set[str]:
    """What is named through a class of ours and stands in a parent of another library."""
    outside = set()
    for one in found:
        owner, _, signature = one.partition(".")
        if signature and jar.get(owner) and not World(jar, Jars([])).has(one):
            outside.add(one)
    return outside


def jar_of(line: str) -> Path | None:
    return max(
        (ROOT / "target").glob(f"pillarbox-spark_{line}-*.jar"),
        key=lambda jar: jar.stat().st_mtime,
        default=None,
    )


def lines() -> list[str]:
    text = (ROOT / "project" / "lines.properties").read_text()
    return re.findall(r"^([\d.]+)=", text, re.MULTILINE)


def check(line: str, jar: Path) -> list[str]:
    known = set((LINKS / f"{line}.txt").read_text().splitlines())
    return sorted(named_by(Jars([jar])) - known)


def refresh(line: str, jar: Path) -> list[str]:
    ours = Jars([jar])
    named = sorted(named_by(ours))
    problems, releases = [], releases_of(line)
    for release in releases:
        with tempfile.TemporaryDirectory(prefix="link-check-") as folder:
            world = World(ours, Jars(jars_of(release, Path(folder))))
            lacks = [one for one in named if not world.has(one)]
            lacks += [one for name in ours.names for one in world.left_out(name)]
        print(
            f"Spark {release}: {len(named)} references, {len(lacks)} of them not found", flush=True
        )
        problems += [f"Spark {release}: {one}" for one in lacks]
    if not problems:
        head = f"# What the jar for Spark {line} names; PySpark {' '.join(releases)} have it."
        LINKS.mkdir(exist_ok=True)
        (LINKS / f"{line}.txt").write_text("\n".join([head, *named]) + "\n")
    return problems


def releases_of(line: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "pip",
        "index",
        "versions",
        "pyspark",
        "--disable-pip-version-check",
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(
        rf"(?<![\d.]){re.escape(line)}\.\d+(?!\S*(?:dev|rc))", told.split("versions:")[1]
    )
    return sorted(set(found), key=lambda one: [int(part) for part in one.split(".")])


def jars_of(release: str, folder: Path) -> list[Path]:
    """The jars of a PySpark release, from its source archive."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        ":all:",
    ]
    subprocess.run(
        [*command, "--quiet", "--dest", str(folder), f"pyspark=={release}"],
        check=True,
        capture_output=True,
    )
    (archive,) = folder.glob("pyspark-*.tar.gz")
    with tarfile.open(archive) as tar:
        for member in tar:
            if re.search(r"/jars/[^/]+\.jar$", member.name) and member.isfile():
                member.name = Path(member.name).name
                tar.extract(member, folder)
    return sorted(folder.glob("*.jar"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", nargs="*", default=lines(), help="lines of Spark, all if none")
    parser.add_argument(
        "--refresh", action="store_true", help="download the releases and look again"
    )
    options = parser.parse_args()
    problems = 0
    for line in options.lines:
        jar = jar_of(line)
        if jar is None:
            print(f"Spark {line}: no jar in target (tools/build_line {line} makes it)")
            continue
        found = refresh(line, jar) if options.refresh else check(line, jar)
        print(f"Spark {line}: {len(found)} references of {jar.name} are not known to be there")
        for one in found:
            print(f"  {one}")
        problems += len(found)
    if problems and not options.refresh:
        print("`make link-check` looks them up in every release and renews project/links.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
