"""Snapshots of state, timers and clocks as bytes, which a changed function can restore."""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from .._keyed.context import EVENT_TIMER, PROCESSING_TIMER, UNKNOWN
from .._keyed.options import WAITING_ROWS
from .._keyed.runtime import KeyedRuntime
from .._keyed.state import State
from .._keyed.ttl import StateTtl
from ..errors import error
from .evolution import carry_over, type_changed
from .memory import KeySpace, dump, load

_FORMAT = 2


@dataclass(frozen=True)
class Note:
    """What a snapshot was taken with, as a checkpoint's ``OperatorMetadata`` says it."""

    keys: StructType
    columns: StructType
    time_sorted: bool

    def check(self, found: Note) -> None:
        """Raise ``StateError`` (CHECKPOINT_MISMATCH) where Spark refuses to go on."""
        for what, there, now in self._changes(found):
            raise error(
                "CHECKPOINT_MISMATCH", path="the snapshot", what=what, found=there, wanted=now
            )

    def carry(self, found: Note) -> Any:
        """Return a function for rows that wait. Raises ``StateError`` (STATE_TYPE_CHANGED)."""
        if not self.time_sorted:
            return None
        return carry_over(WAITING_ROWS, found.columns, self.columns)

    def _changes(self, found: Note) -> Iterator[tuple[str, object, object]]:
        if found.time_sorted != self.time_sorted:
            yield "time_sorted", found.time_sorted, self.time_sorted
        before, now = found.keys, self.keys
        had_types, types = _types(before), _types(now)
        if had_types != types:
            yield "keys of type", had_types, types
        # Keys may get other names, but none that another one of them has had.
        had = {name: place for place, name in enumerate(before.names)}
        if any(had.get(name, place) != place for place, name in enumerate(now.names)):
            yield "by", f"[{', '.join(before.names)}]", f"[{', '.join(now.names)}]"


def _types(keys: StructType) -> str:
    return ", ".join(key.dataType.simpleString() for key in keys.fields)


def take(runtime: KeyedRuntime, space: KeySpace, clocks: dict[str, Any], note: Note) -> bytes:
    """Return a snapshot, which includes ``clocks`` unchanged."""
    key_indexes = range(len(space.keys))
    states = {
        name: {
            "spec": state.declaration.described(),
            "cells": [
                (key_index, entries)
                for key_index in key_indexes
                if (entries := dump(state, key_index))
            ],
        }
        for name, state in runtime.registry.states.items()
    }
    timers = [
        (key_index, timer) for key_index in key_indexes for timer in runtime.timers.of(key_index)
    ]
    return pickle.dumps(
        {
            "format": _FORMAT,
            "keys": space.keys,
            "states": states,
            "timers": [(key_index, *timer) for key_index, timer in timers],
            "clocks": clocks,
            "note": note,
        }
    )


def restore(
    snapshot: bytes, runtime: KeyedRuntime, space: KeySpace, earliest: int, note: Note
) -> dict[str, Any]:
    """Restore a snapshot into an opened runtime without keys, and return the clocks.

    The processing time is ``earliest`` at least. Values without a timestamp of their TTL's clock
    count as written now. Raises ``StateError`` for other keys, and a state that is gone or has
    another kind or type, before anything is restored.
    """
    data: dict[str, Any] = pickle.loads(snapshot)
    if data["format"] != _FORMAT:
        raise error("SNAPSHOT_FORMAT", found=data["format"], expected=_FORMAT)
    note.check(data["note"])
    carry_row = note.carry(data["note"])
    clocks: dict[str, Any] = data["clocks"]
    clocks["waiting"] = [(*event, carry_row(row)) for *event, row in clocks["waiting"]]
    clocks["processing_time"] = max(clocks["processing_time"], earliest)
    now = {"processing_time": clocks["processing_time"], "event_time": clocks["watermark"]}
    carries = {name: _carries(name, saved, runtime) for name, saved in data["states"].items()}
    for key in data["keys"]:
        space.key_index(key)
    for name, (state, carry_key, carry) in carries.items():
        saved = data["states"][name]
        stamp = _stamper(saved["spec"]["ttl"], state.declaration.ttl, now)
        for key_index, entries in saved["cells"]:
            load(state, key_index, _carried(state, entries, carry_key, carry, stamp))
    kinds = {"event_time": EVENT_TIMER, "processing_time": PROCESSING_TIMER}
    runtime.timers.start(
        (key_index, kinds[domain], time) for key_index, time, domain in data["timers"]
    )
    return clocks


def _carries(name: str, saved: dict[str, Any], runtime: KeyedRuntime) -> tuple[State, Any, Any]:
    states = runtime.registry.states
    if name not in states:
        declared = ", ".join(map(repr, states)) or "none"
        raise error("STATE_GONE", state=name, declared=declared)
    old, state = saved["spec"], states[name]
    new = state.declaration.described()
    if old["kind"] != new["kind"]:
        raise type_changed(name, *(f"{one['kind']} of {one['type']}" for one in (old, new)))
    carry_key = None
    if old["key_type"] is not None:
        if old["key_type"] != new["key_type"]:
            raise type_changed(name, old["key_type"], new["key_type"])
        key_type = state.declaration.key_type
        assert key_type is not None
        carry_key = key_type.accept
    before, after = (StructType.fromJson(json.loads(one["type"])) for one in (old, new))
    carry = carry_over(name, before, after)

    def carry_shown(value: Any) -> Any:
        carried = carry({"value": value} if old["plain"] else value)
        return carried["value"] if new["plain"] else carried

    return state, carry_key, carry_shown


def _stamper(old: dict[str, Any] | None, ttl: StateTtl | None, now: dict[str, int]) -> Any:
    """Return a function from a saved timestamp to the new one."""
    if ttl is None:
        return lambda stamp: UNKNOWN
    if old is not None and old["time_domain"] == ttl.time_domain:
        return lambda stamp: stamp
    return lambda stamp: now[ttl.time_domain]


def _carried(state: State, entries: Any, carry_key: Any, carry: Any, stamp: Any) -> Any:
    accept = state.declaration.type.accept
    return [
        (None if carry_key is None else carry_key(key), accept(carry(value)), stamp(old))
        for key, value, old in entries
    ]


def check_options(harness: type, options: dict[str, Any]) -> None:
    """Raise ``InvalidOption`` (RESTORE_WITHOUT_OPTIONS) for lack of one that ``harness`` needs."""
    needed = [
        name
        for name, one in inspect.signature(harness).parameters.items()
        if one.kind is one.KEYWORD_ONLY and one.default is one.empty
    ]
    missing = [name for name in needed if name not in options]
    if missing:
        raise error(
            "RESTORE_WITHOUT_OPTIONS",
            harness=harness.__name__,
            missing=", ".join(missing),
            options=", ".join(f"{name}=…" for name in needed),
        )
