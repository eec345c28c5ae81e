"""The way of a row through a stream of ten rows a second, from its arrival at the source to the
sink's task, with calls in the micro-batch and with calls that outlive it.

The source is a socket, which notes when a row has come. A column behind all others tells when the
sink's task takes it.

``python -m benchmarks.carry_latency``, and a part of ``benchmarks.carry_over``.
"""

from __future__ import annotations

import argparse
import asyncio
import socketserver
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession

import pillarbox as pb

from .measure import session

PER_SECOND = 10
NOW = "cast(reflect('java.lang.System', 'currentTimeMillis') as bigint)"
Build = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Contestant:
    who: str
    call_ms: int
    carry_over: bool = False

    def build(self, df: DataFrame) -> DataFrame:
        if not self.call_ms:
            return df.selectExpr("*", "1L answer")
        seconds = self.call_ms / 1000

        async def call(row: Row) -> int:
            await asyncio.sleep(seconds)
            return 1

        return pb.async_io(
            df, call, returns="answer long", inputs=["value"], ordered=False,
            carry_over=self.carry_over,
        )  # fmt: skip


CONTESTANTS = [
    Contestant("no calls", 0),
    *(
        Contestant(f"`async_io`{', carry_over=True' if carried else ''}", ms, carried)
        for ms in (10, 200, 2000)
        for carried in (False, True)
    ),
]


class Lines(socketserver.ThreadingTCPServer):
    """Sends a line ten times a second, to whoever connects."""

    daemon_threads = True

    def __init__(self, count: int) -> None:
        super().__init__(("127.0.0.1", 0), Sender)
        self.count = count
        self.done = threading.Event()


class Sender(socketserver.BaseRequestHandler):
    server: Lines

    def handle(self) -> None:
        for number in range(self.server.count):
            self.request.sendall(f"{number}\n".encode())
            time.sleep(1 / PER_SECOND)
        self.server.done.wait()


@dataclass(frozen=True)
class Latency:
    """Milliseconds of each row, in the order of their numbers, and of each micro-batch."""

    rows: list[int]
    batches: list[int]


def run(spark: SparkSession, one: Contestant, count: int, skipped: int) -> Latency:
    """The first rows wait for the worker's start, and are skipped."""
    with Lines(count) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host, port = server.server_address[:2]
        lines = spark.readStream.format("socket").options(host=host, port=port)
        came = lines.option("includeTimestamp", True).load()
        name = "rows_that_left"
        taken = one.build(came).selectExpr(
            "int(value) number", "unix_millis(timestamp) came_at", f"{NOW} left_at"
        )
        query = taken.writeStream.format("memory").queryName(name).start()
        try:
            wait(query, spark, name, count)
            rows = sorted(spark.table(name).collect())
            batches = [p["durationMs"]["triggerExecution"] for p in query.recentProgress]
        finally:
            query.stop()
            server.done.set()
            server.shutdown()
    if [row.number for row in rows] != list(range(count)):
        raise RuntimeError(f"{one}: {count} rows expected, found {len(rows)}")
    latencies = [row.left_at - row.came_at for row in rows[skipped:]]
    return Latency(latencies, batches[len(batches) // 4 :])


def wait(query: Any, spark: SparkSession, name: str, count: int) -> None:
    """Looks at the sink only when all rows should be there, so as not to disturb."""
    time.sleep(count / PER_SECOND)
    until = time.monotonic() + 60
    while spark.table(name).count() < count:
        if time.monotonic() > until or query.exception() is not None:
            raise RuntimeError(f"rows are missing: {query.exception()}")
        time.sleep(0.5)


def table(spark: SparkSession, seconds: int, longest: int = 10_000) -> str:
    count, skipped = seconds * PER_SECOND, 5 * PER_SECOND
    lines = [
        "| stream | a call takes | median | p99 | micro-batch |",
        "|---|--:|--:|--:|--:|",
    ]
    for one in (one for one in CONTESTANTS if one.call_ms <= longest):
        found = run(spark, one, count, skipped)
        call = f"{one.call_ms / 1000:g} s" if one.call_ms else ""
        p50, p99 = (np.percentile(found.rows, share) / 1000 for share in (50, 99))
        batch = statistics.median(found.batches) / 1000
        lines.append(f"| {one.who} | {call} | {p50:.2f} s | {p99:.2f} s | {batch:.2f} s |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


CONDITIONS = (
    f"From the source to the sink: {PER_SECOND} rows a second come through a socket, which notes "
    "the time; the row has left when the sink's task takes it. Default trigger, two partitions, "
    "on a local disk; the first five seconds are left out."
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.carry_latency", description=__doc__)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--longest", type=int, default=10_000, help="ms of a call")
    options = parser.parse_args()
    print(table(session(2, ["jvm"]), options.seconds, options.longest))


if __name__ == "__main__":
    main()
