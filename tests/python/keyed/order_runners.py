"""Plays groups of golden cases on the harness, on a worker under a small operator, and on Spark."""

from __future__ import annotations

import subprocess
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from worker.keyed_driver import NONE, KeyedInProcess
from worker.keyed_operator import Operator

import pillarbox as pb
from keyed.order_function import (
    FOLD,
    INPUT,
    RETURNS,
    FoldsColumns,
    Group,
    Plays,
    by_key,
    listed,
)  # fmt: skip
from keyed.streams import Stream
from pillarbox._driver.jars import find_jar
from pillarbox.testing import KeyedHarness
from spark_support import add_jar, process_of

SOURCES = Path(__file__).parents[2] / "jvm"
GOLDEN_FUNCTION = "io.pillarbox.golden.GoldenFunction"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# The rows of this key bring the watermark where it is wanted: it is so far behind them.
CLOCK, DELAY_MS = "~", 1000


def timed(row: Any) -> tuple[Any, ...]:
    """A row of a case with its time as a timestamp."""
    key, place, time, ops = row
    return key, place, None if time is None else EPOCH + timedelta(milliseconds=time), ops


class OnHarness:
    """Plays a group on the harness of ``pillarbox.testing``."""

    def __init__(self, group: Group) -> None:
        self.group = group
        (self.now,) = {now for _, now in group.clock[:1]}
        self.function = Plays(group.on)
        self.harness = KeyedHarness(
            self.function, by="k", schema=INPUT, returns=RETURNS, timestamp="ts", order_by="i",
            time_sorted=group.time_sorted, processing_time=self.now,
        )  # fmt: skip
        for case in group.cases:
            self._start(case["name"], case.get("initial", {}))

    def stream(self) -> dict[str, list[str]]:
        told: list[Any] = []
        for step, (watermark, now) in enumerate(self.group.clock, 1):
            rows = [timed(row) for row in self.group.rows(step)]
            told += self.harness.run_micro_batch(rows, watermark=watermark, processing_time=now)
        return by_key(told)

    def left(self) -> dict[str, Any]:
        found = {}
        for case in self.group.cases:
            key = case["name"]
            there = {name: self.harness.state(name, key) for name in ("value", "list")}
            there["timers"] = listed(self.harness.timers(key))
            there = {name: what for name, what in there.items() if what not in (None, [])}
            if there:
                found[key] = there
        return found

    def batch(self) -> dict[str, list[str]]:
        """Of keys that have rows: the harness knows no others in a batch."""
        return by_key(self.harness.run_batch([timed(row) for row in self.group.rows()]))

    def _start(self, key: str, initial: dict[str, Any]) -> None:
        """The harness has no initial state of its own: it is written as the function would."""
        if not initial:
            return
        runtime = self.harness._runtime
        runtime.begin(self.harness._space.keys)
        runtime.context.enter(self.harness._space.key_index(key))
        self.function.value.update(initial.get("value"))
        self.function.list.update(initial.get("list", []))
        for timer in initial.get("timers", ()):
            self.function.do(timer, runtime.context)
        runtime.end()


class OnWorker:
    """Plays a group on a worker, under a small operator that cuts frames at random."""

    def __init__(self, group: Group, random: Random) -> None:
        self.group = group
        self.worker = KeyedInProcess()
        self.worker.start_keyed(
            Plays(group.on), by="k string", inputs=INPUT, returns=RETURNS,
            time_sorted=group.time_sorted,
        )  # fmt: skip
        self.worker.big = frozenset(random.choice([["list"], []]))
        self.operator = Operator(
            self.worker, [0], 2, group.time_sorted, random.randint(1, 9), random.randint(1, 4)
        )
        for case in group.cases:
            self._start(case["name"], case.get("initial", {}))

    def __enter__(self) -> OnWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()

    def stream(self) -> dict[str, list[str]]:
        told: list[Any] = []
        for step, (watermark, now) in enumerate(self.group.clock, 1):
            rows = [timed(row) for row in self.group.rows(step)]
            known = NONE if watermark is None else watermark
            told += self.operator.run_micro_batch(rows, known, now)
        return by_key(told)

    def batch(self) -> dict[str, list[str]]:
        return by_key(self.operator.run_batch([timed(row) for row in self.group.rows()]))

    def left(self) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {}
        for (state, key), cell in self.operator.store.cells.items():
            if state == "value":
                found.setdefault(key, {})["value"] = cell[0]["value"]
            elif state == "list":
                found.setdefault(key, {})["list"] = [value["value"] for value, _ in cell]
        for key, kind, time in sorted(self.operator.store.timers, key=lambda one: (one[2], one[1])):
            timer = f"{'event' if kind == 1 else 'clock'} {time}"
            found.setdefault(key, {}).setdefault("timers", []).append(timer)
        return found

    def _start(self, key: str, initial: dict[str, Any]) -> None:
        store = self.operator.store
        if "value" in initial:
            store.cells["value", key] = ({"value": initial["value"]}, 0)
        if "list" in initial:
            store.cells["list", key] = [({"value": value}, 0) for value in initial["list"]]
        for timer in initial.get("timers", ()):
            kind, time = timer.split()
            store.timers.add((key, 1 if kind == "event" else 2, int(time)))


