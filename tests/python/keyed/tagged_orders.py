"""Random rows of three inputs, and the order in which a function must get them; without Spark."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

import pillarbox as pb

# Neither the alphabet's order nor that of the times.
TAGS = ("rates", "orders", "control")
START = datetime(2026, 11, 1, tzinfo=timezone.utc)
RETURNS = "k string, n bigint, tag string, minute bigint, step int, id int"


@dataclass(frozen=True)
class Item:
    """``step`` is its micro-batch, ``id`` its place in all of them."""

    tag: str
    k: str
    minute: int
    step: int
    id: int

    @property
    def at(self) -> datetime:
        return START + timedelta(minutes=self.minute)


def items(random: Random, count: int = 90, steps: int = 3) -> list[Item]:
    """A few keys and times, so that most rows share theirs with rows of other inputs."""
    return [
        Item(
            *(random.choice(TAGS), random.choice("ab"), random.randrange(6)),
            *(number * steps // count, number),
        )
        for number in range(count)
    ]


Place = tuple[int, ...]


def by_time(item: Item) -> Place:
    return item.minute, TAGS.index(item.tag)


def by_micro_batch(item: Item) -> Place:
    return item.step, item.minute, TAGS.index(item.tag)


def sorted_by(order: Any, rows: list[Item]) -> dict[str, list[Place]]:
    """The oracle: what the rows of each key are sorted by, in the order that is promised."""
    found: dict[str, list[Place]] = defaultdict(list)
    for item in sorted(rows, key=order):
        found[item.k].append(order(item))
    return dict(found)


def seen_by(order: Any, rows: list[Item], emitted: list[Any]) -> dict[str, list[Place]]:
    """The same of the rows that a function got, which have numbered themselves."""
    known = {item.id: item for item in rows}
    assert len(emitted) == len(rows)
    found: dict[str, list[Place]] = defaultdict(list)
    for k, _, tag, minute, step, number in sorted(map(tuple, emitted), key=lambda row: row[:2]):
        item = known[number]
        assert (k, tag, minute, step) == (item.k, item.tag, item.minute, item.step)
        found[k].append(order(item))
    return dict(found)


def emitted_of(row: Any, n: int) -> tuple[Any, ...]:
    """Of the struct of the row's own input; all others must be null."""
    own = row[row.tag]
    assert [tag for tag in TAGS if row[tag] is not None] == [row.tag]
    return row.k, n, row.tag, own.minute, own.step, own.id


class Numbers(pb.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    def process(self, row: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        return emitted_of(row, n)


class NumbersAwaited(pb.AsyncKeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.value_state("n", "bigint")

    async def process(self, row: Any, ctx: Any) -> Any:
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        return emitted_of(row, n)


class NumbersColumns(pb.ArrowKeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        ctx.value_state("n", "bigint")

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        counts = pb.columns.running_count(state.index, state["n"])
        state["n"] = pb.columns.group_last(counts, state.index, state["n"])
        rows = [
            (row["k"], n, row["tag"], own["minute"], own["step"], own["id"])
            for row, n in zip(batch.to_pylist(), counts.to_pylist(), strict=True)
            for own in [row[row["tag"]]]
        ]
        names = [column.split()[0] for column in RETURNS.split(", ")]
        return {
            name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }
