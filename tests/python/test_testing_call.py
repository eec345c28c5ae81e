"""The call of an asynchronous function in a plain unit test."""

import asyncio
from decimal import Decimal

import numpy as np
import pytest

import pillarbox as pb


async def charge(row):
    call = pb.current_call()
    in_thread = await asyncio.to_thread(pb.call_id)
    return row, pb.call_id(), in_thread, call.attempt, call.operator


def test_a_function_reads_its_call_in_a_unit_test():
    with pb.testing.call("order 7", attempt=2, operator="charges") as call:
        assert asyncio.run(charge(7)) == (7, "order 7", "order 7", 2, "charges")
        assert (call.id, call.ids) == ("order 7", ["order 7"])
    with pb.testing.call():
        assert asyncio.run(charge(8)) == (8, "test", "test", 1, "test")


def test_a_function_reports_what_it_uses_in_a_unit_test():
    with pb.testing.call(usage=["tokens", "usd"]) as call:
        pb.current_call().report_usage(tokens=900, usd=0.25)
        pb.current_call().report_usage(tokens=100)
        assert call.usage == {"tokens": 1000, "usd": 0.25}
    with pb.testing.call(["a", "b"], usage="tokens") as call:
        call.report_usage(tokens=[1, 2])
        call.report_usage(tokens=4)
        assert call.usage == {"tokens": 7}


def test_money_may_be_a_decimal():
    with pb.testing.call(usage="usd") as call:
        call.report_usage(usd=Decimal("0.25"))
        assert call.usage == {"usd": 0.25}
        for no_amount in ("NaN", "-1", "Infinity"):
            with pytest.raises(pb.InvalidOption, match="INVALID_USAGE"):
                call.report_usage(usd=Decimal(no_amount))


def test_numbers_of_numpy_are_amounts():
    with pb.testing.call(["a", "b"], usage="tokens") as call:
        call.report_usage(tokens=np.int64(3))
        call.report_usage(tokens=[np.float32(0.5), np.uint8(1)])
        assert call.usage == {"tokens": 4.5}
        for no_amount in (np.int8(-1), np.float32("nan"), np.float64("inf"), np.bool_(True)):
            with pytest.raises(pb.InvalidOption, match="INVALID_USAGE"):
                call.report_usage(tokens=no_amount)


def test_what_is_reported_when_the_attempt_has_ended_is_refused():
    kept = []

    async def ask(row):
        kept.append(pb.current_call())
        kept[-1].report_usage(usd=1)
        if row.fails:
            raise ValueError

    harness = pb.testing.AsyncHarness(
        ask, schema="fails boolean", returns="x int", usage="usd", on_error="column"
    )
    harness.run([(False,), (True,)])
    for call in kept:
        with pytest.raises(pb.NoCurrentCall, match=r"CALL_HAS_ENDED.*reported usd"):
            call.report_usage(usd=1)
        assert call.usage == {"usd": 1}


@pytest.mark.parametrize(
    ("id", "amounts", "told"),
    [
        ("a", {"token": 1}, r"UNKNOWN_UNIT.* of token, and the operator's units are: tokens\."),
        ("a", {"tokens": -1}, "must be a number, finite and from 0 on, but it is -1"),
        ("a", {"tokens": float("nan")}, "it is nan"),
        ("a", {"tokens": True}, "it is True"),
        ("a", {"tokens": 10**400}, "INVALID_USAGE"),
        (["a", "b"], {"tokens": [1e308, 1e308]}, "it is inf"),
        ("a", {"tokens": [1]}, "must be a number, finite"),
        (["a", "b", "c"], {"tokens": [1, 2]}, "a list of 3, one a row.* it is \\[1, 2\\]"),
        (["a", "b"], {"tokens": [1, None]}, "INVALID_USAGE"),
    ],
)
def test_what_is_no_use_is_refused(id, amounts, told):
    with pb.testing.call(id, usage="tokens") as call:
        with pytest.raises(pb.InvalidOption, match=told):
            call.report_usage(**amounts)
        assert call.usage == {}


@pytest.mark.parametrize("usage", ["", ["a", "a"], ["calls"], [3], 5, None, ["\0"]])
def test_units_that_are_none_are_refused(usage):
    with pytest.raises(pb.InvalidOption, match="usage"), pb.testing.call(usage=usage):
        pass


def test_a_call_of_a_list_has_the_ids_of_its_rows():
    with pb.testing.call(["a", "b"]):
        assert pb.current_call().ids == ["a", "b"]
        with pytest.raises(pb.NoCurrentCall, match="CALL_ID_OF_BATCH"):
            pb.call_id()


def test_outside_of_it_the_error_says_how_a_test_has_a_call():
    with pb.testing.call():
        pass
    with pytest.raises(pb.NoCurrentCall, match=r"NO_CALL.* under pb\.testing\.call\(\)"):
        pb.call_id()


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        ((5,), {}, "id"),
        ((["a", 5],), {}, "id"),
        (([],), {}, "id"),
        ((), {"attempt": 0}, "attempt"),
        ((), {"operator": ""}, "operator"),
        ((), {"name": "x"}, "pb.testing.call has no option name"),
    ],
)
def test_what_is_no_call_is_refused(arguments, options, named):
    with pytest.raises(pb.InvalidOption, match=named), pb.testing.call(*arguments, **options):
        pass


def test_a_sum_that_is_not_finite_is_refused():
    with pb.testing.call(usage="usd") as call:
        call.report_usage(usd=1e308)
        with pytest.raises(pb.InvalidOption, match=r"INVALID_USAGE.* it is inf"):
            call.report_usage(usd=1e308)
        assert call.usage == {"usd": 1e308}
