"""Random programs on Spark, restarted on either backend with other partitions, in both formats.

What a program does is in its rows. It tells what each call saw, the watermark with it; the plain
model then says what state must have answered, whatever the micro-batches, frames and restarts.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb
from keyed import model
from keyed.model import START, Interpreter, Model, life
from keyed.streams import Stream, settings
from spark_support import process_of

cloudpickle.register_pickle_by_value(model)
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
PARTITIONS = "spark.sql.shuffle.partitions"
SCHEMA = "k string, t bigint, number int, ops string"
DELAY_MS = 6
KEYS, BATCHES, ROWS = 35, 8, 70

TTLS = [
    None,
    *(
        {"update": update, "visibility": "never_return_expired", "time_domain": "event_time"}
        for update in ("on_create_and_write", "on_read_and_write")
    ),
]
IDS = ["no TTL", "renewed by writing", "renewed by reading"]


def cases(day: int, first: int = 0, seeds: int = 4) -> list[Any]:
    """Each TTL from ``first`` on with each seed. By day there is one case, of this TTL."""
    return [
        pytest.param(
            ttl,
            seed,
            id=f"{IDS[TTLS.index(ttl)]}-{seed}",
            marks=() if (ttl, seed) == (TTLS[day], 0) else pytest.mark.nightly,
        )
        for seed in range(seeds)
        for ttl in TTLS[first:]
    ]


# About as long as one or two micro-batches, whose times are those of the clock.
BY_THE_CLOCK = [
    {"update": update, "visibility": visibility, "time_domain": "processing_time", "ms": 400}
    for update, visibility in (
        ("on_create_and_write", "never_return_expired"),
        ("on_read_and_write", "never_return_expired"),
        ("on_create_and_write", "return_expired_if_not_cleaned_up"),
    )
]
EVERY = ["value", "largest", "elements", "entries", "moments", "timers"]
# Some elements of an expired list or map may be shown; an aggregate goes on from an expired one.
SHOWN_ONCE = ["value", "single entries", "timers"]


class Told(Interpreter):
    """Also tells the order of a key's calls, the clocks that each one sees, and its run."""

    def __init__(self, ttl: Any, run: int = 0) -> None:
        self.ttl, self.run = life(ttl), run

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.calls = ctx.value_state("calls", "int")

    def process(self, row: Any, ctx: Any) -> Any:
        results = [self.do(op, ctx) for op in json.loads(row.ops)]
        yield self.told(ctx, "row", row.number, results)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for _, text in super().on_timer(timestamp, ctx):
            yield self.told(ctx, "timer", timestamp, json.loads(text))

    def told(self, ctx: Any, *what: Any) -> Any:
        calls = (self.calls.value() or 0) + 1
        self.calls.update(calls)
        clocks = ctx.watermark, ctx.processing_time
        return ctx.key, json.dumps([calls, *clocks, self.run, *what])


class Columns(pb.ArrowKeyedProcessFunction):
    """The operations of a batch's first row, on the value state of all its keys."""

    def __init__(self, ttl: Any) -> None:
        self.ttl = life(ttl)

    def open(self, ctx: Any) -> None:
        ctx.value_state("value", "int", ttl=self.ttl)
        ctx.value_state("calls", "int")

    def process(self, batch: pa.RecordBatch, state: Any, ctx: Any) -> Any:
        count, read = len(state.keys), []
        for name, *arguments in json.loads(batch.column("ops")[0].as_py()):
            if name == "value.value":
                read.append(state["value"].to_pylist())
            else:
                value = arguments[0] if arguments else None
                state["value"] = pa.array([value] * count, pa.int32())
        calls = pc.add(pc.coalesce(state["calls"], pa.scalar(0, pa.int32())), 1)
        state["calls"] = calls
        latest = [0] * count
        for key_index, time in zip(state.index.tolist(), ctx.timestamps.to_pylist(), strict=True):
            latest[key_index] = max(latest[key_index], time)
        told = [
            json.dumps(
                [n, ctx.watermark, "batch", latest[key_index], [one[key_index] for one in read]]
            )
            for key_index, n in enumerate(calls.to_pylist())
        ]
        return {"k": state.keys, "told": told}


def build(function: Any, backend: str, **calls: Any) -> Any:
    def query(df: DataFrame) -> DataFrame:
        timed = df.withColumn("ts", F.timestamp_millis("t"))
        return timed.withWatermark("ts", f"{DELAY_MS} milliseconds").transform(
            process_of(function),
            function,
            by="k",
            returns="k string, told string",
            name="program",
            backend=backend,
            **calls,
        )

    return query


