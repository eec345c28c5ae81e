"""The option ``budget``: what is refused, before any work."""

from __future__ import annotations

import functools
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import pillarbox as pb


async def call(row: Any) -> int:
    return 1


def refused(make: Any) -> str:
    with pytest.raises(pb.InvalidOption) as raised:
        make()
    return str(raised.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "EMPTY_BUDGET"),
        ({"max_usage": {}}, "EMPTY_BUDGET"),
        ({"max_failed": 5.0}, "budget.max_failed must be a whole number of rows, or a share"),
        ({"max_failed": True}, "budget.max_failed"),
        ({"max_failed": -1}, "budget.max_failed"),
        ({"max_calls": 0}, "budget.max_calls must be a whole number from 1"),
        ({"max_calls": 1.5}, "budget.max_calls"),
        ({"max_usage": {"calls": 3}}, 'not "calls" or "rows", which max_calls bounds'),
        ({"max_usage": {"usd": 0}}, "budget.max_usage must be positive finite amounts"),
        ({"max_usage": {"usd": float("inf")}}, "budget.max_usage"),
        ({"max_usage": {"usd": 10**400}}, "budget.max_usage"),
        ({"max_usage": {"usd": Decimal("1e-400")}}, "budget.max_usage"),
        ({"max_usage": {"usd": Decimal("nan")}}, "budget.max_usage"),
        ({"max_usage": ["usd"]}, "budget.max_usage"),
        ({"max_calls": 1, "on_exceeded": "stop"}, 'budget.on_exceeded must be one of "raise"'),
        ({"max_calls": 1, "name": ""}, "budget.name"),
        ({"max_requests": 1}, "Meant is max_calls."),
        ({"max_calls": 1, "keep": ""}, "budget.keep must be the path of a folder"),
        ({"max_calls": 1, "keep": 5}, "budget.keep must be the path of a folder"),
        ({"max_calls": 1, "keep": Path("s3a://b/c")}, "a str where the path has a scheme"),
        ({"max_calls": 1, "keep": "/b", "name": "x"}, "leave the name out"),
        ({"max_failed": 1, "keep": "/b"}, "max_failed counts in each run"),
    ],
)
def test_amounts_are_checked_when_it_is_made(options: dict[str, Any], told: str) -> None:
    assert told in refused(lambda: pb.Budget(**options))


def test_money_may_be_a_decimal() -> None:
    assert pb.Budget(max_usage={"usd": Decimal("0.5")})._to_spec()["max_usage"] == {"usd": 0.5}
    assert "budget.max_usage" in refused(lambda: pb.Budget(max_usage={"usd": Decimal("Infinity")}))


@pytest.mark.parametrize("most", [0, 100, 0.0, 0.02])
def test_rows_that_may_fail_are_a_number_or_a_share(most: float) -> None:
    spec = pb.Budget(max_failed=most)._to_spec()
    rows, share = (most, None) if isinstance(most, int) else (None, most)
    assert (spec["max_failed_rows"], spec["max_failed_share"]) == (rows, share)


def test_it_is_a_value() -> None:
    given = {"usd": 20}
    budget = pb.Budget(max_usage=given, name="all")
    given["usd"] = 1000
    assert budget.max_usage == {"usd": 20}
    assert pickle.loads(pickle.dumps(budget)) == budget
    assert len({budget, pb.Budget(max_usage={"usd": 20}, name="all")}) == 1


def harness(**options: Any) -> Any:
    return pb.testing.AsyncHarness(call, schema="id int", returns="n int", **options)


def test_it_must_mean_something_with_on_error_and_the_engine() -> None:
    skips = pb.Budget(max_calls=1, on_exceeded="skip")
    assert "budget.on_exceeded='skip' has no meaning with on_error=\"raise\"" in refused(
        lambda: harness(budget=skips)
    )
    assert "the first row that fails ends the job" in refused(
        lambda: pb.async_udf(call, returns="int", budget=pb.Budget(max_failed=3))
    )
    assert "budget can't be kept by engine" in refused(
        lambda: harness(budget=pb.Budget(max_calls=1), engine="python")
    )
    assert "HARNESS_NEEDS_SPARK" in refused(lambda: harness(budget=pb.Budget(max_calls=1)))
    assert "must be a pb.Budget" in refused(lambda: harness(budget=100))


def test_its_units_are_units_of_the_operator() -> None:
    from pillarbox._async.options import AsyncOptions

    budget = pb.Budget(max_usage={"usd": 20, "tokens": 5})
    options = AsyncOptions.of("n", {"usage": ("tokens", "pages"), "budget": budget})
    assert options.units == ("tokens", "pages", "usd")


def test_functions_that_make_no_calls_say_that_they_have_none() -> None:
    options: dict[str, Any] = {"by": "k", "returns": "n int", "budget": pb.Budget(max_calls=1)}
    for plain in (pb.process_keyed, pb.process_keyed_arrow):
        function: Any = plain
        told = refused(functools.partial(function, None, None, **options))
        assert "makes no calls; use pb.process_keyed_async" in told
