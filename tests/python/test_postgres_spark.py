"""Functions with a pool of connections, against a PostgreSQL server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from postgres_server import server
from pyspark.sql import SparkSession

import pillarbox as pb
from spark_support import Kept, by_value

asyncpg = pytest.importorskip("asyncpg", reason="tools/integration installs asyncpg")
psycopg = pytest.importorskip("psycopg", reason="tools/integration installs psycopg")
psycopg_pool = pytest.importorskip("psycopg_pool", reason="tools/integration installs psycopg_pool")
by_value(__name__)
pytestmark = [pytest.mark.integration, pytest.mark.classic]

PRODUCTS = 300
CONNECTIONS = 3
QUERY = "SELECT name, price, pg_backend_pid() AS pid FROM products WHERE number = "


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server() as url:
        run(
            url, "CREATE TABLE products (number bigint PRIMARY KEY, name text, price numeric(9, 2))"
        )
        rows = f"SELECT n, 'product ' || n, n / 4.0 FROM generate_series(0, {PRODUCTS - 1}) n"
        run(url, f"INSERT INTO products {rows}")
        yield url


def run(url: str, statement: str) -> list[Any]:
    async def once() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            return list(await connection.fetch(statement))
        finally:
            await connection.close()

    return asyncio.run(once())


def asyncpg_pool(url: str) -> Any:
    return asyncpg.create_pool(url, min_size=1, max_size=CONNECTIONS)


async def one_by_asyncpg(row: Any, pool: Any) -> Any:
    return await pool.fetchrow(QUERY + "$1", row.id)


async def list_by_asyncpg(rows: list[Any], pool: Any) -> list[Any]:
    numbers = [row.id for row in rows]
    found = await pool.fetch(QUERY.replace("SELECT", "SELECT number,") + "ANY($1)", numbers)
    known = {one["number"]: {name: one[name] for name in ("name", "price", "pid")} for one in found}
    return [known.get(number) for number in numbers]


def in_thread_by_psycopg(row: Any, pool: Any) -> Any:
    with pool.connection() as connection:
        return connection.execute(QUERY + "%s", (row.id,)).fetchone()


def psycopg_threads_pool(url: str) -> Any:
    return psycopg_pool.ConnectionPool(url, min_size=1, max_size=CONNECTIONS, open=False)


class ByPsycopg(pb.AsyncFunction):
    """Opens its pool in the worker."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def open(self, ctx: Any) -> None:
        pool = partial(psycopg_pool.AsyncConnectionPool, self.url, min_size=1, open=False)
        self.pool = pool(max_size=CONNECTIONS)
        await self.pool.open()

    async def invoke(self, row: Any) -> Any:
        async with self.pool.connection() as connection:
            found = await connection.execute(QUERY + "%s", (row.id,))
            return await found.fetchone()

    async def close(self) -> None:
        await self.pool.close()


