"""Stores checkpoints for the tests: ``python tools/store_checkpoints.py NAME [CHECKOUT]``.

Runs all steps but the last of the queries of `tests/python/stored_queries.py`, with the Pillarbox
of a checkout whose jar is built (this one by default), and packs each query's folder into
`tests/golden/checkpoints/NAME`, without its input. `tests/python/test_stored_checkpoints.py` goes
on with all of them. To be run when a format of files in checkpoints changes, and before a release.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "tests" / "golden" / "checkpoints"
STEPS = 4
CASES = [
    *(("keyed", backend, form) for backend in ("rocksdb", "heap") for form in "12"),
    ("scan", "rocksdb", "2"),
    ("scan", "heap", "1"),
    ("carry", "", "1"),
    ("carry", "", "2"),
    ("journal", "", ""),
]


def run(checkout: Path, folder: Path) -> None:
    settings = {
        "folder": str(folder),
        "steps": list(range(STEPS - 1)),
        "last": STEPS - 1,
        "jars": "",
    }
    subprocess.run(
        [sys.executable, ROOT / "tests/lines/app.py", json.dumps({**settings, "cases": CASES})],
        env={
            **os.environ,
            "PYTHONPATH": str(checkout / "python" / "src"),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
        },
        check=True,
    )


def pack(query: Path, target: Path) -> None:
    """In Spark's log of files, "{folder}" stands for the path of the query's folder."""
    with tarfile.open(target, "w:xz") as archive:
        for file in sorted(path for path in query.rglob("*") if path.is_file()):
            name = file.relative_to(query)
            if name.parts[0] == "in" or name.suffix == ".crc":
                continue
            content = file.read_bytes()
            if "sources" in name.parts:
                content = content.replace(str(query).encode(), b"{folder}")
            member = tarfile.TarInfo(str(name))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def main() -> None:
    name, checkout = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else ROOT).resolve()
    with tempfile.TemporaryDirectory(prefix="pillarbox") as made:
        folder = Path(made)
        run(checkout, folder)
        shutil.rmtree(STORED / name, ignore_errors=True)
        (STORED / name).mkdir(parents=True)
        for case in CASES:
            query = "-".join(part for part in case if part)
            if (folder / query / "failure").exists():
                print(f"{query}: {(folder / query / 'failure').read_text().splitlines()[-1]}")
            else:
                pack(folder / query, STORED / name / f"{query}.tar.xz")


if __name__ == "__main__":
    main()
