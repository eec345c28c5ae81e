"""By an asynchronous function of Daft, which runs in one process, with aiolimiter."""

from __future__ import annotations

import sys

import aiohttp
import daft
from by_hand import AT_A_TIME, answer, limiter

url, calls, tokens, rows, out, _ = sys.argv[1:]
made: dict[str, object] = {}


@daft.func(max_concurrency=AT_A_TIME, use_process=False)
async def ask(call: int, prompt_tokens: int) -> int | None:
    if not made:  # a limiter belongs to the loop on which it is used
        made["before"] = limiter(float(calls), float(tokens))
        made["session"] = aiohttp.ClientSession()
    return await answer(made["session"], url, call, prompt_tokens, made["before"])  # type: ignore[arg-type]


df = daft.read_parquet(f"{rows}/*.parquet")
df = df.select(df["id"], ask(df["id"], df["prompt_tokens"]).alias("answer"))
df.write_parquet(out, write_mode="overwrite")