def operation(dice: random.Random, kinds: list[str]) -> list[Any]:
    number, word, ahead = dice.randrange(10), dice.choice("xy"), dice.choice([-3, 1, 5, 10])
    operations: dict[str, list[list[Any]]] = {
        "value": [["value.value"], ["value.update", number], ["value.clear"]],
        "largest": [["largest.get"], ["largest.add", number]],
        "elements": [
            ["elements.get"],
            ["elements.add", number],
            ["elements.update", [number]],
            ["elements.clear"],
        ],
        "entries": [
            ["entries.get", word],
            ["entries.put", word, number],
            ["entries.put", word, number],
            ["entries.remove", word],
            ["entries.items"],
            ["entries.is_empty"],
            ["entries.clear"],
        ],
        "single entries": [["entries.get", word], ["entries.put", word, number]],
        "moments": [
            ["moments.get", number % 6],
            ["moments.put", number % 6, dice.randrange(6)],
            ["moments.put", number % 6, dice.randrange(6)],
            ["moments.turn"],
            ["moments.items"],
        ],
        "timers": [
            ["timers.register_event_time", ahead],
            ["timers.register_event_time", ahead],
            ["timers.list"],
            ["timers.delete_all"],
        ],
    }
    return dice.choice(operations[dice.choice(kinds)])


def row_programs(dice: random.Random, every: list[str] = EVERY) -> list[list[Any]]:
    """Micro-batches of rows. Times go back by as much as the watermark waits, at most.

    A key is about a kind of state or two, so that reads meet what was written before.
    """
    kinds = {f"k{key}": dice.sample(every, dice.choice([1, 1, 2])) for key in range(KEYS)}
    latest, batches, number = 0, [], 0
    for _ in range(BATCHES):
        batch = []
        start = latest
        for _ in range(ROWS):
            key = dice.choice(sorted(kinds))
            time = max(1, start - DELAY_MS + 1) + dice.choice([0, 1, 3, 5, 6, 9, 16])
            ops = [timed(operation(dice, kinds[key]), time) for _ in range(dice.randint(1, 5))]
            batch.append((key, time, number, json.dumps(ops)))
            number += 1
            latest = max(latest, time)
        batches.append(batch)
    return batches


def timed(op: list[Any], time: int) -> list[Any]:
    return [op[0], time + op[1]] if op[0] == "timers.register_event_time" else op


def column_programs(dice: random.Random) -> list[list[Any]]:
    latest, batches = 0, []
    for _ in range(BATCHES):
        choices = [["value.value"], ["value.update", dice.randrange(10)], ["value.clear"]]
        ops = json.dumps([dice.choice(choices) for _ in range(dice.randint(1, 4))])
        start = max(1, latest - DELAY_MS + 1)
        times = [start + dice.choice([0, 3, 5, 6, 9, 16]) for _ in range(KEYS)]
        batches.append([(f"k{dice.randrange(KEYS)}", time, 0, ops) for time in times])
        latest = max(latest, *times)
    return batches


def play(
    spark: SparkSession,
    folder: Path,
    batches: list[Any],
    make: Any,
    dice: random.Random,
    **calls: Any,
) -> tuple[dict[str, list[Any]], str]:
    """Runs the batches, with restarts; what each key told in its order, and the checkpoint.

    A restart may have another backend, and another number of partitions.

    ``make`` gives the function of a run, by its number.
    """
    stream = Stream(spark, folder, SCHEMA, build(make(0), "heap"))
    run = 0
    with settings(spark, **{FORMAT: str(dice.choice([1, 2])), PARTITIONS: "2"}):
        for number, batch in enumerate(batches, 1):
            stream.add(*batch)
            if number == len(batches) or dice.random() < 0.4:
                spark.conf.set(PARTITIONS, str(dice.choice([1, 2, 2, 3, 4])))
                found = stream.run(build(make(run), dice.choice(["heap", "rocksdb"]), **calls))
                run += 1
    told = defaultdict(list)
    for key, text in found:
        told[key].append(json.loads(text))
    for key, calls in told.items():
        calls.sort()
        assert [call[0] for call in calls] == list(range(1, len(calls) + 1)), key
    return told, stream.checkpoint


def first_clocks(told: dict[str, list[Any]]) -> dict[int, Any]:
    """The clocks of each run's first micro-batch: they don't go back."""
    seen = defaultdict(list)
    for calls in told.values():
        for _, watermark, now, run, *_ in calls:
            seen[run].append((START if watermark is None else watermark, now))
    return {
        run: [min(times) for times in zip(*clocks, strict=True)] for run, clocks in seen.items()
    }


