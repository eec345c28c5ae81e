"""A service that is down, silent, overloaded or loses connections for a while: no row is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pillarbox as pb
from spark_support import CallLog, by_value, eventually, run_stream

by_value(__name__)

ROWS = 60
BEFORE = 15
# A stale connection fails one call, and is not used again.
FAULTS = {"down": 12, "silent": 12, "stale": 3, "busy": 12}


class Service:
    """
    Doubles numbers, one to a line, on a port of this machine. After some answers its fault begins.

    ``down`` takes no connections and closes those there are, ``silent`` answers nobody, ``stale``
    answers nobody on the connections that there were, and ``busy`` answers "503".
    """

    def __init__(self, fault: str) -> None:
        self.fault, self.faulty, self.answers = fault, False, 0
        self.connections: set[asyncio.StreamWriter] = set()
        self.stale: set[asyncio.StreamWriter] = set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.port = 0
        self.run(self.listen())

    def run(self, step: Any) -> None:
        asyncio.run_coroutine_threadsafe(step, self.loop).result(30)

    async def listen(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def serve(self, lines: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self.connections.add(out)
        try:
            while line := await lines.readline():
                answer = self.answer(int(line), out)
                if answer is not None:
                    out.write(f"{answer}\n".encode())
        except ConnectionError:
            pass
        finally:
            self.connections.discard(out)
            out.close()

    def answer(self, number: int, out: asyncio.StreamWriter) -> int | None:
        if not self.faulty and self.answers == BEFORE:
            self.faulty = True
            self.stale = set(self.connections)
            if self.fault == "down":
                self.server.close()
                for connection in self.stale:
                    connection.close()
        if self.faulty and self.fault == "busy":
            return 503
        if (self.faulty and self.fault != "stale") or out in self.stale:
            return None
        self.answers += 1
        return number * 2 + 1000

    async def end_fault(self) -> None:
        """What there was of connections stays as lost as it was."""
        self.faulty, self.answers = False, BEFORE + 1
        if not self.server.is_serving():
            await self.listen()

    def stop(self) -> None:
        async def closed() -> None:
            self.server.close()
            for connection in list(self.connections):
                connection.close()
            served = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*served, return_exceptions=True)

        self.run(closed())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(30)
        self.loop.close()


class Busy(Exception):
    """An overloaded service."""


def client(port: int) -> Any:
    """A resource: connections that are used again, but for those whose call did not end well."""

    @asynccontextmanager
    async def pool() -> AsyncIterator[Any]:
        idle: list[Any] = []

        async def ask(number: int) -> int:
            connection = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
            lines, out = connection
            try:
                out.write(f"{number}\n".encode())
                answer = await lines.readline()
                if not answer:
                    raise ConnectionError("the service has closed the connection")
            except BaseException:
                out.close()
                raise
            idle.append(connection)
            if int(answer) == 503:
                raise Busy("503")
            return int(answer) - 1000

        yield ask
        for _, out in idle:
            out.close()

    return pool


def doubled(log: CallLog) -> Any:
    async def ask(row: Any, service: Any) -> int:
        try:
            return int(await service(row.id))
        except BaseException:
            log.write("failed", key=row.id)
            raise

    return ask


@pytest.fixture(params=FAULTS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    made = Service(request.param)
    yield made
    made.stop()


def end_after_failures(service: Service, log: CallLog) -> threading.Thread:
    """Mends the service once enough attempts have failed."""

    def wait() -> None:
        wanted = FAULTS[service.fault]
        eventually(lambda: len(log.events("failed")) >= wanted, f"{wanted} failed attempts")
        service.run(service.end_fault())

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def calls(df: DataFrame, service: Service, log: CallLog, **options: Any) -> DataFrame:
    return pb.async_io(
        df,
        doubled(log),
        returns="twice long",
        resource=client(service.port),
        capacity=5,
        retry=pb.Retry(100, backoff="5ms", max_backoff="50ms"),
        **{"timeout": pb.Timeout(attempt="300ms"), **options},
    )


EXPECTED = [(i, 2 * i) for i in range(ROWS)]


@pytest.mark.parametrize("engine", ["jvm", "python"])
def test_a_batch_gets_through(
    spark: SparkSession, tmp_path: Path, service: Service, engine: str
) -> None:
    log = CallLog(str(tmp_path / "calls"))
    mending = end_after_failures(service, log)
    found = calls(spark.range(0, ROWS, 1, 2), service, log, engine=engine).collect()
    mending.join()
    assert [tuple(row) for row in found] == EXPECTED


@pytest.mark.parametrize("carry_over", [False, True])
def test_a_stream_gets_through(
    spark: SparkSession, tmp_path: Path, service: Service, carry_over: bool
) -> None:
    log = CallLog(str(tmp_path / "calls"))
    for number in range(6):
        first = number * 10
        spark.range(first, first + 10, 1, 1).write.parquet(f"{tmp_path}/in/{number}")
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    stream = rows.parquet(f"{tmp_path}/in/*")
    options: dict[str, Any] = {"carry_over": pb.CarryOver(slots=2)} if carry_over else {}
    mending = end_after_failures(service, log)
    run_stream(calls(stream, service, log, engine="jvm", **options), tmp_path, "parquet")
    mending.join()
    found = spark.read.parquet(f"{tmp_path}/out").orderBy("id").collect()
    assert [tuple(row) for row in found] == EXPECTED


def test_what_does_not_come_back_in_time_is_told_by_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With ``timeout`` a row does not wait for ever, and ``on_error`` says what becomes of it."""
    service = Service("silent")
    log = CallLog(str(tmp_path / "calls"))
    found = calls(
        spark.range(0, 30, 1, 1),
        service,
        log,
        timeout=pb.Timeout("2s", attempt="1s"),
        on_error="column",
    ).collect()
    service.stop()
    good = [row for row in found if row.error is None]
    assert len(found) == 30
    assert len(good) == BEFORE
    assert all(row.twice == 2 * row.id for row in good)
    assert {row.error.kind for row in found if row.error is not None} == {"TIMEOUT"}