class OnSpark:
    """Plays a group on Spark, by ``transform``; ``form`` is how the function is called."""

    def __init__(self, spark: SparkSession, group: Group, form: str, backend: str) -> None:
        self.spark, self.group, self.form, self.backend = spark, group, form, backend
        self.cases = {case["name"]: case for case in group.cases}

    def stream(self, folder: Path) -> dict[str, list[str]]:
        """A micro-batch before the first brings the watermark that it ends with."""
        stream = Stream(self.spark, folder, INPUT, self._transformed)
        watermarks = [watermark for watermark, _ in self.group.clock]
        for step, watermark in enumerate([*watermarks, None]):
            # A micro-batch goes by the rows of those before it.
            clock = [] if watermark is None else [(CLOCK, step, watermark + DELAY_MS, self._idle)]
            stream.add(*map(timed, [*self.group.rows(step), *clock]))
        return self._told(stream.run())

    def left(self, folder: Path) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {}
        checkpoint = str(folder / "checkpoint")
        for name in ("value", "list"):
            for row in pb.read_state(self.spark, checkpoint, "golden", name).collect():
                there = found.setdefault(row.key.k, {})
                there[name] = row.value if name == "value" else [*there.get(name, []), row.value]
        timers = pb.read_state(self.spark, checkpoint, "golden", pb.TIMERS)
        kind = F.when(F.col("time_domain") == "event_time", "event").otherwise("clock")
        timers = timers.select("key.k", F.col("epoch_ms").alias("ms"), kind.alias("kind"))
        for row in timers.orderBy("ms", "kind").collect():
            found.setdefault(row.k, {}).setdefault("timers", []).append(f"{row.kind} {row.ms}")
        found.pop(CLOCK, None)
        return found

    def batch(self) -> dict[str, list[str]]:
        rows = self.spark.createDataFrame([timed(row) for row in self.group.rows()], INPUT)
        transformed = self._transformed(rows.coalesce(1))
        return self._told([tuple(row) for row in transformed.collect()])

    @property
    def _idle(self) -> str:
        return FOLD + "0" if self.form in ("columns", "scan") else ""

    def _told(self, rows: list[Any]) -> dict[str, list[str]]:
        told = by_key(rows, numbered=self.form != "scan")
        return {key: of for key, of in told.items() if key != CLOCK}

    def _transformed(self, rows: DataFrame) -> DataFrame:
        if rows.isStreaming:
            rows = rows.withWatermark("ts", f"{DELAY_MS} milliseconds")
        options: dict[str, Any] = {
            "by": "k", "timestamp": "ts", "order_by": "i", "name": "golden",
            "backend": self.backend,
        }  # fmt: skip
        if self.form != "columns":
            options["time_sorted"] = self.group.time_sorted
        if self.form == "scan":
            return self._scanned(rows, options)
        function: Any = {
            "rows": self.rows_function,
            "columns": self.columns_function,
            "jvm": lambda: pb.JvmFunction(GOLDEN_FUNCTION, self.group.on),
        }[self.form]()
        return process_of(function)(
            rows, function, returns=RETURNS, initial_state=self._initial(), **options
        )

    def rows_function(self) -> Any:
        return Plays(self.group.on)

    def columns_function(self) -> Any:
        return FoldsColumns()

    def _scanned(self, rows: DataFrame, options: dict[str, Any]) -> DataFrame:
        """Tells what the value was before each row: a scan doesn't know the watermark."""
        none = "CAST(NULL AS BIGINT)"
        had = pb.scan(
            rows.withColumn("x", F.expr(f"CAST(substring(ops, {len(FOLD) + 1}) AS BIGINT)")),
            state={"had": (none, "brief"), "brief": (none, "x")},
            select=["k", "i", "ts", "had"],
            ttl=pb.StateTtl("10 ms", time_domain="event_time"), **options,
        )  # fmt: skip
        place = "coalesce(unix_micros(ts), 0) * 100 + i" if self.group.time_sorted else "i"
        return had.selectExpr("k", f"{place} AS n", "coalesce(string(had), '-') AS told")

    def _initial(self) -> Any:
        started = [(key, case["initial"]) for key, case in self.cases.items() if "initial" in case]
        if not started or self.form == "columns":
            return None
        kinds = {"event": "event_time", "clock": "processing_time"}
        values = [(key, of["value"], None) for key, of in started if "value" in of]
        elements = [(key, one, None) for key, of in started for one in of.get("list", ())]
        timers = [
            (key, kinds[timer.split()[0]], int(timer.split()[1]))
            for key, of in started
            for timer in of.get("timers", ())
        ]
        make, entries = self.spark.createDataFrame, ["struct(k) AS key", "value", "timestamp"]
        entry = "k string, value bigint, timestamp timestamp"
        due = ["struct(k) AS key", "time_domain", "timestamp_millis(ms) AS timestamp"]
        return {
            "value": make(values, entry).selectExpr(*entries),
            "list": make(elements, entry).selectExpr(*entries),
            pb.TIMERS: make(timers, "k string, time_domain string, ms bigint").selectExpr(*due),
        }


def add_golden_function(spark: SparkSession) -> None:
    """Makes the JVM's function known to the session."""
    add_jar(spark, golden_jar())


def golden_jar() -> Path:
    sources = sorted(SOURCES.glob("*/java/io/pillarbox/golden/*.java"))
    with tempfile.TemporaryDirectory() as name:
        classes, jar = Path(name) / "classes", Path(tempfile.mkdtemp()) / "golden.jar"
        path = f"{find_jar()}:{Path(pyspark.__file__).parent / 'jars'}/*"
        subprocess.run(["javac", "-cp", path, "-d", classes, *sources], check=True)
        subprocess.run(["jar", "cf", jar, "-C", classes, "."], check=True)
    return jar
