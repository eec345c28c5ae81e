"""The interpreter of ``model`` as coroutines: the same operations, with awaits between them.

Attempts that fail are part of the program: a row may be told to do other things first, and to fail.
What these did must not be seen by anybody.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pillarbox as pb
from keyed.model import Interpreter, life


class Unlucky(Exception):
    """An attempt that the program wants to fail."""


class AsyncInterpreter(pb.AsyncKeyedProcessFunction):
    """``failures``: how many attempts of a row fail, by the row's operations and key."""

    def __init__(self, ttl: dict[str, Any] | None, seed: int = 0, most_failures: int = 0) -> None:
        self.ttl = life(ttl)
        self.seed, self.most_failures = seed, most_failures
        self.tried: Counter[Any] = Counter()

    open = Interpreter.open
    do = Interpreter.do
    moment = Interpreter.moment

    async def process(self, row: Any, ctx: Any) -> Any:
        ops = json.loads(row.ops)
        row_id = ctx.key, ctx.timestamp, row.ops
        self.tried[row_id] += 1
        dice = random.Random(f"{self.seed} {row_id} {self.tried[row_id]}")
        await self.wait(dice)
        if self.tried[row_id] <= dice_of(self.seed, row_id, self.most_failures):
            await self.spoil(ops, ctx, dice)
        self.tried[row_id] = 0
        results = []
        for op in ops:
            results.append(self.do(op, ctx))
            await self.wait(dice)
        yield row.k, json.dumps([ctx.timestamp, *results])

    async def spoil(self, ops: list[Any], ctx: Any, dice: random.Random) -> None:
        """Writes what must not last, and fails, or hangs."""
        other = [
            ["value.update", 77], ["largest.add", 88], ["elements.add", 77], ["elements.clear"],
            ["entries.put", "x", 77], ["entries.remove", "y"], ["entries.clear"], *ops,
        ]  # fmt: skip
        for op in dice.sample(other, dice.randint(1, len(other))):
            self.do(op, ctx)
            await self.wait(dice)
        if dice.random() < 0.3:
            await asyncio.sleep(3600)  # until the attempt timeout
        raise Unlucky

    async def wait(self, dice: random.Random) -> None:
        if dice.random() < 0.6:
            await asyncio.sleep(dice.choice([0, 0, 0.001, 0.002]))


def dice_of(seed: int, row_id: Any, most: int) -> int:
    return random.Random(f"{seed} {row_id}").randint(0, most)
