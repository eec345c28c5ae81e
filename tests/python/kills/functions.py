"""What runs in workers: functions that ask the service, or tell it where they stand."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from dataclasses import dataclass
from typing import Any

import pillarbox as pb
from keyed.order_function import FoldsColumns, Plays


@dataclass(frozen=True)
class Gate:
    """The way to the service, from drivers and workers; ``start`` is that of the query."""

    port: int
    seed: int
    start: int = -1

    def line(self, op: str, what: dict[str, Any]) -> bytes:
        own = {"seed": self.seed, "start": self.start, "pid": os.getpid()}
        return json.dumps({"op": op, **own, **what}).encode() + b"\n"

    def tell(self, op: str, **what: Any) -> dict[str, Any]:
        """Waits for the reply in the thread."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(self.line(op, what))
            return replied(connection.makefile().readline())

    async def ask(self, op: str, **what: Any) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        try:
            writer.write(self.line(op, what))
            return replied((await reader.readline()).decode())
        finally:
            writer.close()


def replied(line: str) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(line) if line else {"again": "the service hung up"}
    if "again" in reply:
        raise ConnectionError(reply["again"])
    if "never" in reply:
        raise pb.NotRetryable(reply["never"])
    return reply


def request(rows: list[Any]) -> dict[str, Any]:
    return asking([row.ask for row in rows], getattr(rows[0], "tenant", ""))


def asking(asks: list[str], tenant: str = "") -> dict[str, Any]:
    return {"asks": asks, "tenant": tenant, "ids": list(pb.current_call().ids)}


def function_of(form: str, gate: Gate) -> Any:
    async def one(row: Any) -> Any:
        return (await gate.ask("call", **request([row])))["answers"][0]

    def plain(row: Any) -> Any:
        return gate.tell("call", **request([row]))["answers"][0]

    async def several(rows: list[Any]) -> Any:
        return (await gate.ask("call", **request(rows)))["answers"]

    async def value(ask: str) -> str:
        return str((await gate.ask("call", **asking([ask])))["answers"][0])

    async def submit(rows: list[Any]) -> Any:
        key = pb.current_call().id
        return (await gate.ask("submit", **request(rows), key=key))["ticket"]

    async def collect(ticket: str) -> Any:
        return (await gate.ask("collect", ticket=ticket))["answers"]

    forms: dict[str, Any] = {"def": plain, "list": several, "udf": value}
    return pb.Ticketed(submit, collect, poll="30ms") if form == "tickets" else forms.get(form, one)


class Sums(pb.AsyncKeyedProcessFunction):
    """Counts the rows of a key, with a call for each of them."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def open(self, ctx: Any) -> None:
        self.count = ctx.value_state("count", "bigint")
        self.rows = ctx.list_state("rows", "bigint")

    async def process(self, row: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.rows.add(row.id)
        answer = (await self.gate.ask("call", **request([row])))["answers"][0]
        return ctx.key, count, json.dumps([row.id, answer, list(self.rows.get())])


class GatedRows(Plays):
    def __init__(self, on: dict[str, str], gate: Gate) -> None:
        super().__init__(on)
        self.gate = gate

    def process(self, row: Any, ctx: Any) -> Any:
        self.gate.tell("row")
        return super().process(row, ctx)


class GatedColumns(FoldsColumns):
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def process(self, batch: Any, state: Any, ctx: Any) -> Any:
        self.gate.tell("row")
        return super().process(batch, state, ctx)
