"""By Ray Data: two actors, each with half of the limits in aiolimiter."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np
import ray
from by_hand import AT_A_TIME, TASKS, answers, limiter

url, calls, tokens, rows, out, _ = sys.argv[1:]


class Ask:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._before = limiter(float(calls) / TASKS, float(tokens) / TASKS)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        asked = zip(batch["id"].tolist(), batch["prompt_tokens"].tolist(), strict=True)
        found = self._loop.run_until_complete(answers(url, asked, self._before, AT_A_TIME // TASKS))
        numbers = np.array([np.nan if one is None else one for one in found], dtype="float64")
        return {"id": batch["id"], "answer": numbers}


ray.init(num_cpus=TASKS + 1, include_dashboard=False, log_to_driver=False)
ray.data.DataContext.get_current().enable_progress_bars = False
df = ray.data.read_parquet(rows).map_batches(
    Ask, compute=ray.data.ActorPoolStrategy(size=TASKS), batch_size=500
)
df.write_parquet(out, mode=ray.data.SaveMode.OVERWRITE)
