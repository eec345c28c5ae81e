"""The options of ``pb.Ticketed``, without Spark."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import pillarbox as pb
from pillarbox._async.given import given_options
from pillarbox._async.options import AsyncOptions, refuse_for_python
from pillarbox._driver.async_io import _check_waits


def submit(row: Any) -> str:
    return str(row.id)


def collect(ticket: str) -> int:
    return int(ticket)


HALVES = pb.Ticketed(submit, collect)


def options(function: Any = HALVES, **more: Any) -> AsyncOptions:
    return given_options(function, {"journal": "/journal", "name": "n", **more})


def test_it_compares_by_value_and_can_be_pickled():
    assert pickle.loads(pickle.dumps(HALVES)) == HALVES == pb.Ticketed(submit, collect, poll="60s")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pb.Ticketed(submit, 7), "TICKETED_NOT_A_FUNCTION"),
        (
            lambda: pb.Ticketed(pb.JvmFunction("a.B"), collect),
            "TICKETED_NOT_A_FUNCTION.*JvmFunction",
        ),
        (lambda: pb.Ticketed(submit(type("R", (), {"id": 1})), collect), "TICKETED_NOT_A_FUNCTION"),
        (lambda: pb.Ticketed(submit, collect, poll="no"), "INVALID_DURATION.*poll"),
        (lambda: pb.Ticketed(submit, collect, on_pending="stay"), 'on_pending.*"wait", "leave"'),
        (lambda: pb.Ticketed(submit, collect, max_pending=0), "max_pending"),
        (lambda: pb.Ticketed(submit, collect, pol="1s"), "UNKNOWN_OPTION.*poll"),
        (lambda: options(resource=lambda: None), r"WRONG_PARAMETERS.*submit\(row, resource\)"),
        (lambda: options(pb.Ticketed(submit, lambda: 1)), r"TICKETED_WRONG_PARAMETERS.*\(ticket\)"),
        (lambda: options(journal=None), "TICKETED_WITHOUT_JOURNAL"),
        (lambda: options(name=None), "JOURNAL_WITHOUT_NAME"),
        (lambda: options(batch_size=100_001), r"batch_size must be at most max_pending \(100000\)"),
        (lambda: options(retry=pb.Retry(if_result=bool)), "retry.if_result.*pb.Ticketed"),
        (lambda: options(limit=pb.Limit(per_minute=5, key="id")), "limit.key.*pb.Ticketed"),
        (lambda: options(timeout="60s"), r"timeout must be longer than poll \(60000 ms\)"),
        (lambda: options(carry_over=True), r"carry_over.max_lag must be longer than poll"),
        (lambda: options(LEAVE), "on_pending='leave' has no meaning with on_error='raise'"),
        (lambda: options(LEAVE, on_error="null"), "OPTION_NEEDS_OTHER"),
        (lambda: refuse_for_python(options()), "OPTION_NEEDS_JVM_ENGINE.*pb.Ticketed"),
        (lambda: _check_waits(options()), "TICKETED_HOLDS_STREAM"),
        (lambda: pb.async_udf(HALVES, returns="int"), "NOT_A_FUNCTION_OF_VALUES"),
        (
            lambda: pb.testing.AsyncHarness(
                HALVES, schema="id long", returns="x long", journal="/journal", name="n"
            ),
            "HARNESS_NEEDS_SPARK.*pb.Ticketed",
        ),
    ],
)
def test_what_cannot_work_is_refused(make, message):
    with pytest.raises(pb.PillarboxError, match=message):
        make()


LEAVE = pb.Ticketed(submit, collect, on_pending="leave")


def test_a_stream_may_leave_what_is_pending_or_carry_it_over():
    _check_waits(options(LEAVE, on_error="column"))
    _check_waits(options(carry_over=pb.CarryOver(max_lag="25 hours")))


def test_rows_that_wait_are_many_and_calls_as_few_as_the_capacity():
    spec = options(capacity=7, batch_size=pb.BatchSize(5000)).to_spec()
    assert spec["figures"]["capacity"] == 100_000
    assert spec["ticketed"] == {"poll_ms": 60_000, "waits": True}
    company = spec["figures"]["batching"]
    assert company == {"size": 5000, "wait_ms": 60_000}, "company is worth as much as a poll"
    assert [(limit["concurrency"], limit["scope"]) for limit in spec["limits"]] == [(7, "task")]
    own = [pb.Limit(concurrency=5, scope="task"), pb.Limit(per_minute=100)]
    limits = options(capacity=7, limit=own).to_spec()["limits"]
    assert [limit["concurrency"] for limit in limits] == [5, None]


def test_without_tickets_nothing_changes():
    spec = options(submit, batch_size=5).to_spec()
    figures = spec["figures"]
    assert (figures["capacity"], spec["limits"], spec["ticketed"]) == (100, [], None)
    assert figures["batching"] == {"size": 5, "wait_ms": 10}
