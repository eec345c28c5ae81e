"""A fake service over HTTP, called by functions in workers of Spark on both engines."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from pyspark.sql import SparkSession

import pillarbox as pb
from pillarbox.testing import FakeService
from spark_support import by_value

by_value(__name__)


def asking(url: str) -> Any:
    def ask(row: Any) -> int:
        try:
            with urllib.request.urlopen(f"{url}/{row.id}", timeout=10) as answer:
                return int(json.load(answer))
        except urllib.error.HTTPError as problem:
            with problem:
                delay = problem.headers["Retry-After"]
            if delay is None:
                raise
            raise pb.RetryAfter(delay) from None

    return ask


def test_each_fault_of_the_script_is_retried_and_the_limit_is_seen_by_the_service(
    spark: SparkSession, engine: str
) -> None:
    script = [pb.RetryAfter(0), 500, ConnectionError, "200 ms", lambda _: b"no json", 503]
    service = FakeService(lambda path: int(path[1:]) * 2, latency="20 ms", script=script)
    on = (OSError, http.client.HTTPException, ValueError)
    with service.serve() as url:
        rows = pb.async_io(
            spark.range(0, 12, 1, 1), asking(url), returns="y long", engine=engine,
            limit=pb.Limit(concurrency=3, scope="task"), timeout="1 minute",
            retry=pb.Retry(4, backoff="1 ms", on=on),
        ).collect()  # fmt: skip
    assert [row.y for row in rows] == [2 * n for n in range(12)]
    assert len(service.calls) == 12 + 5
    assert service.most_in_flight == 3


def test_a_refused_call_is_an_error_row(spark: SparkSession) -> None:
    service = FakeService(1, script=[404])
    with service.serve() as url:
        (row,) = pb.async_io(
            spark.range(1), asking(url), returns="y long", engine="python", retry=3,
            on_error="column",
        ).collect()  # fmt: skip
    assert (row.y, row.error.kind, row.error.attempts) == (None, "HTTPError", 1)
    assert service.calls == ["/0"]
