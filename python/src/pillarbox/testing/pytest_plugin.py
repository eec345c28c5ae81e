"""Fixtures for pytest, loaded when asked for::

    pytest -p pillarbox.testing.pytest_plugin

or, in the ``conftest.py`` at the root of the tests::

    pytest_plugins = ["pillarbox.testing.pytest_plugin"]

- ``keyed_harness``, ``async_keyed_harness``: called as the classes of these names; what they make
  is closed at the end of the test.
- ``served``: called with a :class:`FakeService`, gives the URL of its server, which is closed at
  the end of the test.
- ``pillarbox_call``: the test runs under :func:`call`, and the fixture is that :class:`Call`.
- ``pillarbox_spark``: a session with two local threads and the jar, one for all tests, without UI.
  ``pillarbox_spark_conf`` gives settings for it as a dict, none by default: a fixture of that name
  and of scope "session" in a ``conftest.py`` overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

from . import AsyncKeyedHarness, FakeService, KeyedHarness, call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .._metered.calls import Call


@pytest.fixture
def keyed_harness() -> Iterator[Callable[..., KeyedHarness]]:
    """Makes :class:`KeyedHarness` objects."""
    with ExitStack() as opened:
        yield lambda *given, **options: opened.enter_context(
            closing(KeyedHarness(*given, **options))
        )


@pytest.fixture
def async_keyed_harness() -> Iterator[Callable[..., AsyncKeyedHarness]]:
    """Makes :class:`AsyncKeyedHarness` objects."""
    with ExitStack() as opened:
        yield lambda *given, **options: opened.enter_context(
            closing(AsyncKeyedHarness(*given, **options))
        )


@pytest.fixture
def served() -> Iterator[Callable[[FakeService], str]]:
    """Serves :class:`FakeService` objects over HTTP."""
    with ExitStack() as opened:
        yield lambda service: opened.enter_context(service.serve())


@pytest.fixture
def pillarbox_call() -> Iterator[Call]:
    """The current call of the test."""
    with call() as current:
        yield current


@pytest.fixture(scope="session")
def pillarbox_spark_conf() -> dict[str, Any]:
    """The settings of ``pillarbox_spark``, to be overridden."""
    return {}


@pytest.fixture(scope="session")
def pillarbox_spark(pillarbox_spark_conf: dict[str, Any]) -> Iterator[SparkSession]:
    """A local session with the jar."""
    from pyspark.sql import SparkSession

    from .._driver.configure import configure

    builder = SparkSession.builder.master("local[2]").appName("tests")
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    for name, value in {**settings, **pillarbox_spark_conf}.items():
        builder = builder.config(name, value)
    session = configure(builder).getOrCreate()
    yield session
    session.stop()
