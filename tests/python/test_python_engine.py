"""What is particular to engine="python": one loop thread a task, beside Spark's own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import pickle
import threading
import time
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from worker.driver import options_for

import pillarbox as pb
from pillarbox._arrow.pieces import FrameSize
from pillarbox._arrow.schema import positions
from pillarbox._async.command import Command, Shipped
from pillarbox._async.python_operator import AsyncOperator, Element
from pillarbox._async.python_output import OutputBuilder
from pillarbox._async.python_task import CallScope, PythonTask, run_task
from pillarbox._base.functions import is_async
from pillarbox._base.values import Values
from pillarbox._metered.limit_keys import LimitKeys
from pillarbox._metered.told import ToldByTasks

X = t.StructType().add("x", "long")
Y = t.StructType().add("y", "long")
LIMIT_S = 20
NO_KEYS = LimitKeys.of(X, (), True)


def task(
    function: Any,
    resource: Any = None,
    blocked_ms: int = 5000,
    carried: tuple[str, ...] = ("x",),
    **options: Any,
) -> PythonTask:
    parsed = options_for(**options)
    command = Command(
        function, is_async(function), options.get("batch_size") is not None, resource,
        options.get("retry"), X, Y, "test",
    )  # fmt: skip
    names = [*carried, "y", "error"] if parsed.error_column else [*carried, "y"]
    return PythonTask(command, parsed, [0], NO_KEYS, names, "p", blocked_ms)


def batches(*sizes: int):
    start = 0
    for size in sizes:
        yield pa.RecordBatch.from_pydict({"x": pa.array(range(start, start + size), pa.int64())})
        start += size


def rows(output) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in output for row in batch.to_pylist()]


@pytest.fixture(autouse=True)
def no_thread_is_left(request):
    before = set(threading.enumerate())
    yield
    if "spark" in request.fixturenames:  # its calls run elsewhere, and py4j begins threads here
        return
    for thread in set(threading.enumerate()) - before:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), thread


async def double(row):
    return row.x * 2


def test_all_rows_come_out_in_large_batches(monkeypatch):
    monkeypatch.setattr("pillarbox._async.python_output._CHUNK_WAIT_S", 3600)
    output = list(task(double).run(batches(5000, 0, 1, 3000)))
    assert rows(output) == [(x, 2 * x) for x in range(8001)]
    assert len(output) <= 12


def test_a_large_row_with_many_answers_comes_in_batches_of_bounded_size(monkeypatch):
    async def many(row):
        return list(range(20))

    monkeypatch.setattr("pillarbox._async.python_output.FrameSize", lambda: FrameSize(cut=5000))
    columns = {"x": pa.array([0, 1], pa.int64()), "text": ["a" * 1000, "b" * 7000]}
    one = task(many, explode=True, carried=("x", "text"))
    output = list(one.run(iter([pa.RecordBatch.from_pydict(columns)])))
    assert [(x, y) for x, _, y in rows(output)] == [(x, y) for x in (0, 1) for y in range(20)]
    assert all(batch.nbytes <= 5000 or batch.num_rows == 1 for batch in output)


def test_finished_rows_come_out_while_others_are_still_running():
    latch = threading.Event()

    async def last_waits(row):
        while row.x == 9 and not latch.is_set():
            await asyncio.sleep(0.001)
        return row.x

    output = task(last_waits).run(batches(10))
    first = rows([next(output)])
    assert first == [(x, x) for x in range(9)]
    latch.set()
    assert rows(output) == [(9, 9)]


def test_calls_go_on_while_spark_does_not_read():
    done = threading.Event()

    async def call(row):
        await asyncio.sleep(0.001)
        if row.x == 1999:
            done.set()
        return row.x

    output = task(call, capacity=10).run(batches(2000, 1))
    next(output)
    assert done.wait(LIMIT_S)  # the generator has not been asked for more
    assert len(rows(output)) + 1024 >= 2001


def test_closing_the_generator_cancels_calls_and_closes_the_resource():
    events = []

    @contextlib.asynccontextmanager
    async def client():
        events.append("open")
        yield "client"
        events.append("close")

    async def waits(row, client):
        if row.x < 5:
            return row.x
        try:
            await asyncio.Event().wait()
        finally:
            events.append("cancelled")

    output = task(waits, resource=client, capacity=7).run(batches(100))
    assert rows([next(output)]) == [(x, x) for x in range(5)]
    output.close()
    assert events == ["open", *["cancelled"] * 7, "close"]


def test_a_failure_ends_the_task_and_closes_the_resource():
    events = []

    @contextlib.contextmanager
    def client():
        yield
        events.append("close")

    async def fails(row, client):
        raise ValueError("no")

    with pytest.raises(pb.CallFailed, match="ValueError: no") as failure:
        list(task(fails, resource=client).run(batches(3)))
    assert failure.value.attempts == 1
    assert events == ["close"]


def test_a_failure_of_the_input_ends_the_task():
    def broken():
        yield from batches(3)
        raise OSError("the input broke")

    with pytest.raises(OSError, match="the input broke"):
        list(task(double).run(broken()))


def test_a_resource_that_fails_to_open_ends_the_task():
    def refused():
        raise ConnectionRefusedError("nobody there")

    async def use(row, client):
        return 1

    with pytest.raises(pb.WorkerFailed, match="refused failed to open") as failure:
        list(task(use, resource=refused).run(batches(3)))
    assert failure.value.kind == "ConnectionRefusedError"


@pytest.mark.parametrize("on_error", ["raise", "column"])
def test_a_blocked_loop_ends_the_task_with_its_stack_whatever_becomes_of_failed_rows(on_error):
    release = threading.Event()

    async def hogs(row):
        release.wait(LIMIT_S)

    try:
        with pytest.raises(pb.WorkerFailed, match="EVENT_LOOP_BLOCKED") as failure:
            list(task(hogs, blocked_ms=200, on_error=on_error).run(batches(1)))
        assert "in hogs" in str(failure.value)
        assert "in _run_loop" not in str(failure.value)
    finally:
        release.set()


@pytest.mark.parametrize("in_task", [False, True])
def test_sys_exit_ends_the_task_with_an_error_and_not_the_process(in_task):
    async def leaves(row):
        raise SystemExit(3)

    async def leaves_in_a_task(row):
        task = asyncio.get_running_loop().create_task(leaves(row))
        await asyncio.sleep(LIMIT_S)
        return task

    with pytest.raises(pb.WorkerFailed, match="SystemExit: 3"):
        list(task(leaves_in_a_task if in_task else leaves).run(batches(1)))


def test_input_columns_are_passed_on_untouched_even_where_python_could_not_hold_them():
    far = pa.array([2**62, None], pa.timestamp("us"))  # the year 148,000
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), far], ["x", "far"])
    one = task(double)
    one._names = ["x", "far", "y"]
    (out,) = one.run(iter([batch]))
    assert out.column("far").equals(far)
    assert out.column("y").to_pylist() == [2, 4]


def test_a_call_id_tells_operator_partition_and_row(spark):
    async def identify(row):
        return pb.call_id()

    df = spark.range(0, 4, 1, 2)

    def ids_of(name, returns):
        out = df.transform(pb.async_io, identify, returns=returns, name=name, engine="python")
        return [row[1] for row in out.collect()]

    ids = [ids_of("a", "c string"), ids_of("a", "c string"), ids_of("a", "d string")]
    assert len({one for some in ids for one in some}) == 12


def test_a_plain_function_runs_in_as_many_threads_as_the_capacity_says():
    together = threading.Barrier(600)

    def meet(row):
        together.wait(LIMIT_S)
        return row.x

    one = task(meet, capacity=600, ordered=False)
    assert sorted(rows(one.run(batches(600)))) == [(x, x) for x in range(600)]


@pytest.mark.parametrize("when", ["before the first await", "woken by one event"])
def test_many_calls_that_compute_for_a_moment_are_no_blocked_loop(when):
    woken = asyncio.Event()

    async def computes(row):
        if row.x == 119:
            woken.set()
        if when == "woken by one event":
            await woken.wait()
        end = time.perf_counter() + 0.01
        while time.perf_counter() < end:
            pass
        return row.x

    one = task(computes, capacity=120, blocked_ms=300)
    assert rows(one.run(batches(120))) == [(x, x) for x in range(120)]


def test_what_goes_wrong_beside_the_calls_ends_the_task_with_its_traceback(monkeypatch):
    def breaks(self, elements):
        raise MemoryError("while a chunk was made")

    monkeypatch.setattr(OutputBuilder, "build", breaks)
    with pytest.raises(pb.WorkerFailed, match="MemoryError: while a chunk was made"):
        list(task(double).run(batches(3)))


@pytest.mark.parametrize("step", ["_begin", "_on_deadline", "_retry", "_send_group"])
def test_no_step_of_the_operator_fails_in_silence(monkeypatch, step):
    def breaks(self, *arguments):
        raise MemoryError(step)

    async def call(given):
        if step == "_on_deadline":
            await asyncio.Event().wait()
        raise ValueError

    monkeypatch.setattr(AsyncOperator, step, breaks)
    size = 2 if step == "_send_group" else None
    one = task(call, timeout="100ms", retry=pb.Retry(2, backoff="1ms"), batch_size=size)
    with pytest.raises(pb.WorkerFailed, match=f"MemoryError: {step}"):
        list(one.run(batches(1)))


def test_a_task_that_ends_early_says_nothing_of_calls_that_will_not_stop(capfd, monkeypatch):
    monkeypatch.setattr("pillarbox._async.python_task._STOP_LIMIT_S", 0.3)

    async def stubborn(row):
        if row.x == 0:
            return 0
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)
        return 1

    released = threading.Event()
    output = task(stubborn, capacity=5).run(batches(5))
    assert rows([next(output)]) == [(0, 0)]
    output.close()
    released.set()
    gc.collect()
    assert "Task was destroyed" not in capfd.readouterr().err


def test_ids_of_calls_have_the_number_of_the_partition_that_is_in_the_rows():
    async def own_id(row):
        return pb.call_id()

    def run(*batches):
        scope = CallScope("op", in_stream=False)
        options = options_for()
        places, names, told = [0], ["x", "y"], ToldByTasks(None)
        task = run_task(
            shipped, options, places, NO_KEYS, names, scope, Values(), told, iter(batches)
        )
        return rows(task)

    returns = t.StructType().add("y", "string")
    command = Command(own_id, True, False, None, None, X, returns, "own_id")
    shipped = pickle.loads(pickle.dumps(Shipped(command)))
    empty = pa.RecordBatch.from_pydict(
        {"x": pa.array([], pa.int64()), "p": pa.array([], pa.int32())}
    )

    def full(partition, *values):
        part = pa.array([partition] * len(values), pa.int32())
        return pa.RecordBatch.from_pydict({"x": pa.array(values, pa.int64()), "p": part})

    first = run(empty, full(7, 1, 2), full(7, 1, 2))
    assert [row[0] for row in first] == [1, 2, 1, 2]
    assert len({row[1] for row in first}) == 4
    assert run(full(7, 1, 2), full(7, 1), empty, full(7, 2)) == first
    assert not {*run(full(8, 1, 2, 1, 2))} & {*first}
    assert [row in first for row in run(full(7, 1, 3, 1))] == [True, False, True]
    assert run(empty) == []


def test_the_id_of_a_call_is_of_all_that_the_function_sees():
    def id_of(value, value_type, columns=(0,)):
        batch = pa.RecordBatch.from_arrays([pa.array([value], value_type), [1]], ["x", "y"])
        return Element("scope", 0, batch, 0, columns, None, ()).call_id()

    values = [
        (1, pa.int64()), (None, pa.int64()), (1.0, pa.float64()), (-1.0, pa.float64()),
        (0.0, pa.float64()), (-0.0, pa.float64()), ("1", pa.string()), (b"1", pa.binary()),
        (True, pa.bool_()), (Decimal("1.0"), pa.decimal128(3, 1)), ([1], pa.list_(pa.int64())),
        ([None], pa.list_(pa.int64())), ([], pa.list_(pa.int64())),
        ({"a": 1, "b": None}, pa.struct({"a": pa.int64(), "b": pa.int64()})),
        ({"a": None, "b": 1}, pa.struct({"a": pa.int64(), "b": pa.int64()})),
    ]  # fmt: skip
    moment = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    in_zones = {
        id_of([moment], pa.list_(pa.timestamp("us", zone))) for zone in ("UTC", "Europe/Berlin")
    }
    assert len(in_zones) == 1
    ids = [*in_zones, *(id_of(*one) for one in values)]
    assert len(set(ids)) == len(ids)
    del ids[0]
    assert ids == [id_of(*one) for one in values]
    assert id_of(1, pa.int64(), columns=(1,)) == id_of(2, pa.int64(), columns=(1,))


def test_columns_are_found_by_position_where_names_come_twice(spark):
    schema = spark.createDataFrame([], "x long, x string, y long").schema
    assert positions(schema, None, schema) == [0, 1, 2]
    assert positions(schema, ["y"], t.StructType([schema["y"]])) == [2]
