"""What a worker keeps for its next tasks, and for how long."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from pyspark.core.broadcast import Broadcast, _broadcastRegistry

from pillarbox._worker.lru_cache import FunctionKey, LruCache
from pillarbox._worker.process import WorkerProcess

MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_broadcasts():
    _broadcastRegistry.clear()
    yield
    _broadcastRegistry.clear()


def broadcast(path, bid, size=MIB):
    path.write_bytes(b"x" * size)
    _broadcastRegistry[bid] = Broadcast(path=str(path))
    return path


def key_of(path, bid, size=MIB):
    """The key of a task with this broadcast, which the next task does not have any more."""
    broadcast(path, bid, size)
    key = FunctionKey.of(b"function")
    _broadcastRegistry.pop(bid)
    return key


def test_functions_differ_by_what_is_pickled_and_by_the_files_of_their_broadcasts(tmp_path):
    plain = FunctionKey.of(b"one")
    assert plain == FunctionKey.of(b"one") != FunctionKey.of(b"two")
    broadcast(tmp_path / "a", 1)
    first = FunctionKey.of(b"one")
    assert first != plain
    broadcast(tmp_path / "b", 1)
    assert FunctionKey.of(b"one") != first
    assert first.size() == MIB


def test_the_ones_unused_for_longest_make_room_by_number_and_by_bytes(tmp_path):
    kept = LruCache(most=3, most_bytes=10 * MIB)
    keys = [key_of(tmp_path / str(i), i) for i in range(5)]
    for index, key in enumerate(keys[:4]):
        kept.put(key, key, 0, index)
    assert kept.get(keys[0]) == 0
    assert kept.has_surplus()
    assert kept.take_surplus() == [1]
    assert not kept.has_surplus()
    kept.put(keys[4], keys[4], 8 * MIB, 4)
    assert kept.take_surplus() == [2, 3]
    assert (kept.get(keys[0]), kept.get(keys[4]), kept.bytes) == (0, 4, 10 * MIB)


def test_the_one_used_last_is_kept_whatever_its_size(tmp_path):
    kept = LruCache(most=3, most_bytes=MIB)
    for index, bid in enumerate((1, 2)):
        key = key_of(tmp_path / str(bid), bid, 5 * MIB)
        kept.put(key, key, 0, index)
    assert kept.take_surplus() == [0]
    assert kept.take_surplus() == []
    assert kept.take_all() == [1]
    assert kept.bytes == 0


def test_what_belongs_to_a_destroyed_broadcast_goes_at_once(tmp_path):
    kept = LruCache(most=10)
    alive, dead = key_of(tmp_path / "a", 1), key_of(tmp_path / "b", 2)
    plain = FunctionKey.of(b"no broadcast")
    for key in (alive, dead, plain):
        kept.put(key, key, 0, key)
    assert kept.take_surplus() == []
    (tmp_path / "b").unlink()
    assert kept.take_surplus() == [dead]


def test_a_broadcast_without_a_file_lives_as_long_as_a_task_has_it(tmp_path):
    kept = LruCache(most=10)
    one = Broadcast(path=str(tmp_path / "none"))
    del one._path  # as where Spark encrypts it: the value came over a socket
    _broadcastRegistry[7] = one
    key = FunctionKey.of(b"function")
    kept.put(key, key, 0, "thing")
    assert kept.take_surplus() == []
    _broadcastRegistry.pop(7)
    assert kept.take_surplus() == ["thing"]


class Payload:
    """What a function has captured."""


def test_a_worker_frees_functions_that_it_keeps_no_more(tmp_path, monkeypatch):
    payloads = []

    def load(pickled, kind):
        command = Payload()
        payloads.append(weakref.ref(command))
        command.itself = command  # as a session and its function refer to each other
        return command

    monkeypatch.setattr("pillarbox._worker.process.load", load)
    process = WorkerProcess()
    gc.disable()
    try:
        for bid in range(4):
            path = broadcast(tmp_path / str(bid), bid, 2 * MIB)
            process.command(FunctionKey.of(b"function"), b"function")
            assert process.needs_room() == (bid > 0)
            process.loop.run_until_complete(process.make_room())
            _broadcastRegistry.clear()
            path.unlink()
        assert [one() is None for one in payloads] == [True, True, True, False]
    finally:
        gc.enable()
        process.loop.close()


def test_a_resource_that_has_ended_by_itself_is_opened_anew(tmp_path):
    process = WorkerProcess()
    opened = []

    class Client:
        async def __aenter__(self):
            opened.append(self)
            return self

        async def __aexit__(self, *error):
            pass

    async def scenario():
        key = FunctionKey.of(b"function")
        first, _ = await process.resource(key, 0, Client)
        assert (await process.resource(key, 0, Client))[0] is first
        (holder,) = process._resources.take_all()
        process._resources.put(key, key, 0, holder)
        holder._task.cancel()  # as a function does that cancels all tasks there are
        await asyncio.wait([holder._task])
        again, _ = await process.resource(key, 0, Client)
        assert again is not first
        assert opened == [first, again]
        await process._close()

    process.loop.run_until_complete(scenario())
    process.loop.close()
