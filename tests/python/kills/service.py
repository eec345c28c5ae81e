"""The service that programs call: it goes by ids of calls, and logs all.

Its requests are also the moments at which parts are killed: it holds them until that is done.

A connection is one request, a line of JSON, and its reply. A worker that dies takes its connections
with it. One event loop serves all, so that the log has one order.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kills.programs import Kill, Program
from spark_support import is_running

#: Moments that are requests, beside those that the service tells itself.
CALLS = ("call", "submit", "collect")


class Site:
    """What the service knows of one program."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.log: list[dict[str, Any]] = []
        self.kills = list(program.kills)
        self.starts = 0
        self.end: str | None = None
        #: By id of a call: what it was first asked.
        self.known: dict[str, str] = {}
        self.tickets: dict[str, list[str]] = {}
        self.polls: dict[str, int] = {}
        self.asked: set[str] = set()
        self.in_flight: dict[int, tuple[int, str]] = {}
        self.numbers = 0
        #: The process of the last request of a function, and of the one that a kill waited for.
        self.pid = self.victim = 0
        self.due = False
        self.moments = self.files = 0
        self.changed = asyncio.Event()

    def note(self, event: str, **what: Any) -> None:
        self.log.append({"event": event, **what})

    @property
    def next(self) -> Kill | None:
        return self.kills[0] if self.kills and self.end is None else None

    def moment(self, at: str, pid: int = 0) -> None:
        kill = self.next
        if kill is not None and kill.at == at and not self.due:
            self.moments += 1
            self.due, self.victim = self.moments >= kill.count, pid or self.pid

    def look_at_files(self) -> None:
        """Counts the files of the checkpoint that a kill waits for."""
        kill = self.next
        if kill is None or kill.at not in ("offsets", "commits") or self.due:
            return
        folder = self.folder / "checkpoint" / kill.at
        there = sum(1 for one in folder.glob("[0-9]*")) if folder.exists() else 0
        self.due, self.victim = there - self.files >= kill.count, self.pid

    def struck(self, killed: Callable[[int], bool], told: str) -> None:
        """The part that was due is dead; ``killed`` tells which processes died with it."""
        self.kills.pop(0)
        self.hit(killed, told, own=True)
        self.due, self.moments = False, 0
        following = self.next
        if following is not None and following.at in ("offsets", "commits"):
            folder = self.folder / "checkpoint" / following.at
            self.files = sum(1 for one in folder.glob("[0-9]*")) if folder.exists() else 0
        self.changed.set()
        self.changed = asyncio.Event()

    def hit(self, killed: Callable[[int], bool], told: str, own: bool = False) -> None:
        """Something was killed that may have been the program's."""
        self.in_flight = {n: of for n, of in self.in_flight.items() if not killed(of[0])}
        self.note("kill", what=told, own=own)

    async def hold(self) -> None:
        while self.due and self.end is None:
            await self.changed.wait()

    async def serve(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The reply; None if whoever asks is dead."""
        op = request.pop("op")
        if op in ("started", "done", "failed", "gave up"):
            return self.of_the_query(op, request)
        self.note(op, **request)
        if op in (*CALLS, "row"):
            self.pid = request["pid"]
        self.moment("call" if op in ("submit", "collect") else op)
        await self.hold()
        return await self.call(op, request) if op in CALLS else {}

    def of_the_query(self, op: str, request: dict[str, Any]) -> dict[str, Any]:
        if op == "started":
            self.starts += 1
            self.in_flight.clear()
            request["start"] = self.starts - 1
        elif op != "failed":
            self.end = op
            self.changed.set()
        self.note(op, **request)
        return {"start": self.starts - 1}

    async def call(self, op: str, request: dict[str, Any]) -> dict[str, Any] | None:
        if not is_running(request["pid"]):
            return None
        self.numbers += 1
        number = self.numbers
        value = request["tenant"] if getattr(self.program.does, "limit_key", False) else ""
        # Those whose connection ends at the same time end before.
        for _ in range(3):
            await asyncio.sleep(0)
        if not request["orphan"]:
            self.in_flight[number] = request["pid"], value
        self.check_concurrency(value)
        try:
            await asyncio.sleep(random.choice([0, 0.005, 0.02]))
            reply = self.answer(op, request)
            self.moment("answer", request["pid"])
            await self.hold()
        finally:
            self.in_flight.pop(number, None)
        return reply if is_running(request["pid"]) else None

    def check_concurrency(self, value: str) -> None:
        limit = getattr(self.program.does, "concurrency", None)
        busy = sum(1 for _, of in self.in_flight.values() if of == value)
        if limit is not None and busy > limit:
            self.note("crowd", calls=busy, value=value)

    def answer(self, op: str, request: dict[str, Any]) -> dict[str, Any]:
        if op == "collect":
            return self.collected(request["ticket"])
        for ask in request["asks"]:
            fate = random.Random(f"fate {ask}").random()
            does = self.program.does
            if fate > 1 - getattr(does, "bad", 0.0):
                return {"never": ask}
            if fate < does.flaky and ask not in self.asked:
                self.asked.add(ask)
                return {"again": ask}
        answers = [
            self.known.setdefault(*of) for of in zip(request["ids"], request["asks"], strict=True)
        ]
        self.note("answered", **request, answers=answers)
        if op == "call":
            return {"answers": answers}
        ticket = f"ticket {request['key']}"
        self.tickets.setdefault(ticket, answers)
        return {"ticket": ticket}

    def collected(self, ticket: str) -> dict[str, Any]:
        """The answers, when it is asked for the second time."""
        self.polls[ticket] = self.polls.get(ticket, 0) + 1
        return {"answers": self.tickets[ticket] if self.polls[ticket] > 1 else None}


async def listen(sites: dict[int, Site]) -> asyncio.Server:
    """Serves the programs by their seeds, on a port of its own."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if not line:
                return
            request = json.loads(line)
            site = sites[request.pop("seed")]
            request["orphan"] = request.get("start", site.starts - 1) < site.starts - 1
            serving = asyncio.ensure_future(site.serve(request))
            gone = asyncio.ensure_future(reader.read())
            # Whoever hangs up has cancelled the call, but what it notes of itself counts.
            await asyncio.wait([serving, gone], return_when=asyncio.FIRST_COMPLETED)
            if serving.done() and (reply := serving.result()) is not None:
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
            serving.cancel()
            gone.cancel()
        except OSError:
            pass
        finally:
            writer.close()

    return await asyncio.start_server(handle, "127.0.0.1", 0)
