"""Resources: opened once a worker, in the worker; closed at its end."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

EVENTS: list[str] = []


@pytest.fixture(autouse=True)
def events():
    EVENTS.clear()


def record(event: str) -> None:
    EVENTS.append(event)


@contextlib.asynccontextmanager
async def client():
    entered_by = asyncio.current_task()
    record("open")
    yield "client"
    assert asyncio.current_task() is entered_by
    record("close")


@contextlib.contextmanager
def plain_client():
    record("open")
    yield "plain"
    record("close")


async def use(row, resource):
    return f"{resource} {row.x}"


@pytest.mark.parametrize(("factory", "name"), [(client, "client"), (plain_client, "plain")])
def test_a_resource_is_opened_once_for_many_tasks_and_closed_with_the_worker(worker, factory, name):
    for task in range(3):
        worker.start(use, "y string", resource=factory)
        worker.call(task)
        assert worker.collect(1) == {0: [(f"{name} {task}",)]}
        assert worker.end()
    assert EVENTS == ["open"]
    worker.close()
    assert EVENTS == ["open", "close"]


def test_a_resource_is_closed_if_the_jvm_goes_away_within_a_task(worker):
    worker.start(use, "y string", resource=client)
    worker.close()
    assert EVENTS == ["open", "close"]


def test_functions_in_threads_and_of_the_batch_form_get_the_resource(worker):
    def in_thread(row, resource):
        return f"{resource} {row.x}"

    async def batch(rows, resource):
        return [f"{resource} {row.x}" for row in rows]

    worker.start(in_thread, "y string", resource=client)
    worker.call(1)
    assert worker.collect(1) == {0: [("client 1",)]}
    assert worker.end()
    worker.start(batch, "y string", resource=client, batch_size=2)
    worker.group(1, 2)
    assert worker.collect(2) == {0: [("client 1",)], 1: [("client 2",)]}


def test_other_functions_have_resources_of_their_own(worker):
    for turn in range(20):

        async def numbered(row, resource, turn=turn):
            return turn

        worker.start(numbered, resource=client)
        worker.call(0)
        assert worker.collect(1) == {0: [(turn,)]}
        assert worker.end()
    # At most 16 are kept; those unused for longest have been closed.
    assert (EVENTS.count("open"), EVENTS.count("close")) == (20, 4)


class FailsToOpen:
    async def __aenter__(self):
        raise ConnectionRefusedError("nobody there")

    async def __aexit__(self, *_):
        record("close")


def fails_at_once():
    raise ConnectionRefusedError("nobody there")


@pytest.mark.parametrize("factory", [FailsToOpen, fails_at_once])
def test_a_resource_that_fails_to_open_is_told_with_its_name_and_reason(worker, factory):
    worker.init(use, "y string", resource=factory)
    kind, fatal = worker.receive()
    assert (kind, fatal["condition"]) == ("T", "RESOURCE_OPEN_FAILED")
    assert f"{factory.__name__} failed to open with ConnectionRefusedError" in fatal["text"]
    assert "nobody there" in fatal["traceback"]
    assert "_worker" not in fatal["traceback"]
    assert worker.join() == -1
    assert EVENTS == []


def no_manager():
    return 5


async def coroutine():
    return 5


@pytest.mark.parametrize("factory", [no_manager, coroutine])
def test_what_is_no_context_manager_is_told(worker, factory):
    worker.init(use, "y string", resource=factory)
    kind, fatal = worker.receive()
    assert (kind, fatal["condition"]) == ("T", "RESOURCE_NOT_CONTEXT_MANAGER")
    assert factory.__name__ in fatal["text"]
    assert worker.join() == -1


class HangsOnClose:
    async def __aenter__(self):
        return "x"

    async def __aexit__(self, *_):
        record("closing")
        await asyncio.Event().wait()


def test_a_resource_that_hangs_on_close_does_not_hold_the_worker(worker, monkeypatch):
    monkeypatch.setattr("pillarbox._worker.process._CLOSE_LIMIT_S", 0.3)
    worker.start(use, "y string", resource=HangsOnClose)
    assert worker.end()
    worker.close()
    assert EVENTS == ["closing"]
