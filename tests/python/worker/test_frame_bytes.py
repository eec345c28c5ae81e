"""Frames of the worker are cut by bytes, and one answer beyond the limit fails alone."""

from __future__ import annotations

SMALL = {"cut": 1000, "most": 3000}


async def times_100(row):
    return "x" * (row.x * 100)


def test_answers_that_end_together_are_cut_by_bytes(worker):
    worker.start(times_100, "y string", frame_bytes=SMALL)
    worker.call(*[3] * 40)
    frames, outcomes = 0, {}
    while len(outcomes) < 40:
        kind, body = worker.receive()
        assert kind == "R"
        assert sum(len(answer[0][0]) for _, _, answer in body) <= 1000
        outcomes.update({element: answer for element, _, answer in body})
        frames += 1
    assert frames >= 12
    assert outcomes == {i: [("x" * 300,)] for i in range(40)}


def test_an_answer_that_is_too_large_is_that_rows_failure_and_nobody_elses(worker):
    worker.start(times_100, "y string", frame_bytes=SMALL)
    worker.call(1, 40, 2, 20)
    outcomes = worker.collect(4)
    failure = outcomes.pop(1)
    assert outcomes == {0: [("x" * 100,)], 2: [("x" * 200,)], 3: [("x" * 2000,)]}
    assert failure["kind"] == "RESULT_TOO_LARGE"
    assert "3,000 bytes" in failure["message"]
    assert not failure["retryable"]


def test_a_group_that_comes_in_parts_is_one_call(worker):
    async def sizes(rows):
        return [len(rows)] * len(rows)

    worker.start(sizes, batch_size=100)
    worker.send(b"P", worker._calls((1, 2, 3), [0, 1, 2], 1))
    worker.send(b"P", worker._calls((4,), [3], 1))
    worker.group(5, 6, ids=[4, 5])
    assert worker.collect(6) == {i: [(6,)] for i in range(6)}
    worker.group(7, ids=[6])
    assert worker.collect(1) == {6: [(1,)]}
