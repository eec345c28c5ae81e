"""The driver of ``overshoot``: rows that use many tokens, and then rows that use few."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from pyspark.sql import Row, SparkSession

import pillarbox as pb

url, calls, tokens, journal = sys.argv[1:]


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        yield session


async def ask(row: Row, session: aiohttp.ClientSession) -> int:
    asked = {"id": row.id, "prompt_tokens": row.prompt_tokens}
    async with session.post(url, json=asked) as response:
        answer = await response.json()
    pb.current_call().report_usage(tokens=answer["tokens"])
    return int(answer["answer"])


builder = SparkSession.builder.config("spark.ui.enabled", "false")
builder = builder.config("spark.task.maxFailures", "8")
builder = builder.config("spark.deploy.maxExecutorRetries", "-1")
spark = pb.configure(builder).getOrCreate()
many = spark.range(0, 480, 1, 6).selectExpr("id", "200L AS prompt_tokens")
few = spark.range(480, 1680, 1, 6).selectExpr("id", "20L AS prompt_tokens")
df = many.union(few).transform(
    pb.async_io,
    ask,
    returns="answer bigint",
    resource=client,
    name="ask",
    capacity=40,
    ordered=False,
    journal=journal,
    limit=[
        pb.Limit(per_minute=int(calls)),
        pb.Limit(per_minute=int(tokens), unit="tokens", estimate="prompt_tokens + 100"),
    ],
)
answers = {row.id: row.answer for row in df.select("id", "answer").collect()}
assert answers == {n: 2 * n for n in range(1680)}
spark.stop()
