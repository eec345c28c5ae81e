"""In which zone a function sees a timestamp: as in Spark's own Python UDFs, row or column."""

from __future__ import annotations

from typing import Any

import pytest

from spark_apps import run_app

# The application below is sent as text; these names are its own.
build: Any = None
pb: Any = None

pytestmark = pytest.mark.nightly

NOON = 1717245000  # 12:30 in UTC, 8:30 in New York, 18:00 in Kolkata


def looks_at_zones(noon):  # type: ignore[no-untyped-def]
    import datetime as dt

    import pyarrow as pa
    from pyspark.sql import functions as F

    settings = {
        "spark.master": "local[1]",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.executorEnv.TZ": "Asia/Kolkata",
    }
    spark = pb.configure(build(settings)).getOrCreate()
    df = spark.range(1).select(F.timestamp_seconds(F.lit(noon)).alias("ts"))
    naive = dt.datetime(2024, 6, 1, 12, 30)

    async def answers(row):
        return str(row.ts), naive

    class Rows(pb.KeyedProcessFunction):
        def open(self, ctx):
            self.state = ctx.value_state("s", "timestamp")

        def process(self, row, ctx):
            self.state.update(row.ts)
            assert self.state.value() == ctx.key == row.ts
            yield str(row.ts), naive

    class Columns(pb.ArrowKeyedProcessFunction):
        def process(self, batch, state, ctx):
            assert state.keys.type == batch["ts"].type
            return {"seen": [f"{batch['ts'].type} {batch['ts'][0]}"], "naive": [naive]}

    def rows(use_arrow):
        seen = F.udf(lambda ts: str(ts), "string", useArrow=use_arrow)
        back = F.udf(lambda ts: naive, "timestamp", useArrow=use_arrow)
        return df.select(seen("ts").alias("seen"), back("ts").alias("naive"))

    def of_arrow():
        seen = F.arrow_udf(lambda ts: pa.array([f"{ts.type} {ts[0]}"]), "string")
        return df.select(seen("ts").alias("seen"), F.timestamp_seconds(F.lit(noon)).alias("naive"))

    returns = "seen string, naive timestamp"
    frames = {
        "udf": rows(False),
        "udf with Arrow": rows(True),
        "Arrow udf": of_arrow(),
        "columns": df.transform(pb.process_keyed_arrow, Columns(), by="ts", returns=returns),
        "rows": df.transform(pb.process_keyed, Rows(), by="ts", returns=returns),
    }
    for engine in ("python", "jvm"):
        frames[engine] = df.transform(pb.async_io, answers, returns=returns, engine=engine)
    return {
        name: list(frame.selectExpr("seen", "unix_seconds(naive)").first())
        for name, frame in frames.items()
    }


@pytest.fixture(scope="module")
def seen() -> Any:
    return run_app(looks_at_zones, NOON)


@pytest.mark.parametrize("form", ["python", "jvm", "rows"])
def test_rows_are_in_the_workers_zone_as_in_a_udf(seen: Any, form: str) -> None:
    assert seen[form] == seen["udf"] == seen["udf with Arrow"]
    assert seen[form] == ["2024-06-01 18:00:00", NOON - int(5.5 * 3600)]


def test_columns_have_the_sessions_zone_as_in_an_arrow_udf(seen: Any) -> None:
    assert seen["columns"][0] == seen["Arrow udf"][0]
    assert seen["columns"][0] == "timestamp[us, tz=America/New_York] 2024-06-01 08:30:00-04:00"


def test_a_naive_time_in_a_column_is_what_it_is_in_a_row(seen: Any) -> None:
    assert seen["columns"][1] == seen["rows"][1]
