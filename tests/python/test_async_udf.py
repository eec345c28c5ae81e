"""``pb.async_udf`` without Spark: its options, its type, its mark, ordinary calls."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

import pillarbox as pb
from pillarbox._arrow.schema import ERROR_TYPE
from pillarbox._base.functions import unpickled
from pillarbox._driver.marked import MARK


async def score(text: str) -> float:
    """Score a text."""
    await asyncio.sleep(0)
    return float(len(text))


@dataclass
class Place:
    name: str
    at: list[float]


async def pieces(text: str) -> AsyncIterator[float]:
    yield 1.0


class Pieces:
    def __call__(self, text: str) -> Iterator[float]:
        yield 1.0


async def no_type(a: int) -> complex: ...


@contextmanager
def prefix() -> Iterator[str]:
    yield "a "


def with_resource(opened: str, text: str) -> str:
    return opened + text


def test_it_is_a_decorator_and_a_function_and_looks_like_the_function() -> None:
    for made in (pb.async_udf(score), pb.async_udf()(score), pb.async_udf(name="score")(score)):
        assert (made.__name__, made.__doc__) == ("score", "Score a text.")
        assert made.__wrapped__ is score
        assert (repr(made), made.returnType) == ("async_udf(score)", DoubleType())


def test_the_type_is_told_by_returns_or_by_the_annotation() -> None:
    async def place(a: Any) -> Place | None: ...

    async def bare(a): ...  # type: ignore[no-untyped-def]

    struct = StructType().add("temp", DoubleType()).add("wind", DoubleType())
    for given, data_type in [
        ("double", DoubleType()),
        (LongType(), LongType()),
        ("temp double, wind double", struct),
        (int, LongType()),
    ]:
        assert pb.async_udf(bare, returns=given).returnType == data_type
    assert pb.async_udf(place).returnType.simpleString() == "struct<name:string,at:array<double>>"
    assert pb.async_udf(functools.partial(score)).returnType == DoubleType()

    async def scores(texts: list[str]) -> list[float | None]: ...

    assert pb.async_udf(scores, batch_size=8).returnType == DoubleType()
    assert pb.async_udf(bare, batch_size=8, returns="array<int>").returnType == ArrayType(
        IntegerType()
    )
    failed = pb.async_udf(score, on_error="column").returnType
    assert failed == StructType().add("value", DoubleType()).add("error", ERROR_TYPE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pb.async_udf(lambda x: x), r"RETURNS_MISSING.*no annotation.*-> float\.$"),
        (
            lambda: pb.async_udf(score, returns="dubble"),
            r"INVALID_RETURNS.*returns must be a type as.*dubble",
        ),
        (lambda: pb.async_udf(score, returns=object), r"INVALID_RETURNS.*object.*Annotated"),
        (lambda: pb.async_udf(no_type), r"INVALID_RETURNS\] returns of no_type must be.*complex"),
        (lambda: pb.async_udf(pb.AsyncFunction()), r"NOT_A_FUNCTION_OF_VALUES.*AsyncFunction"),
        (lambda: pb.async_udf(pb.async_udf(score)), r"NOT_A_FUNCTION_OF_VALUES.*async_udf"),
        (lambda: pb.async_udf(3), r"NOT_A_FUNCTION_OF_VALUES.*3"),
        (lambda: pb.async_udf(score, capacity=0), r"capacity.*0"),
        (lambda: pb.async_udf(score, carry_over=True), r"carry_over.*pb.async_io has it"),
        (lambda: pb.async_udf(score, engine="python"), r"engine.*needs the jar"),
        (lambda: pb.async_udf(score, ordered=False), r"ordered.*Rows keep their order"),
        (lambda: pb.async_udf(score, max_retries=3), r"retry=pb.Retry"),
        (lambda: pb.async_udf(score, journal_ttl="1 day"), r"journal=pb.Journal\(path, ttl="),
        (lambda: pb.async_udf(score, call_key="a"), r"With a journal the arguments name a call"),
        (lambda: pb.async_udf(score, journal="/answers"), r"JOURNAL_WITHOUT_NAME.*score"),
        (lambda: pb.async_udf(score, journal=3, name="s"), r"journal.*3"),
        (lambda: pb.async_udf(score, batch_size=0), r"batch_size.*0"),
        (lambda: pb.async_udf(score, batch_size=9, capacity=8), r"batch_size.*at most capacity"),
        (lambda: pb.async_udf(score, batch_size=8), r"RETURNS_MISSING.*result is a list.*float"),
        (
            lambda: pb.async_udf(lambda x: x, batch_size=8),
            r"RETURNS_MISSING.*async def score\(texts: list\[str\]\) -> list\[float\]\.$",
        ),
        (lambda: pb.async_udf(score, on_error=pb.ErrorColumn("value")), r"on_error"),
        (
            lambda: pb.async_udf(score, limit=pb.Limit(concurrency=1, scope="key")),
            r"limit\.scope.*key.*function of values.*another scope, or use pb\.async_io with by",
        ),
        (
            lambda: pb.async_udf(score, limit=pb.Limit(per_day=1, key="a"), batch_size=2),
            r"limit\.key.*function of values",
        ),
        (lambda: pb.async_udf(pieces), r"pieces is a generator.*returns=\"array<double>\"\.$"),
        (lambda: pb.async_udf(pieces, batch_size=2), r"generator.*a list with a value for each"),
        (lambda: pb.async_udf(Pieces(), returns="double"), r"Pieces is a generator"),
        (
            lambda: pb.Limit(per_day=1, unit="tokens", estimate=pieces),
            r"pieces is a generator.*Return a number",
        ),
        (lambda: pb.Ticketed(pieces, score), r"pieces is a generator.*Return the ticket\."),
        (lambda: pb.async_udf("double"), r"'double'.*@pb\.async_udf\(returns=\"double\"\)"),  # type: ignore[call-overload]
        (lambda: pb.async_udf(score)(1, 2), r"WRONG_ARGUMENTS.*score\(column 1, column 2\)"),
        (lambda: pb.async_udf(score, resource=prefix)("x"), r"score\(resource, column 1\)"),
    ],
)
def test_what_can_t_be_is_refused_before_any_work(make: Any, message: str) -> None:
    with pytest.raises(pb.PillarboxError, match=message):
        make()


def test_with_plain_values_it_is_an_ordinary_call() -> None:
    async def calls() -> list[Any]:
        udf = pb.async_udf(score)
        opened = pb.async_udf(with_resource, resource=prefix)
        return [await udf("abc"), await udf(text="ab"), await opened("b")]

    assert asyncio.run(calls()) == [3.0, 2.0, "a b"]


def test_the_mark_is_at_the_front_and_the_worker_finds_the_command_behind_it() -> None:
    udf = pb.async_udf(score, capacity=7)
    for function in (udf.func, pb.async_udf(score, name="n" * 2000).func):
        pickle = cloudpickle.dumps((function, StringType()))
        assert MARK.encode() in pickle[:256]
    pickle = cloudpickle.dumps((udf.func, StringType()))
    told = pickle[pickle.index(MARK.encode()) + len(MARK) :]
    mark, _ = json.JSONDecoder().raw_decode(told.decode("latin-1"))
    spec = json.loads(mark["spec"])
    assert (spec["name"], spec["figures"]["capacity"], spec["expression"]) == ("score", 7, True)
    command: Any = unpickled(pickle)
    assert (command.name, command.is_async) == ("score", True)


def test_a_worker_without_this_package_says_what_is_missing(tmp_path: Path) -> None:
    pickle = tmp_path / "pickle"
    pickle.write_bytes(cloudpickle.dumps(pb.async_udf(score).func))
    script = (
        "import pickle, sys; sys.modules['pillarbox'] = None; "
        "pickle.load(open(sys.argv[1], 'rb'))('text')"
    )
    ran = subprocess.run([sys.executable, "-c", script, pickle], capture_output=True, text=True)
    assert re.search(r"RuntimeError: .*score is a pb.async_udf.*pb.configure", ran.stderr), ran


def test_a_copy_that_is_not_deterministic_shares_the_limits() -> None:
    udf = pb.async_udf(score)
    other = udf.asNondeterministic()
    assert (udf.deterministic, other.deterministic) == (True, False)
    assert other._operator == udf._operator
    assert cloudpickle.loads(cloudpickle.dumps(udf)).returnType == DoubleType()


def test_a_resource_of_a_plain_call_is_opened_as_on_spark() -> None:
    async def ask(client: object, x: int) -> int:
        return x

    with pytest.raises(pb.WorkerFailed, match="RESOURCE_NOT_CONTEXT_MANAGER"):
        asyncio.run(pb.async_udf(ask, returns="int", resource=object)(1))
