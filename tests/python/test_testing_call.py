"""The call of an asynchronous function in a plain unit test."""

import asyncio
import sys
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
        for no_amount in ("NaN", "sNaN", "-1", "Infinity"):
            with pytest.warns(UserWarning, match=r"INVALID_USAGE.* It counts as 0\.0\."):
                call.report_usage(usd=Decimal(no_amount))
        assert call.usage == {"usd": 0.25}


def test_numbers_of_numpy_are_amounts():
    with pb.testing.call(["a", "b"], usage="tokens") as call:
        call.report_usage(tokens=np.int64(3))
        call.report_usage(tokens=[np.float32(0.5), np.uint8(1)])
        assert call.usage == {"tokens": 4.5}
        for no_amount in (np.int8(-1), np.float32("nan"), np.float64("inf"), np.bool_(True)):
            with pytest.warns(UserWarning, match="INVALID_USAGE"):
                call.report_usage(tokens=no_amount)
        assert call.usage == {"tokens": 4.5}


def test_what_is_reported_when_the_attempt_has_ended_is_not_the_calls():
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
        with pytest.warns(UserWarning, match=r"CALL_HAS_ENDED.*reported usd"):
            call.report_usage(usd=1)
        assert call.usage == {"usd": 1}


@pytest.mark.parametrize(
    ("id", "amounts", "told", "counted"),
    [
        ("a", {"token": 1}, r"UNKNOWN_UNIT.* of token, and the operator's units are: tokens\.", 1),
        ("a", {"tokens": -1}, "must be a number, finite and from 0 on, but it is -1", 0),
        ("a", {"tokens": float("nan")}, r"it is nan\. It counts as 0", 0),
        ("a", {"tokens": True}, "it is True", 0),
        ("a", {"tokens": None}, "it is None", 0),
        ("a", {"tokens": "some"}, "it is 'some'", 0),
        ("a", {"tokens": " 1e2 "}, r"it is ' 1e2 '\. It counts as 100", 100),
        ("a", {"tokens": "nan"}, "it is 'nan'", 0),
        ("a", {"tokens": 10**400}, "INVALID_USAGE", 0),
        ("a", {"tokens": [1]}, "must be a number, finite", 1),
        (["a", "b", "c"], {"tokens": [1, 2]}, "a list of 3, one a row.* it is \\[1, 2\\]", 3),
        (["a", "b"], {"tokens": [1, None]}, "INVALID_USAGE", 1),
        (["a", "b"], {"tokens": []}, "INVALID_USAGE", 0),
    ],
)
def test_what_is_no_use_is_told_and_counted_where_it_can_be(id, amounts, told, counted):
    with pb.testing.call(id, usage="tokens") as call:
        with pytest.warns(UserWarning, match=told):
            call.report_usage(**amounts)
        assert list(call.usage.values()) == [counted]


@pytest.mark.parametrize("usage", ["", ["a", "a"], ["calls"], ["rows"], [3], 5, None, ["\0"]])
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


def test_a_sum_goes_up_to_the_largest_number():
    with pb.testing.call(["a", "b"], usage="usd") as call:
        call.report_usage(usd=[1e308, 1e308])
        call.report_usage(usd=1e308)
        assert call.usage == {"usd": sys.float_info.max}


@pytest.mark.filterwarnings("ignore:.*UNKNOWN_UNIT")
@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_report_that_cannot_be_counted_leaves_the_answer(batch_size):
    async def ask(row):
        pb.current_call().report_usage(usd=1, tokens=2)
        return [one.n for one in row] if batch_size else row.n

    harness = pb.testing.AsyncHarness(
        ask, schema="n int", returns="x int", usage="tokens", batch_size=batch_size,
        call_column="call",
    )  # fmt: skip
    rows = harness.run([(1,), (2,)])
    assert [row.x for row in rows] == [1, 2]
    share = 1 / (batch_size or 1)
    assert [row.call.usage for row in rows] == [{"usd": share, "tokens": 2 * share}] * 2
