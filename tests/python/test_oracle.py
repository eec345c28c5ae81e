"""Random rows and options through Spark, against a plain loop that knows only the rules."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pillarbox as pb
from spark_support import by_value

by_value(__name__)

ATTEMPTS: dict[str, int] = {}

SCHEMA = "n int, ms int, failures int, answer string"
rows = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 4),
        st.sampled_from(["one", "none", "empty", "two", "bad"]),
    ),
    max_size=40,
)


async def scripted(row):
    """Does what the row says: fails so many times, then answers."""
    attempt = ATTEMPTS[pb.call_id()] = ATTEMPTS.get(pb.call_id(), 0) + 1
    await asyncio.sleep(row.ms / 1000)
    if attempt <= row.failures:
        raise ConnectionError(f"attempt {attempt}")
    answers = {
        "none": None,
        "empty": [],
        "two": [(row.n, "a"), (row.n, "b")],
        "bad": [("x", 1)],
    }
    return answers.get(row.answer, [(row.n, "a")])


def expected(n, failures, answer, attempts, on_error):
    """The output rows for one input row."""
    if failures >= attempts:
        why = ("ConnectionError", f"attempt {attempts}", attempts)
    elif answer == "bad":
        why = ("RESULT_TYPE_MISMATCH", None, failures + 1)
    else:
        names = {"one": ["a"], "two": ["a", "b"], "empty": [], "none": [None]}[answer]
        return [(n, n if name else None, name, None) for name in names]
    return [(n, None, None, why if on_error == "column" else None)]


def actual(row, on_error):
    if on_error != "column" or row.error is None:
        return (row.n, row.m, row.name, None)
    message = row.error.message if row.error.kind == "ConnectionError" else None
    return (row.n, row.m, row.name, (row.error.kind, message, row.error.attempts))


@pytest.mark.parametrize("ordered", [True, False])
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=rows,
    capacity=st.integers(1, 20),
    attempts=st.integers(1, 4),
    on_error=st.sampled_from(["null", "column"]),
    partitions=st.integers(1, 3),
)
def test_the_output_is_what_the_rules_say(
    spark, engine, ordered, rows, capacity, attempts, on_error, partitions
):
    data = [(n, *row) for n, row in enumerate(rows)]
    df = spark.createDataFrame(data, SCHEMA).repartition(partitions).sortWithinPartitions("n")
    out = df.transform(
        pb.async_io, scripted, returns="m int, name string", ordered=ordered, capacity=capacity,
        retry=pb.Retry(attempts, backoff="1ms"), on_error=on_error, explode=True, engine=engine,
    )  # fmt: skip
    got = [actual(row, on_error) for row in out.collect()]
    want = [
        one for n, _, failures, answer in data
        for one in expected(n, failures, answer, attempts, on_error)
    ]  # fmt: skip
    assert sorted(got, key=repr) == sorted(want, key=repr)
    if ordered and partitions == 1:
        assert got == want