FORMS: dict[str, Callable[[str], tuple[Any, dict[str, Any]]]] = {
    "asyncpg": lambda url: (one_by_asyncpg, {"resource": partial(asyncpg_pool, url)}),
    "asyncpg, lists": lambda url: (
        list_by_asyncpg,
        {"resource": partial(asyncpg_pool, url), "batch_size": 50},
    ),
    "psycopg in threads": lambda url: (
        in_thread_by_psycopg,
        {"resource": partial(psycopg_threads_pool, url), "capacity": 20},
    ),
    "psycopg, a class": lambda url: (ByPsycopg(url), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_pool_answers_for_each_row_with_no_more_connections_than_it_has(
    spark: SparkSession, url: str, engine: str, form: str
) -> None:
    function, options = FORMS[form](url)
    rows = spark.range(0, 2 * PRODUCTS, 1, 2)
    returns = "name string, price decimal(9, 2), pid int"
    found = rows.transform(
        pb.async_io, function, returns=returns, engine=engine, timeout="1 minute", **options
    ).collect()
    told = {row.id: (row.name, row.price) for row in found}
    assert len(found) == len(told) == 2 * PRODUCTS
    for number in range(2 * PRODUCTS):
        name, price = told[number]
        is_known = number < PRODUCTS
        assert name == (f"product {number}" if is_known else None)
        assert price is None if not is_known else float(price) == number / 4
    assert 1 <= len({row.pid for row in found} - {None}) <= 2 * CONNECTIONS


async def cutting(row: Any, pool: Any) -> Any:
    """Its first attempt at row 50 ends all other connections of pools, and its own."""
    if row.id == 50 and pb.current_call().attempt == 1:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = "
        await pool.fetch(others + "'client backend' AND pid <> pg_backend_pid()")
        await pool.fetch("SELECT pg_terminate_backend(pg_backend_pid())")
    return await pool.fetchval("SELECT price::float8 FROM products WHERE number = $1", row.id)


def test_connections_that_the_server_ends_are_errors_that_a_retry_mends(
    spark: SparkSession, url: str, engine: str
) -> None:
    rows = spark.range(0, 200, 1, 2)
    options = {"returns": "price double", "resource": partial(asyncpg_pool, url), "engine": engine}
    failed = rows.transform(pb.async_io, cutting, on_error="column", **options)
    errors = {row.id: row.error for row in failed.collect() if row.error is not None}
    assert "terminating connection" in errors[50].message
    retry = pb.Retry(5, backoff="10ms")
    mended = rows.transform(pb.async_io, cutting, retry=retry, **options)
    assert {row.id: row.price for row in mended.collect()} == {n: n / 4 for n in range(200)}


async def insert(row: Any, pool: Any) -> int:
    statement = "INSERT INTO payments VALUES ($1, $2) ON CONFLICT DO NOTHING"
    await pool.execute(statement, pb.call_id(), row.id)
    return 1


def test_a_stream_that_starts_again_inserts_each_row_once_by_its_call_id(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    run(url, "CREATE TABLE payments (call text PRIMARY KEY, number bigint)")
    source = str(tmp_path / "source")
    spark.range(0, 100, 1, 4).write.parquet(source)

    def failing(batch: Any, number: int) -> list[Any]:
        batch.collect()
        if number == 1 and not os.path.exists(tmp_path / "failed"):
            Path(tmp_path / "failed").touch()
            raise RuntimeError("after its calls")
        return []

    def start() -> Any:
        stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(source)
        calls = stream.transform(
            pb.async_io, insert, returns="n int", resource=partial(asyncpg_pool, url)
        )
        sink = Kept(str(tmp_path / "kept"), failing)
        writer = calls.writeStream.foreachBatch(sink).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    with pytest.raises(Exception, match="after its calls"):
        start().awaitTermination()
    start().awaitTermination()
    found = run(url, "SELECT number, count(*) AS times FROM payments GROUP BY number")
    assert {row["number"]: row["times"] for row in found} == dict.fromkeys(range(100), 1)


class Spent(pb.AsyncKeyedProcessFunction):
    """The sum of the prices of a buyer's products, which the database has."""

    def open(self, ctx: Any) -> None:
        self.sum = ctx.value_state("sum", "double")

    async def process(self, row: Any, ctx: Any) -> Any:
        price = await ctx.resource.fetchval(
            "SELECT price::float8 FROM products WHERE number = $1", row.id
        )
        self.sum.update((self.sum.value() or 0.0) + price)
        yield {"buyer": row.buyer, "sum": self.sum.value()}


def test_a_keyed_function_adds_up_what_the_database_tells(spark: SparkSession, url: str) -> None:
    rows = spark.range(0, 200, 1, 2).selectExpr("id", "id % 10 AS buyer")
    spent = rows.transform(
        pb.process_keyed_async,
        Spent(),
        by="buyer",
        returns="buyer long, sum double",
        resource=partial(asyncpg_pool, url),
        timeout="1 minute",
    )
    sums = {row[0]: row[1] for row in spent.groupBy("buyer").agg({"sum": "max"}).collect()}
    assert sums == {buyer: sum(n / 4 for n in range(buyer, 200, 10)) for buyer in range(10)}
