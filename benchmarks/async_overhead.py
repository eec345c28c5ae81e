"""What a call costs beside its waiting: no-op calls a second, calls in flight, and memory.

* No-op coroutines through Spark in one task, beside what asyncio itself does in the same run.
* HTTP requests with limits of calls and of tokens, which hold nothing back, beside none.
* 10,000 calls in flight in one task: does it work, and how close to perfect.
* Memory of the JVM and of the Python worker with 20,000 and with 200,000 rows: it should follow the
  capacity, not the rows.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import pillarbox as pb

from . import report
from .measure import Usage, run, session, usage
from .metered.service import serving

HELD_SECONDS = 1.0
MB = 1_000_000


async def no_op(row: Row) -> int:
    return row.id


class InFlight:
    """Calls under way in this worker; touched by the event loop's thread only."""

    now = 0


async def hold(row: Row) -> int:
    """Waits a second; answers how many calls were in flight when it began."""
    InFlight.now += 1
    seen = InFlight.now
    try:
        await asyncio.sleep(HELD_SECONDS)
    finally:
        InFlight.now -= 1
    return seen


async def short(row: Row) -> int:
    await asyncio.sleep(0.001)
    return row.id


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)  # the capacity limits calls
    async with aiohttp.ClientSession(connector=connector, raise_for_status=True) as session:
        yield session


def request(url: str) -> Callable[[Row, aiohttp.ClientSession], Any]:
    async def ask(row: Row, session: aiohttp.ClientSession) -> int:
        async with session.post(url, json={"id": row.id, "prompt_tokens": 50}) as response:
            answer = await response.json()
        pb.current_call().report_usage(tokens=answer["tokens"])
        return row.id

    return ask


LIMITS = [
    pb.Limit(per_second=1_000_000),
    pb.Limit(per_second=1_000_000_000, unit="tokens", estimate="150 + id % 2"),
]


