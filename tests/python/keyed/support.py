"""State handles without rows: a key and clocks are set by hand."""

from __future__ import annotations

from typing import Any

import pillarbox as pb
from pillarbox._harness.memory import KeySpace
from pillarbox._keyed.context import UNKNOWN
from pillarbox._keyed.runtime import KeyedRuntime


class Declares(pb.KeyedProcessFunction):
    """A function that only opens states."""

    def __init__(self, declare: Any) -> None:
        self.declare = declare

    def open(self, ctx: Any) -> None:
        self.handle = self.declare(ctx)


class AtKeys:
    """Opens ``declare(ctx)``; ``at`` makes a key current and gives the handle."""

    def __init__(self, declare: Any, **options: Any) -> None:
        self.function = Declares(declare)
        self.runtime = KeyedRuntime(self.function, "test", **options)
        self.runtime.open()
        self.space = KeySpace(self.runtime)
        self.runtime.begin(self.space.keys)

    def at(
        self,
        key: Any = "a",
        now: int = 0,
        watermark: int = UNKNOWN,
        timestamp: int | None = None,
    ) -> Any:
        self.runtime.set_clocks(watermark, now)
        self.runtime.context.timestamp = timestamp
        self.runtime.context.enter(self.space.key_index(key))
        return self.function.handle