def check_rows(
    told: dict[str, list[Any]], batches: list[Any], ttls: list[Any], kind: type[Model] = Model
) -> dict[str, Model]:
    """Every answer is the model's; the models as the programs left them.

    ``ttls`` are those of the first runs; all further ones have the last.
    """
    rows = [row for batch in batches for row in batch]
    started = first_clocks(told)
    models = {}
    for key, calls in told.items():
        one = models[key] = kind(key, ttls[0])
        last = 0
        for n, seen, now, run, what, at, answer in calls:
            for after in range(last + 1, run + 1):
                one.restart(ttls[min(after, len(ttls) - 1)], started[after])
            last = run
            clock = START if seen is None else seen, now
            if what == "row":
                _, time, _, ops = rows[at]
                expected = one.row(time, json.loads(ops), clock)[1:]
            else:
                one.at(clock)
                one.timers.remove((at, "event_time"))
                expected = one.fire(at, "event_time")
            assert answer == expected, f"call {n} of {key} in run {run}"
        numbers = [call[5] for call in calls if call[4] == "row"]
        assert numbers == [row[2] for row in rows if row[0] == key], "each row once, in order"
    return models


def stored(spark: SparkSession, checkpoint: str, name: str, ttl: Any, after: int) -> Any:
    """What is stored of a state by key, with its timestamp, if it is alive at ``after``."""
    df = pb.read_state(spark, checkpoint, 0, name)
    columns = ["map_key" if "map_key" in df.columns else F.lit(0), "value"]
    stamp = F.unix_millis("timestamp") if ttl else F.lit(0)
    rows = df.select("key.k", *columns, stamp).collect()
    return sorted(tuple(row) for row in rows if not ttl or row[3] + 10 > after)


@pytest.mark.parametrize(("ttl", "seed"), cases(day=1))
def test_a_program_sees_what_the_model_holds(
    spark: SparkSession, tmp_path: Path, ttl: Any, seed: int
) -> None:
    dice = random.Random(f"{ttl} {seed}")
    batches = row_programs(dice)
    told, checkpoint = play(spark, tmp_path, batches, lambda run: Told(ttl, run), dice)
    models = check_rows(told, batches, [ttl])
    end = max(time for batch in batches for _, time, _, _ in batch)
    for name in ("value", "entries", "largest"):
        expected = sorted(
            (key, at, value, stamp if ttl else 0)
            for key, one in models.items()
            for at, (value, stamp) in one.cells[name].items()
            if not ttl or stamp + 10 > end
        )
        assert stored(spark, checkpoint, name, ttl, end) == expected, name


class Once:
    """An expired value: it is shown if clean-up has not come before."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return other is None or other == self.value

    __hash__ = object.__hash__


class Cleaned(Model):
    def shown(self, value: Any) -> Any:
        return Once(value)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("ttl", BY_THE_CLOCK, ids=["by writing", "by reading", "shown once"])
def test_a_program_by_the_clock_sees_what_the_model_holds(
    spark: SparkSession, tmp_path: Path, ttl: Any, seed: int
) -> None:
    dice = random.Random(f"{ttl} {seed}")
    batches = row_programs(dice, SHOWN_ONCE if ttl["visibility"].startswith("return") else EVERY)
    told, _ = play(spark, tmp_path, batches, lambda run: Told(ttl, run), dice)
    check_rows(told, batches, [ttl], Cleaned)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_a_program_whose_ttl_changes_at_each_restart_sees_what_the_model_holds(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(f"restarts {seed}")
    # What has expired may be gone, so that nothing must bring it back.
    long = {**TTLS[1], "ms": 20} if seed % 2 == 0 else {**BY_THE_CLOCK[1], "ms": 900}
    ttls = [None, long, {**long, "ms": long["ms"] // 2, "update": "on_read_and_write"}]
    batches = row_programs(dice)
    told, _ = play(spark, tmp_path, batches, lambda run: Told(ttls[min(run, 2)], run), dice)
    check_rows(told, batches, ttls)


@pytest.mark.parametrize(("ttl", "seed"), cases(day=2, first=1))
def test_a_program_of_columns_sees_what_the_model_holds(
    spark: SparkSession, tmp_path: Path, ttl: Any, seed: int
) -> None:
    dice = random.Random(f"columns {ttl} {seed}")
    batches = column_programs(dice)
    told, _ = play(spark, tmp_path, batches, lambda run: Columns(ttl), dice)
    for key, calls in told.items():
        one = Model(key, ttl)
        programs = [batch[0][3] for batch in batches if any(row[0] == key for row in batch)]
        for (n, seen, _, latest, read), ops in zip(calls, programs, strict=True):
            one.at((START if seen is None else seen, 0))
            one.time = latest
            answers = [one.do(*op) for op in json.loads(ops)]
            expected = [
                a for a, op in zip(answers, json.loads(ops), strict=True) if op[0] == "value.value"
            ]
            assert read == expected, f"call {n} of {key}"
