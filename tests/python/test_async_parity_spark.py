"""The cases of ``async_cases`` on both engines of Spark; ``test_async_parity`` has the harness."""

from __future__ import annotations

import pytest
from call_column_cases import CALL_CASES
from pyspark.sql import SparkSession

import pillarbox as pb
from async_cases import CASES, Case, Fails, names


@pytest.mark.parametrize("case", [*CASES, *CALL_CASES], ids=names)
def test_spark_answers_as_the_harness_does(spark: SparkSession, engine: str, case: Case) -> None:
    if case.only_jvm and engine == "python":
        pytest.skip("engine python refuses the option")
    df = spark.createDataFrame(list(case.rows), case.schema).coalesce(1)
    made = pb.async_io(df, case.function(), resource=case.resource, engine=engine, **case.options)
    if isinstance(case.expected, Fails):
        with pytest.raises(Exception) as failed:  # noqa: PT011
            made.collect()
        failure = pb.failure_of(failed.value)
        assert failure is not None
        assert case.expected.kind in (failure.kind, failure.condition)
        assert case.expected.message in failure.message
    else:
        assert case.seen(made.collect()) == case.expected
