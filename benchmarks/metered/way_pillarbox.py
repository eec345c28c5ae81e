"""By ``pb.async_io``: two limits and a journal."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from pyspark.sql import Row, SparkSession

import pillarbox as pb

url, calls, tokens, rows, out, journal = sys.argv[1:]


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


spark = pb.configure(SparkSession.builder.master("local[2]")).getOrCreate()
df = pb.async_io(
    spark.read.parquet(rows),
    ask,
    returns="answer bigint",
    resource=client,
    name="ask",
    capacity=25,
    retry=5,
    journal=journal,
    usage=["tokens"],
    limit=[
        pb.Limit(per_minute=int(calls)),
        pb.Limit(per_minute=int(tokens), unit="tokens", estimate="prompt_tokens + 100"),
    ],
)
df.select("id", "answer").write.mode("overwrite").parquet(out)
