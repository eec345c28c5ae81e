"""By ``mapInPandas`` and ``asyncio``; with aiolimiter each of two tasks has half of the limits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pandas as pd
from by_hand import AT_A_TIME, TASKS, answers, limiter, unlimited
from pyspark.sql import SparkSession

url, calls, tokens, rows, out, how = sys.argv[1:]


def ask(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    before = unlimited
    if how == "aiolimiter":
        before = limiter(float(calls) / TASKS, float(tokens) / TASKS)
    for frame in frames:
        asked = zip(frame.id.tolist(), frame.prompt_tokens.tolist(), strict=True)
        found = asyncio.run(answers(url, asked, before, AT_A_TIME // TASKS))
        yield pd.DataFrame({"id": frame.id, "answer": pd.array(found, dtype="Int64")})


spark = SparkSession.builder.master(f"local[{TASKS}]").getOrCreate()
df = spark.read.parquet(rows).mapInPandas(ask, "id bigint, answer bigint")
df.write.mode("overwrite").parquet(out)
