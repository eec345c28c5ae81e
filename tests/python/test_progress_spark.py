"""``pb.progress`` in an action: the line that stays has the sums, on classic and Connect."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pillarbox as pb
from pillarbox._driver.client import client_of
from spark_support import Latch, by_value, eventually

by_value(__name__)


def test_an_action_shows_its_calls_while_it_runs_and_their_sums_at_the_end(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    latch = Latch(str(tmp_path / "latch"))

    async def second_time(row: Any) -> int:
        await latch.wait()
        if pb.current_call().attempt == 1 and row.id % 2:
            raise ConnectionError("once more")
        if row.id == 8:
            raise pb.NotRetryable("never")
        return int(row.id)

    df = spark.range(0, 20, 1, 2).transform(
        pb.async_io,
        second_time,
        returns="x long",
        name="look_up",
        engine="jvm",
        on_error="null",
        retry=pb.Retry(2, backoff="1ms"),
    )
    seen: list[Any] = []
    client = type(client_of(spark))
    ask = client.progress

    def asked(self: Any, tag: str, goes_on: bool) -> Any:
        seen.append(ask(self, tag, goes_on))
        return seen[-1]

    monkeypatch.setattr(client, "progress", asked)
    opener = threading.Thread(
        target=lambda: (
            eventually(lambda: any(sum_of(one, "in_flight") == 20 for one in seen), "20 in flight"),
            latch.open(),
        )
    )
    opener.start()
    with pb.progress(spark):
        assert len(df.collect()) == 20
    opener.join()
    with_none = capsys.readouterr().err
    told = r"^look_up: 20 rows, 30 calls, 10 retries, 1 error in 0:\d\d$"
    assert len(re.findall(told, with_none, re.MULTILINE)) == 1
    (last,) = seen[-1]
    assert (last["tasks"], last["done"], last["done_rows"], last["in_flight"]) == (2, 2, 20, 0)
    # Nothing is kept, and an action outside is not watched.
    df.collect()
    assert "look_up:" not in capsys.readouterr().err


class Doubles(pb.AsyncKeyedProcessFunction):
    async def process(self, row: Any, ctx: Any) -> Any:
        if row.id == 8:
            raise pb.NotRetryable("never")
        return (2 * row.id,)


def test_calls_of_a_keyed_function_are_shown_too(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    df = spark.range(20).transform(
        pb.process_keyed_async, Doubles(), by="id", returns="x long", on_error="null", name="double"
    )
    with pb.progress(spark):
        assert len(df.collect()) == 20
    told = r"^double: 20 rows, 20 calls, 0 retries, 1 error in 0:\d\d$"
    assert re.search(told, capsys.readouterr().err, re.MULTILINE)


def sum_of(figures: list[dict[str, Any]], name: str) -> int:
    return sum(one[name] for one in figures)


def test_progress_wants_a_session(spark: SparkSession) -> None:
    with pytest.raises(pb.InvalidOption, match="spark must be a SparkSession"), pb.progress(3):  # type: ignore[arg-type]
        pass
