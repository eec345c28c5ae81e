"""What a keyed function may do, as data; played by a real function and by a plain model.

The model knows nothing of handles, cells or frames: state is dicts of ``[value, stamp]``, and each
rule of TTL and timers is written out once more.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pillarbox as pb

START = -(1 << 63)
BEFORE_ONE_COMES_TWICE = 1_792_886_400  # in Berlin, on 2026-10-25: in UTC the hour is 00:00
HALF_HOUR = 1800


def moment(number: int) -> datetime:
    """A time in a day whose local hours come twice; ``number_of`` is the reverse."""
    return datetime.fromtimestamp(BEFORE_ONE_COMES_TWICE + HALF_HOUR * number, timezone.utc)


def number_of(time: datetime) -> int:
    return int(time.timestamp() - BEFORE_ONE_COMES_TWICE) // HALF_HOUR


def life(ttl: dict[str, Any] | None) -> pb.StateTtl | None:
    """The options of a TTL as an object; ``ms`` is its length, 10 by default."""
    if ttl is None:
        return None
    return pb.StateTtl(f"{ttl.get('ms', 10)} ms", **{k: v for k, v in ttl.items() if k != "ms"})


class Interpreter(pb.KeyedProcessFunction):
    """Does what the rows say, and tells what came of it."""

    def __init__(self, ttl: dict[str, Any] | None) -> None:
        self.ttl = life(ttl)

    def open(self, ctx: Any) -> None:
        self.value = ctx.value_state("value", "int", ttl=self.ttl)
        self.elements = ctx.list_state("elements", "int", ttl=self.ttl)
        self.entries = ctx.map_state("entries", "string", "int", ttl=self.ttl)
        self.largest = ctx.reducing_state("largest", "int", max, ttl=self.ttl)
        self.moments = ctx.map_state("moments", "timestamp", "timestamp", ttl=self.ttl)

    def process(self, row: Any, ctx: Any) -> Any:
        results = [self.do(op, ctx) for op in json.loads(row.ops)]
        yield row.k, json.dumps([ctx.timestamp, *results])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp % 3 == 0:
            ctx.timers.register_event_time(timestamp + 4)
        if timestamp % 4 == 0:
            ctx.timers.delete_event_time(timestamp + 1)
        if timestamp % 5 == 0:
            self.elements.add(timestamp)
        yield ctx.key, json.dumps([ctx.time_domain, timestamp, self.value.value()])

    def do(self, op: list[Any], ctx: Any) -> Any:
        name, *arguments = op
        state, _, method = name.partition(".")
        if state == "timers":
            return self.timer(ctx, method, *arguments)
        if state == "moments":
            return self.moment(method, *arguments)
        result = getattr(getattr(self, state), method)(*arguments)
        return sorted(result) if method in ("items", "keys") else result

    def moment(self, method: str, *numbers: int) -> Any:
        """Times are told by their numbers; ``turn`` writes what was read, in local time."""
        if method == "turn":
            for at, time in sorted(self.moments.items(), key=lambda pair: number_of(pair[0])):
                self.moments.put(time, at)
            return None
        found = getattr(self.moments, method)(*map(moment, numbers))
        if method == "items":
            return sorted([number_of(at), number_of(time)] for at, time in found)
        return None if found is None else number_of(found)

    @staticmethod
    def timer(ctx: Any, method: str, *arguments: Any) -> Any:
        found = getattr(ctx.timers, method)(*arguments)
        return None if found is None else [list(timer) for timer in found]


class Model:
    """One key; ``ttl`` as for the interpreter."""

    def __init__(self, key: str, ttl: dict[str, Any] | None) -> None:
        self.key, self.ttl = key, ttl
        self.cells: dict[str, dict[Any, list[Any]]] = {
            "value": {}, "elements": {}, "entries": {}, "largest": {}, "moments": {},
        }  # fmt: skip
        self.timers: set[tuple[int, str]] = set()
        self.added = 0
        self.first_watermark = START

    def shown(self, value: Any) -> Any:
        """What a read gives of an expired value that clean-up has left there."""
        return value

    def at(self, clock: Any) -> None:
        """The clocks, as they stand from now on. The first watermark is remembered."""
        self.watermark, self.now = clock
        if self.first_watermark == START:
            self.first_watermark = self.watermark

    def restart(self, ttl: dict[str, Any] | None, clock: Any) -> None:
        """Another TTL, or none; what has no timestamp of its clock starts its life now."""
        self.watermark, self.now = clock
        old, self.ttl = self.ttl, ttl
        if ttl is None or (old is not None and old["time_domain"] == ttl["time_domain"]):
            return
        for cells in self.cells.values():
            for cell in cells.values():
                cell[1] = self.clock()

    def row(self, time: int, ops: list[Any], clock: Any) -> Any:
        self.at(clock)
        self.time: int | None = time
        return [time, *(self.do(*op) for op in ops)]

    def due(self, clock: Any) -> list[Any]:
        """Fires the timers that are due, event time first, until there are none."""
        self.at(clock)
        limits = {"event_time": self.watermark, "processing_time": self.now}
        out = []
        while True:
            of = [domain for domain in limits if self.first(domain, limits[domain]) is not None]
            if not of:
                return out
            while (time := self.first(of[0], limits[of[0]])) is not None:
                self.timers.remove((time, of[0]))
                out.append(self.fire(time, of[0]))

    def first(self, domain: str, limit: int) -> int | None:
        times = [time for time, of in self.timers if of == domain and time <= limit]
        return min(times, default=None)

    def fire(self, time: int, domain: str) -> list[Any]:
        self.time = time if domain == "event_time" else None
        if time % 3 == 0:
            self.timers.add((time + 4, "event_time"))
        if time % 4 == 0:
            self.timers.discard((time + 1, "event_time"))
        if time % 5 == 0:
            self.do("elements.add", time)
        return [domain, time, self.do("value.value")]

    def do(self, name: str, *arguments: Any) -> Any:
        state, _, method = name.partition(".")
        if state == "timers":
            return self.timer(method, *arguments)
        return getattr(self, f"{state}_{method}")(*arguments)

    def timer(self, method: str, *arguments: Any) -> Any:
        if method == "list":
            return [list(timer) for timer in sorted(self.timers)]
        if method == "delete_all":
            return self.timers.clear()
        what, _, domain = method.partition("_")
        change = self.timers.add if what == "register" else self.timers.discard
        return change((arguments[0], domain))

    def clock(self) -> int:
        return self.watermark if self.ttl and self.ttl["time_domain"] == "event_time" else self.now

    def known(self, stamp: int) -> int:
        """What was written before any watermark lives from the first one."""
        is_event = self.ttl is not None and self.ttl["time_domain"] == "event_time"
        return self.first_watermark if stamp == START and is_event else stamp

    def stamp(self, stored: int) -> int:
        if self.ttl is None or self.ttl["time_domain"] == "processing_time":
            return self.now
        return max(self.fresh(), self.known(stored))

    def fresh(self) -> int:
        """The timestamp where nothing was."""
        if self.ttl is None or self.ttl["time_domain"] == "processing_time":
            return self.now
        return self.watermark if self.time is None else self.time

    def is_dead(self, stamp: int) -> bool:
        stamp = self.known(stamp)
        if self.ttl is None or stamp == START:
            return False
        return stamp + self.ttl.get("ms", 10) <= self.clock()

    def write(self, state: str, at: Any, value: Any) -> None:
        cells = self.cells[state]
        cells[at] = [value, self.stamp(cells[at][1]) if at in cells else self.fresh()]

    def read(self, state: str, at: Any) -> Any:
        cells = self.cells[state]
        if at not in cells:
            return None
        value, stamp = cells[at]
        if self.is_dead(stamp):
            del cells[at]
            return self.shown(value) if self.ttl["visibility"].startswith("return") else None
        if self.ttl is not None and self.ttl["update"] == "on_read_and_write":
            cells[at][1] = self.stamp(stamp)
        return value

    def value_value(self) -> Any:
        return self.read("value", 0)

    def value_update(self, value: Any) -> None:
        self.write("value", 0, value)

    def value_clear(self) -> None:
        self.cells["value"].clear()

    def largest_get(self) -> Any:
        return self.read("largest", 0)

    def largest_add(self, value: int) -> None:
        now = self.read("largest", 0)
        self.write("largest", 0, value if now is None else max(now, value))

    def elements_add(self, value: int) -> None:
        self.added += 1
        self.write("elements", self.added, value)

    def elements_update(self, values: list[int]) -> None:
        self.elements_clear()
        for value in values:
            self.elements_add(value)

    def elements_get(self) -> list[int]:
        found = [self.read("elements", at) for at in sorted(self.cells["elements"])]
        return [value for value in found if value is not None]

    def elements_clear(self) -> None:
        self.cells["elements"].clear()

    def entries_get(self, key: str) -> Any:
        return self.read("entries", key)

    def entries_contains(self, key: str) -> bool:
        return self.read("entries", key) is not None

    def entries_put(self, key: str, value: int) -> None:
        self.write("entries", key, value)

    def entries_remove(self, key: str) -> None:
        self.cells["entries"].pop(key, None)

    def entries_items(self) -> list[Any]:
        found = [[key, self.read("entries", key)] for key in sorted(self.cells["entries"])]
        return [pair for pair in found if pair[1] is not None]

    def entries_is_empty(self) -> bool:
        return all(self.is_dead(stamp) for _, stamp in self.cells["entries"].values())

    def entries_clear(self) -> None:
        self.cells["entries"].clear()

    def moments_get(self, at: int) -> Any:
        return self.read("moments", at)

    def moments_put(self, at: int, time: int) -> None:
        self.write("moments", at, time)

    def moments_remove(self, at: int) -> None:
        self.cells["moments"].pop(at, None)

    def moments_items(self) -> list[Any]:
        found = [[at, self.read("moments", at)] for at in sorted(self.cells["moments"])]
        return [pair for pair in found if pair[1] is not None]

    def moments_turn(self) -> None:
        for at, time in self.moments_items():
            self.write("moments", time, at)
