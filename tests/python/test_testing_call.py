"""The call of an asynchronous function in a plain unit test."""

import asyncio

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
