"""Functions that estimate what a call will use, without Spark."""

from __future__ import annotations

import base64
import math
import os
import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql import Row

import pillarbox as pb
from pillarbox._async.estimators import check_estimators, estimator, udf_of
from pillarbox._async.options import AsyncOptions


def options(*estimates: Any, **more: Any) -> AsyncOptions:
    limits = tuple(
        pb.Limit(per_minute=100, per_day=1000, unit=f"unit {number}", estimate=estimate)
        for number, estimate in enumerate(estimates)
    )
    return AsyncOptions.of("f", {"limit": limits, **more})


def test_each_function_is_called_once_for_all_rates_of_its_limits() -> None:
    seen: list[Any] = []

    def size(row: Any) -> int:
        seen.append(row)
        return len(row)

    estimated = estimator(options(size, 5, size, lambda row: 2.5).estimators)
    assert estimated("abc") == ([3.0, 3.0, 3.0, 3.0, 2.5, 2.5], None, None)
    assert seen == ["abc"]


@pytest.mark.parametrize("amount", [None, -1, math.nan, math.inf, True, "7", "x", [1]])
def test_what_is_no_amount_is_told_with_the_name_of_the_function(amount: Any) -> None:
    def size(row: Any) -> Any:
        return amount

    amounts, what, _ = estimator([size])("row")
    assert amounts is None
    assert what is not None
    assert what.endswith((f"size returned {amount!r}", "or a real number, not 'list'"))


def test_an_exception_is_told_with_the_frames_of_the_user_alone() -> None:
    def inner(row: Any) -> int:
        return int(row["prompt"])

    amounts, what, trace = estimator([lambda row: inner(row)])({})
    assert amounts is None
    assert what is not None
    assert what.endswith("<lambda> raised KeyError: 'prompt'")
    assert trace is not None
    assert trace.count("Traceback") == 1
    assert "in inner" in trace
    assert "in estimated" not in trace


class Odd:
    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def __float__(self) -> float:
        return -1.0

    def __repr__(self) -> str:
        raise self.problem


@pytest.mark.parametrize("problem", [RuntimeError("no text"), SystemExit(3)])
def test_a_value_that_can_not_be_shown_and_an_exit_fail_the_row_alone(
    problem: BaseException,
) -> None:
    def leave(row: Any) -> int:
        raise problem

    for function in (leave, lambda row: Odd(problem)):
        amounts, what, trace = estimator([function])("row")
        assert amounts is None
        assert what is not None
        assert f"raised {type(problem).__name__}: {problem}" in what
        assert trace is not None
        assert "Traceback" in trace


def test_binary_values_are_bytes_as_the_operators_function_has_them() -> None:
    seen: list[Any] = []

    def size(*values: Any, **by_name: Any) -> int:
        seen.extend([*values, *by_name.values()])
        return 1

    row = Row("id", "a b", "id")(1, bytearray(b"x"), None)
    assert estimator([size])(row, bytearray(b"y"), named=bytearray(b"z"))[0] == [1.0]
    assert seen == [Row("id", "a b", "id")(1, b"x", None), b"y", b"z"]
    assert [type(seen[0][1]), type(seen[1]), type(seen[2])] == [bytes] * 3
    assert list(seen[0].__fields__) == ["id", "a b", "id"]


def test_the_udf_needs_no_pillarbox_where_it_is_called() -> None:
    made = udf_of(options(len))
    assert made is not None
    program = f"""
import base64, sys
from pyspark import cloudpickle
sys.modules["pillarbox"] = None
function, kind = cloudpickle.loads(base64.b64decode({made!r}))
assert function("abcd") == ([4.0, 4.0], None, None), function("abcd")
assert kind.names == ["amounts", "what", "traceback"]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_udf_that_would_not_fit_into_an_expression_is_refused() -> None:
    data = bytes(100_000)
    made = options(lambda row: len(data))
    assert len(base64.b64decode(udf_of(made) or "")) > 100_000
    with pytest.raises(pb.InvalidOption, match=r"limit\.estimate must be at most 5000 bytes"):
        udf_of(made, 5000)
    assert udf_of(options(5)) is None
    large = options(lambda row: len(noise))
    noise = os.urandom(13 << 20)
    with pytest.raises(pb.InvalidOption, match=r"limit\.estimate must be at most 16777216 bytes"):
        udf_of(large)


async def later(row: Any) -> int:
    return 1


@pytest.mark.parametrize(
    ("function", "condition"),
    [
        (later, "ESTIMATE_NOT_A_FUNCTION.*the coroutine later"),
        (dict, "ESTIMATE_NOT_A_FUNCTION.*the class dict"),
        (lambda: 1, "ESTIMATE_WRONG_PARAMETERS"),
        (lambda a, b: 1, r"can't be called as .*\(row\)\. .*one row, also with batch_size"),
    ],
)
def test_a_function_that_can_not_be_called_with_a_row_is_refused(
    function: Any, condition: str
) -> None:
    with pytest.raises(pb.InvalidFunction, match=condition):
        check_estimators(options(function))


def test_a_limit_of_each_key_is_none_that_a_pause_could_hold_back() -> None:
    of_key = pb.Limit(concurrency=1, scope="key")
    assert not AsyncOptions.of("f", {"by": "k", "limit": of_key}).has_limits
    both = (of_key, pb.Limit(concurrency=9))
    assert AsyncOptions.of("f", {"by": "k", "limit": both}).has_limits
