"""``spark-submit`` to YARN as the docs say, with Python from an archive; ``make test-yarn``."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

import pillarbox as pb
from java_jars import listed_jars
from pillarbox._driver.jars import find_jar
from python_archive import python_archive
from spark_apps import app_text, environment
from spark_support import eventually

pytestmark = pytest.mark.yarn

HERE = Path(__file__).parent
PYSPARK = Path(pyspark.__file__).parent

# The application below is sent as text; this name is its own.
build: Any = None


def shipped(file):  # type: ignore[no-untyped-def]
    spark = pb.configure(build({})).getOrCreate()

    def told():
        import pyarrow

        files = [sys.executable, pyarrow.__file__, pb.__file__]
        return {"files": [os.path.relpath(file, os.getcwd()) for file in files]}

    async def where(row):
        await asyncio.sleep(0)
        return told()

    class Where(pb.KeyedProcessFunction):
        def process(self, row, ctx):
            yield told()

    df = spark.range(0, 20, 1, 2)
    calls = df.transform(pb.async_io, where, returns="files array<string>", engine="jvm")
    keyed = df.transform(pb.process_keyed, Where(), by="id", returns="files array<string>")
    answer = {
        "driver": [sys.executable, pb.__file__],
        "calls": [row.files for row in calls.collect()],
        "keyed": [row.files for row in keyed.collect()],
    }
    with open(file, "w") as out:
        json.dump(answer, out)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folder with the settings of a cluster."""
    folder = tmp_path_factory.mktemp("yarn")
    hadoop = [*listed_jars("miniCluster"), *listed_jars("yarn"), f"{PYSPARK}/jars/*"]
    path = os.pathsep.join(hadoop)
    start = ["java", "-cp", path, str(HERE / "yarn/MiniYarn.java"), str(folder / "conf")]
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        yarn = subprocess.Popen(start, cwd=folder, stdin=subprocess.PIPE, stdout=out, stderr=err)

    def is_there() -> bool:
        errors = (folder / "err").read_text()
        assert "Exception in" not in errors, errors[-3000:]
        return "ready" in (folder / "out").read_text()

    try:
        eventually(is_there, "YARN", limit_s=120)
        yield str(folder / "conf")
    finally:
        yarn.kill()
        yarn.communicate()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_archive(tmp_path_factory.mktemp("archive"))


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_jar_and_python_come_with_the_application(
    settings: str, archive: Path, tmp_path: Path, mode: str
) -> None:
    script, answer = tmp_path / "app.py", tmp_path / "answer"
    script.write_text(app_text(shipped, str(answer)))
    conf = {
        "spark.driver.memory": "600m",
        "spark.executor.memory": "600m",
        "spark.executor.instances": "2",
        "spark.yarn.am.memory": "512m",
        "spark.yarn.stagingDir": f"file://{tmp_path}/staging",
    }
    command = [str(PYSPARK / "bin/spark-submit"), "--master", "yarn", "--deploy-mode", mode]
    command += [part for one in conf.items() for part in ("--conf", "=".join(one))]
    command += ["--jars", find_jar(), "--archives", f"{archive}#environment"]
    env = environment(None) | {"HADOOP_CONF_DIR": settings, "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"PYSPARK_PYTHON": "./environment/bin/python", "SPARK_LOCAL_HOSTNAME": "localhost"}
    if mode == "cluster":
        del env["PYSPARK_DRIVER_PYTHON"]
        command += ["--py-files", find_jar()]
    done = subprocess.run(
        [*command, str(script)], env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(answer.read_text())
    jar = Path(find_jar()).name
    assert len(found["calls"]) == len(found["keyed"]) == 20
    for python, pyarrow, pillarbox in found["calls"] + found["keyed"]:
        assert python == "environment/bin/python"
        assert pyarrow.startswith("environment/lib/")
        assert pillarbox == f"{jar}/pillarbox/__init__.py"
    if mode == "client":
        here = [sys.executable, pb.__file__]
        assert [*map(os.path.normpath, found["driver"])] == [*map(os.path.normpath, here)]
    else:
        assert found["driver"][0].endswith("/environment/bin/python")
        assert f"/{jar}/" in found["driver"][1]
