"""The halves of a ``pb.Ticketed`` in the worker, seen from the JVM's end of the socket."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, ClassVar

import pytest

import pillarbox as pb
from worker.driver import name_of, names_of

ONE = pb.Ticketed(lambda row: f"t{row.x}", lambda ticket: None)


def tickets(worker: Any) -> list[tuple[int, int, int, int, str]]:
    """The next frame, of tickets: id, attempt, place, of, text."""
    kind, body = worker.receive()
    assert kind == "Q", (kind, body)
    (count,), at, found = struct.unpack_from("<I", body), 4, []
    for _ in range(count):
        *numbers, size = struct.unpack_from("<qiiiI", body, at)
        at += 24
        found.append((*numbers, body[at : at + size].decode()))
        at += size
    assert at == len(body)
    return found


def ask(worker: Any, ticket: str, ids: list[int], places: list[int], of: int) -> None:
    """COLLECT, in the second attempt."""
    n, text = len(ids), ticket.encode()
    keys = struct.pack(f"<I{n}q{n}i", n, *ids, *[2] * n)
    end = struct.pack(f"<{n}iII", *places, of, len(text)) + text
    worker.send(b"K", keys + names_of(ids) + end)


def test_a_row_is_submitted_and_its_ticket_collected_until_there_is_an_answer(worker):
    calls = iter([None, {"y": 7}])
    seen = []

    def collect(ticket):
        seen.append(ticket)
        return next(calls)

    worker.start(pb.Ticketed(ONE.submit, Local(collect)), journaled=True)
    worker.call(5, ids=[9])
    assert tickets(worker) == [(9, 1, 0, 1, "t5")]
    ask(worker, "t5", [9], [0], 1)
    assert tickets(worker) == [(9, 2, 0, 0, "")]
    ask(worker, "t5", [9], [0], 1)
    assert worker.collect(1) == {9: [(7,)]}
    assert seen == ["t5", "t5"]


class Local:
    """A function that is pickled by reference to this process's object."""

    kept: ClassVar[dict[int, Any]] = {}

    def __init__(self, function: Any) -> None:
        self.kept[id(function)] = function
        self.key = id(function)

    def __call__(self, argument: Any) -> Any:
        return self.kept[self.key](argument)


def test_a_list_has_one_ticket_and_one_key_and_a_part_of_it_its_places(worker):
    async def submit(rows):
        assert pb.current_call().ids == [name_of(row.x) for row in rows]
        return pb.current_call().id

    worker.start(pb.Ticketed(submit, lambda ticket: [10, 11, 12]), batch_size=3, journaled=True)
    worker.group(0, 1, 2)
    ids = "\n".join(map(name_of, range(3)))
    key = hashlib.sha256(ids.encode()).hexdigest()[:32]
    assert tickets(worker) == [(n, 1, n, 3, key) for n in range(3)]
    ask(worker, key, [7, 8], [2, 0], 3)
    assert worker.collect(2) == {7: [(12,)], 8: [(10,)]}
    worker.group(2, 1, 0, ids=[2, 1, 0])
    assert key not in {ticket for *_, ticket in tickets(worker)}, "another order is another job"


def test_tickets_of_another_batch_size_are_collected(worker):
    worker.start(pb.Ticketed(ONE.submit, lambda ticket: [10, 11, 12]), journaled=True)
    ask(worker, "of a list", [7, 8], [2, 0], 3)
    assert worker.collect(2) == {7: [(12,)], 8: [(10,)]}
    ask(worker, "of a list", [9], [1], 3)
    assert worker.collect(1) == {9: [(11,)]}


def test_rows_that_ask_the_same_have_the_answer_of_their_ticket(worker):
    worker.start(pb.Ticketed(ONE.submit, lambda ticket: 5), journaled=True)
    ask(worker, "of one row", [1, 2], [0, 0], 1)
    assert worker.collect(2) == {1: [(5,)], 2: [(5,)]}


def test_a_list_whose_ticket_has_failed_may_return_one_exception(worker):
    worker.start(
        pb.Ticketed(lambda rows: "t", lambda ticket: TimeoutError("of the job")),
        batch_size=2,
        journaled=True,
    )
    ask(worker, "t", [1, 2], [0, 1], 2)
    assert {one["kind"] for one in worker.collect(2).values()} == {"TimeoutError"}


@pytest.mark.parametrize("batch_size", [None, 1])
def test_what_collect_returns_and_raises_ends_the_ticket_or_does_not(worker, batch_size):
    def flags(ticket: str) -> tuple[str, int]:
        ask(worker, ticket, [0], [0], 1)
        kind, body = worker.receive_raw()
        assert kind == "F"
        (flags,) = struct.unpack_from("<B", body, 16)
        (size,) = struct.unpack_from("<I", body, 25)
        return body[29 : 29 + size].decode(), flags

    def collect(ticket):
        if ticket == "returned":
            bad = TimeoutError("of the job")
            return bad if batch_size is None else [bad]
        raise {"bug": KeyError("x"), "over": pb.NotRetryable("x"), "late": TimeoutError("x")}[
            ticket
        ]

    retry = pb.Retry(3)
    worker.start(
        pb.Ticketed(lambda row: "t", collect), batch_size=batch_size, retry=retry, journaled=True
    )
    assert flags("returned") == ("TimeoutError", 9)
    assert flags("bug") == ("KeyError", 0)
    assert flags("over") == ("NotRetryable", 8)
    assert flags("late") == ("TimeoutError", 1)


@pytest.mark.parametrize("ticket", [None, "", 7, ["t"], "\ud800"])
def test_a_ticket_is_a_text(worker, ticket):
    worker.start(pb.Ticketed(lambda row: ticket, ONE.collect), journaled=True)
    worker.call(1)
    failure = worker.collect(1)[0]
    assert (failure["kind"], failure["retryable"]) == ("NO_TICKET", False)
    assert failure["traceback"] == ""
