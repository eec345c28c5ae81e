"""The cases of ``async_cases`` on the harness; ``test_async_parity_spark`` runs them on Spark."""

import pytest
from call_column_cases import CALL_CASES

import pillarbox as pb
from async_cases import CASES, Case, Fails, names
from pillarbox.testing import AsyncHarness


def kinds(problem: Exception) -> set[str | None]:
    if isinstance(problem, pb.PillarboxError):
        return {problem.kind, problem.condition}
    return {type(problem).__name__}


@pytest.mark.parametrize("case", [*CASES, *CALL_CASES], ids=names)
def test_the_harness_answers_as_spark_does(case: Case):
    harness = AsyncHarness(
        case.function(), schema=case.schema, resource=case.resource, **case.options
    )
    if isinstance(case.expected, Fails):
        with pytest.raises(Exception) as failed:  # noqa: PT011
            harness.run(case.rows)
        assert case.expected.kind in kinds(failed.value)
        assert case.expected.message in str(failed.value)
    else:
        assert case.seen(harness.run(case.rows)) == case.expected