def main() -> None:
    options = arguments()
    memory = [line for engine in options.engines for line in memory_lines(engine, options)]
    spark = session(1, options.engines)
    try:
        overhead = Overhead(spark, options)
        parts = [overhead.speed(), overhead.limits(), overhead.many_in_flight()]
        parts.append(MEMORY + "\n".join(memory))
    finally:
        spark.stop()
    parts.append(WAITING + "\n".join(waiting_lines(options)))
    page = report.page(
        "Async I/O, the cost of a call",
        "What does a call cost beside the service's own time, and how much memory do calls take?",
        parts,
        f"One task, unordered; medians of {options.repeats}. The CPU time is that of the JVM and "
        "of the Python worker together.",
        "python -m benchmarks.async_overhead --output docs/benchmarks",
    )
    print(page)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "overhead.md").write_text(page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.async_overhead", description=__doc__)
    parser.add_argument("--calls", type=int, default=300_000, help="no-op calls of a run")
    parser.add_argument("--requests", type=int, default=20_000, help="HTTP requests of a run")
    parser.add_argument("--rows", type=int, nargs=2, default=[20_000, 200_000], help="for memory")
    parser.add_argument("--in-flight", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engines", nargs="+", default=["jvm", "python"])
    parser.add_argument("--output", type=Path, help="folder to write overhead.md to")
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat")
    options = parser.parse_args()
    if options.quick:
        options.calls, options.rows, options.repeats = 20_000, [2_000, 20_000], 1
        options.requests = 2_000
    options.waiting = [(1, 2_000, 1)] if options.quick else [(1, 100_000, 10), (2, 1_000_000, 60)]
    return options


class Overhead:
    """What is measured in one warm session, over each engine."""

    def __init__(self, spark: SparkSession, options: argparse.Namespace) -> None:
        self.spark, self.options = spark, options

    def frame(
        self, rows: int, function: Callable[[Row], object], engine: str, capacity: int = 1_000
    ) -> DataFrame:
        """`rows` calls in one partition, unordered."""
        return pb.async_io(
            self.spark.range(0, rows, 1, 1),
            function,
            returns="answer bigint",
            ordered=False,
            capacity=capacity,
            engine=engine,
        )

    def ids(
        self, rows: int, function: Callable[[Row], object], engine: str, capacity: int = 1_000
    ) -> None:
        """Run a function that answers the row's id."""
        run(self.frame(rows, function, engine, capacity), rows, rows * (rows - 1) / 2)

    def speed(self) -> str:
        """No-op calls: a second of one task, and a second of CPU time over all processes."""
        floors: list[Usage] = []
        found: dict[str, list[Usage]] = {}
        for engine in self.options.engines:
            self.ids(20_000, no_op, engine)
        for _ in range(self.options.repeats):
            floors.append(asyncio.run(asyncio_alone(self.options.calls)))
            for engine in self.options.engines:
                found.setdefault(engine, []).append(self.no_ops(engine))
        lines = [self.line("asyncio alone, a task a call", floors)]
        lines += [self.line(f"pb.async_io, engine {name}", runs) for name, runs in found.items()]
        return (
            f"## No-op calls\n\n{self.options.calls:,} coroutines that return at once, capacity "
            "1,000.\n\n"
            "| how | calls/s of a task | calls/s of CPU time | lowest - highest |\n"
            "|---|--:|--:|--:|\n"
        ) + "\n".join(lines)

    def line(self, who: str, runs: list[Usage]) -> str:
        """Medians, and the spread of the CPU figure: on a busy machine it is wide."""
        a_second = statistics.median(self.options.calls / used.seconds for used in runs)
        of_cpu = sorted(self.options.calls / used.cpu_seconds for used in runs)
        spread = f"{of_cpu[0]:,.0f} - {of_cpu[-1]:,.0f}"
        return f"| {who} | {a_second:,.0f} | {statistics.median(of_cpu):,.0f} | {spread} |"

    def no_ops(self, engine: str) -> Usage:
        with usage() as found:
            self.ids(self.options.calls, no_op, engine)
        return found

    def limits(self) -> str:
        """Requests in pairs, with limits and without, in turn."""
        rows, repeats = self.options.requests, self.options.repeats
        found: dict[bool, list[Usage]] = {False: [], True: []}
        with serving(1e12, 1e12) as url:
            for repeat in range(-1, repeats):
                for is_limited in (False, True) if repeat % 2 else (True, False):
                    used = self.requests(url, rows, is_limited)
                    if repeat >= 0:  # the first pair warms up
                        found[is_limited].append(used)
        pairs = zip(found[True], found[False], strict=True)
        ratios = sorted(limited.cpu_seconds / free.cpu_seconds for limited, free in pairs)
        per_call = [
            statistics.median(used.cpu_seconds for used in found[kind]) / rows * 1e6
            for kind in (False, True)
        ]
        return (
            f"## Limits\n\n{rows:,} HTTP requests, capacity 1,000: with a limit of calls and one "
            "of tokens, which calls report and which hold nothing back, beside the same without "
            "limits.\n\n"
            "| CPU a call without | with two limits | ratio | lowest - highest |\n"
            "|--:|--:|--:|--:|\n"
            f"| {per_call[0]:,.0f} µs | {per_call[1]:,.0f} µs | {statistics.median(ratios):.3f} "
            f"| {ratios[0]:.3f} - {ratios[-1]:.3f} |"
        )

    def requests(self, url: str, rows: int, is_limited: bool) -> Usage:
        frame = pb.async_io(
            self.spark.range(0, rows, 1, 1),
            request(url),
            returns="answer bigint",
            resource=client,
            ordered=False,
            capacity=1_000,
            usage=["tokens"],
            limit=LIMITS if is_limited else None,
        )
        with usage() as found:
            run(frame, rows, rows * (rows - 1) / 2)
        return found

    def many_in_flight(self) -> str:
        """Two rounds of `in_flight` calls of a second each, all at once in one task."""
        capacity = self.options.in_flight
        rows = []
        for engine in self.options.engines:
            started = time.perf_counter()
            calls = self.frame(2 * capacity, hold, engine, capacity)
            most = calls.agg(F.max("answer")).first()[0]
            rows.append(f"| {engine} | {most:,} | {time.perf_counter() - started:.2f} s |")
        return (
            f"## {capacity:,} calls in flight in one task\n\n{2 * capacity:,} calls of "
            f"{HELD_SECONDS:.0f} s each; nothing could be faster than {2 * HELD_SECONDS:.0f} s.\n\n"
            "| engine | most in flight | took |\n|---|--:|--:|\n"
        ) + "\n".join(rows)

    def memory(self, engine: str, capacity: int, rows: int) -> str:
        with usage() as found:
            self.ids(rows, short, engine, capacity)
        worker, jvm = (f"{found.peak_bytes[kind] / MB:,.0f} MB" for kind in ("worker", "jvm"))
        return f"| {engine} | {capacity:,} | {rows:,} | {worker} | {jvm} |"


MEMORY = (
    "## Memory\n\nPeak resident memory while calls of 1 ms run in one task, in a fresh session for "
    "each engine. The JVM takes heap as it likes (limit 2 GB); the worker's figure is the telling "
    "one.\n\n| engine | capacity | rows | worker | JVM |\n|---|--:|--:|--:|--:|\n"
)


WAITING = (
    "## Calls that wait\n\nCoroutines that sleep, all in flight at once, one Python worker a task. "
    "Memory is what the biggest worker has more than with 100 calls of 1 ms in flight.\n\n"
    "| engine | tasks | calls in flight | a call sleeps | took | memory of the worker, a call |\n"
    "|---|--:|--:|--:|--:|--:|\n"
)


def sleeps(seconds: float) -> Callable[[Row], Any]:
    async def wait(row: Row) -> int:
        await asyncio.sleep(seconds)
        return row.id

    return wait


def waiting_lines(options: argparse.Namespace) -> list[str]:
    """In sessions of their own, fewer calls first: a worker's memory never shrinks."""
    lines = []
    for engine in options.engines:
        for tasks, calls, sleep_s in options.waiting:
            spark = session(tasks, options.engines)
            try:
                lines.append(waiting(spark, engine, tasks, calls, sleep_s))
            finally:
                spark.stop()
    return lines


def waiting(spark: SparkSession, engine: str, tasks: int, calls: int, sleep_s: float) -> str:
    def peak(rows: int, function: Callable[[Row], object], capacity: int) -> tuple[float, float]:
        frame = pb.async_io(
            spark.range(0, rows, 1, tasks), function, returns="answer bigint",
            ordered=False, capacity=capacity, engine=engine,
        )  # fmt: skip
        with usage() as found:
            run(frame, rows, rows * (rows - 1) / 2)
        return found.seconds, found.peak_bytes["worker"]

    _, few = peak(2_000 * tasks, short, 100)
    seconds, many = peak(calls, sleeps(sleep_s), calls // tasks)
    a_call = (many - few) * tasks / calls
    return (
        f"| {engine} | {tasks} | {calls:,} | {sleep_s:.0f} s | {seconds:.1f} s | {a_call:,.0f} B |"
    )


def memory_lines(engine: str, options: argparse.Namespace) -> list[str]:
    """Small capacity and few rows first: a worker's memory never shrinks."""
    spark = session(1, options.engines)
    try:
        overhead = Overhead(spark, options)
        sizes = [(c, n) for c in (100, options.in_flight) for n in options.rows]
        return [overhead.memory(engine, capacity, rows) for capacity, rows in sizes]
    finally:
        spark.stop()


async def asyncio_alone(calls: int) -> Usage:
    """The floor: a task a call and an await for it, nothing else, 1,000 at a time."""

    async def nothing() -> None:
        return None

    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls // 1000):
        for task in [asyncio.create_task(nothing()) for _ in range(1000)]:
            await task
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Usage(seconds, {"asyncio": cpu})


if __name__ == "__main__":
    main()
