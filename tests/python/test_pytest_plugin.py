"""The fixtures of pillarbox.testing.pytest_plugin, in a pytest of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import urllib.request

import pytest

import pillarbox as pb
from pillarbox.testing import FakeService

closed = []


class Counts(pb.KeyedProcessFunction):
    def open(self, ctx):
        self.n = ctx.value_state("n", "bigint")

    def process(self, row, ctx):
        self.n.update((self.n.value() or 0) + 1)
        yield (ctx.key, self.n.value())

    def close(self):
        closed.append("plain")


class Asks(pb.AsyncKeyedProcessFunction):
    async def process(self, row, ctx):
        return [(ctx.key, 7)]

    def close(self):
        closed.append("async")


COLUMNS = {"by": "k", "schema": "k string", "returns": "k string, n bigint"}


def test_harnesses(keyed_harness, async_keyed_harness):
    assert keyed_harness(Counts(), **COLUMNS).process(("a",))[0].n == 1
    assert async_keyed_harness(Asks(), **COLUMNS).process(("a",))[0].n == 7
    assert closed == []


def test_they_are_closed():
    assert closed == ["async", "plain"]


url = ""


def test_served(served):
    global url
    url = served(FakeService([1, 2]))
    assert urllib.request.urlopen(url).read() == b"[1, 2]"


def test_the_server_is_closed():
    with pytest.raises(OSError):
        urllib.request.urlopen(url)


def test_call(pillarbox_call):
    assert pb.call_id() == pillarbox_call.id == "test"


def test_outside_of_a_call():
    with pytest.raises(pb.NoCurrentCall):
        pb.call_id()
"""

SPARK_TESTS = """
import pillarbox as pb
import pytest


@pytest.fixture(scope="session")
def pillarbox_spark_conf():
    return {"spark.sql.session.timeZone": "Asia/Tokyo"}


async def double(row):
    return row.id * 2


def test_spark(pillarbox_spark):
    assert pillarbox_spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    rows = pillarbox_spark.range(3).transform(pb.async_io, double, returns="y long", engine="jvm")
    assert sorted(row.y for row in rows.collect()) == [0, 2, 4]
"""


def run(folder: Path, tests: str, *options: str) -> str:
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run([*command, "test_it.py"], cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_fixtures_are_there_when_the_plugin_is_asked_for(tmp_path):
    assert "6 passed" in run(tmp_path, TESTS, "-p", "pillarbox.testing.pytest_plugin")


def test_a_conftest_can_ask_for_them_and_they_are_not_there_otherwise(tmp_path):
    tests = "def test_call(pillarbox_call):\n    assert pillarbox_call.attempt == 1\n"
    assert "fixture 'pillarbox_call' not found" in run(tmp_path, tests)
    plugins = 'pytest_plugins = ["pillarbox.testing.pytest_plugin"]\n'
    (tmp_path / "conftest.py").write_text(plugins)
    assert "1 passed" in run(tmp_path, tests)


@pytest.mark.nightly
def test_a_session_of_spark_is_one_of_them(tmp_path):
    assert "1 passed" in run(tmp_path, SPARK_TESTS, "-p", "pillarbox.testing.pytest_plugin")
