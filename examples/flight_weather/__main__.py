"""Run the whole demo; see ``--help``. Exit code 1 if any result is not what pandas computes."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb

from . import picture
from .baselines import CHUNK, gather_by_chunk, one_after_another
from .check import WrongResult, cells_equal
from .client import Service, running_service
from .data import prepare
from .job import CAPACITY, with_weather
from .phases import Phase, measure
from .stream import StreamRun, run_stream

TASKS = 2
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(TASKS),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
OUTPUT = Path(__file__).resolve().parents[2] / "demo-output"
SLOW_SHARE = 0.01
SLOW_STREAMS: dict[str, dict[str, Any]] = {
    "with carry_over": {"carry_over": True},
    "without": {},
}
SHOWN = ["carrier", "flight", "origin", "dest", "time_hour", "temp", "wind_speed", "visib"]


def main() -> int:
    options = arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="flight-weather-") as name:
        folder = Path(name)
        print(f"Preparing {options.rows:,} real flights and a year of hourly weather…", flush=True)
        prepare(folder, options.rows)
        with running_service(folder / "weather.parquet") as service:
            print(f"The weather service listens on {service.url}", flush=True)
            spark = session(options.engine)
            try:
                verdict = Demo(spark, service, folder, options).run()
            finally:
                spark.stop()
    print(f"\nThe demo took {time.perf_counter() - started:.0f} s.")
    return verdict


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="flight_weather", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="flights to enrich")
    parser.add_argument("--sample", type=int, default=400, help="flights of the slowest way")
    parser.add_argument("--engine", choices=["auto", "jvm", "python"], default="auto")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the pictures")
    return parser.parse_args()


def session(engine: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run PATH's python3
    builder = SparkSession.builder.master(f"local[{TASKS}]").appName("flight weather")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    if engine != "python":
        builder = pb.configure(builder)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Demo:
    """The phases in their order, and what is said about them."""

    def __init__(
        self, spark: SparkSession, service: Service, folder: Path, options: argparse.Namespace
    ) -> None:
        self.spark, self.service, self.folder, self.options = spark, service, folder, options
        self.flights = spark.read.parquet(str(folder / "flights"))

    def run(self) -> int:
        self.warm_up()
        ours = self.phase("pb.async_io", self.ours(self.flights))
        gather = self.phase(
            f"asyncio.gather, {CHUNK:,} rows at a time, in mapInPandas",
            gather_by_chunk(self.flights, self.service.url),
        )
        few = self.flights.limit(self.options.sample).repartition(TASKS)
        single = self.phase(
            f"one call after another ({self.options.sample} flights only)",
            one_after_another(few, self.service.url),
        )
        stream = measure("pb.async_io again, as a stream", self.service, self.stream)
        slow = self.slow_streams() if self.options.engine != "python" else {}
        self.tell(ours, gather, single, stream)
        self.draw(ours, gather)
        return self.verdict({"batch": ours, "stream": stream, "gather": gather, **slow})

    def slow_streams(self) -> dict[str, Phase]:
        """One call in a hundred takes four seconds: with carry-over it holds up no micro-batch."""
        phases, seconds = {}, {}
        for name, options in SLOW_STREAMS.items():
            runs: list[StreamRun] = []
            title = f"a stream with 1 % slow calls, {name}"
            run = partial(self.slow_stream, name, options, runs)
            phases[f"slow stream {name}"] = measure(title, self.service, run, SLOW_SHARE)
            of_rows = zip(runs[0].rows, runs[0].seconds, strict=True)
            seconds[name] = [took for rows, took in of_rows if rows]
        picture.batches(self.options.output / "micro-batches.png", seconds)
        return phases

    def slow_stream(
        self, name: str, options: dict[str, Any], runs: list[StreamRun]
    ) -> pd.DataFrame:
        args = (self.spark, self.folder, self.service.url, self.options.engine)
        runs.append(run_stream(*args, name, 1, **options))
        return runs[0].output.toPandas()

    def warm_up(self) -> None:
        """Start the Python workers of every task, so that no phase pays for it."""
        few = self.flights.limit(40).repartition(TASKS)
        one_after_another(few, self.service.url).collect()
        self.ours(few).collect()

    def ours(self, flights: DataFrame) -> DataFrame:
        return with_weather(flights, self.service.url, self.options.engine)

    def phase(self, title: str, frame: DataFrame) -> Phase:
        return measure(title, self.service, frame.toPandas)

    def stream(self):  # type: ignore[no-untyped-def]
        args = (self.spark, self.folder, self.service.url, self.options.engine)
        return run_stream(*args).output.toPandas()

    def tell(self, ours: Phase, gather: Phase, single: Phase, stream: Phase) -> None:
        print("\n== Some rows\n" + ours.result[SHOWN].head(5).to_string(index=False))
        latency = ours.result["latency_ms"].dropna()
        p50, p99 = np.percentile(latency, [50, 99])
        failures = int(ours.result["error"].notna().sum())
        print(
            f"\n== Calls\n"
            f"   rows {ours.rows:,}, calls {ours.counts['requests']:,}, retries {ours.retries:,}, "
            f"failures {failures}, no weather {ours.counts['not_found']}\n"
            f"   latency p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {latency.max() / 1000:.1f} s\n"
            f"   in flight: at most {ours.counts['in_flight_max']} "
            f"({TASKS} tasks x capacity {CAPACITY})\n\n== Speed"
        )
        for phase in (ours, stream, gather, single):
            factor = ours.rate / phase.rate
            print(f"   {phase.rate:>8,.0f} rows/s  {factor:>6.1f} x  {phase.title}")

    def draw(self, ours: Phase, gather: Phase) -> None:
        output: Path = self.options.output
        lines = {"pb.async_io": ours.timeline, f"gather per {CHUNK:,} rows": gather.timeline}
        picture.in_flight(output / "calls-in-flight.png", lines)
        picture.latency(output / "latency.png", ours.result["latency_ms"].dropna().to_numpy())
        names = ["calls-in-flight.png", "latency.png"]
        if self.options.engine != "python":
            names.append("micro-batches.png")
        print("\nPictures: " + ", ".join(str(output / name) for name in names))

    def verdict(self, phases: dict[str, Phase]) -> int:
        """0 if all results are what pandas computes and no call was lost; else says why, 1."""
        print("\n== Check against a pandas merge")
        try:
            for name, phase in phases.items():
                cells = cells_equal(phase.result, self.folder)
                print(f"   {name}: {cells:,} cells equal")
            for name in ("batch", "stream"):
                self.accounted(phases[name])
        except WrongResult as wrong:
            print(f"   WRONG: {wrong}")
            return 1
        return 0

    def accounted(self, phase: Phase) -> None:
        """Every request is a row's first or the retry of a 503, and capacity was kept."""
        failed = int(phase.result["error"].notna().sum())
        if failed:
            raise WrongResult(f"{phase.title}: {failed} rows failed, none should")
        if phase.retries != phase.counts["unavailable"]:
            raise WrongResult(f"{phase.title}: {phase.retries} retries, {phase.counts}")
        if phase.counts["in_flight_max"] > TASKS * CAPACITY:
            raise WrongResult(f"{phase.title}: over capacity, {phase.counts}")


if __name__ == "__main__":
    # pandas 3 works for what is done here; PySpark says at every turn that it doubts it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    sys.exit(main())
