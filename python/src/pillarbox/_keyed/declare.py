"""The states of one function: declared in ``open``, each name once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .._arrow.classes import Mapped, mapped_type
from .._arrow.fields import Place
from .._arrow.schema import check_type
from .._base.checks import check_name, invalid
from .._base.functions import takes
from ..errors import error, shown
from .aggregate import AggregateFunction
from .context import KeyedContext
from .input_columns import is_collated
from .list_state import ListCells
from .map_state import MapCells
from .methods import check_aggregate
from .options import RESERVED
from .state import Declaration, State
from .ttl import as_ttl
from .value_state import AggregatingCells, ReducingCells, ValueCells
from .values import KeyType, ValueType, is_hashable

ROW_KINDS = ("value", "list", "map", "reducing", "aggregating")
COLUMN_KINDS = ("value", "timer")

HANDLES: dict[str, type[State]] = {
    "value": ValueCells,
    "list": ListCells,
    "map": MapCells,
    "reducing": ReducingCells,
    "aggregating": AggregatingCells,
    "timer": ValueCells,
}


class StateRegistry:
    """The states in order of declaration; they can be declared while ``is_open``.

    ``event_time`` is True if there is a watermark; ``kinds`` are the allowed kinds of state.
    """

    def __init__(self, at: KeyedContext, event_time: bool, kinds: tuple[str, ...]) -> None:
        self._at = at
        self._event_time = event_time
        self._kinds = kinds
        self.states: dict[str, State] = {}
        self.is_open = False

    def declare(
        self,
        name: str,
        kind: str,
        type: Any,
        *,
        key_type: Any = None,
        ttl: Any = None,
        fold: Any = None,
        time_domain: str | None = None,
    ) -> State:
        """Return the handle of a state; the same handle for the same declaration.

        Raises ``StateError`` for a name that is taken, or outside of ``open``; ``InvalidSchema``
        for a type; ``InvalidOption`` and ``InvalidFunction`` for the rest.
        """
        if not self.is_open:
            raise error("STATE_OUTSIDE_OPEN", operator=self._at._name, state=shown(name))
        declaration = self._declaration(name, kind, type, key_type, ttl, fold)
        if kind == "timer":
            declaration = replace(declaration, time_domain=self._domain(name, time_domain))
        known = self.states.get(name)
        if known is None:
            handle = self.states[name] = HANDLES[kind](declaration, self._at)
            return handle
        if known.declaration.described() != declaration.described():
            first, second = _shown(known.declaration), _shown(declaration)
            raise error("STATE_NAME_TAKEN", state=name, first=first, second=second)
        return known

    @property
    def timers(self) -> list[Declaration]:
        """The timers of the column form."""
        declared = [state.declaration for state in self.states.values()]
        return [one for one in declared if one.kind == "timer"]

    def _domain(self, name: str, time_domain: str | None) -> str:
        """Return the time domain of a timer. Raises if the key would have two in it."""
        if time_domain not in ("event_time", "processing_time"):
            expected = '"event_time" or "processing_time"'
            raise invalid("time_domain", expected, time_domain, 'time_domain="event_time"')
        if time_domain == "event_time" and not self._event_time:
            raise error("TIMER_WITHOUT_WATERMARK", operator=self._at._name)
        for other in self.timers:
            if other.time_domain == time_domain and other.name != name:
                domain = time_domain.replace("_", " ")
                raise error("TIMER_TWICE", first=other.name, second=name, domain=domain)
        return time_domain

    def __getitem__(self, name: str) -> State:
        """Raise ``StateError`` (UNKNOWN_STATE), which lists the declared names, for another one."""
        if name not in self.states:
            declared = ", ".join(map(repr, self.states)) or "none"
            raise error("UNKNOWN_STATE", state=shown(name), declared=declared)
        return self.states[name]

    def _declaration(
        self, name: str, kind: str, type: Any, key_type: Any, ttl: Any, fold: Any
    ) -> Declaration:
        check_name("name", name, "count", "the name of the state")
        if name.startswith(RESERVED):
            raise invalid("name", f"a name that doesn't begin with {RESERVED!r}", name, '"count"')
        if kind not in self._kinds:
            condition = "TIMER_OF_COLUMNS" if kind == "timer" else "STATE_KIND_UNSUPPORTED"
            raise error(condition, state=name, kind=kind)
        _check_fold(name, kind, fold)
        parsed_ttl = as_ttl(ttl)
        if parsed_ttl and parsed_ttl.time_domain == "event_time" and not self._event_time:
            raise error("TTL_WITHOUT_WATERMARK", state=name)
        option, place = f"state {name}", Place(name, "STATE_TYPE_MISMATCH")
        mapped = _mapped(type, option)
        inside = place.inside(_ELEMENT.get(kind, ""))
        value = ValueType(mapped.data_type, inside, mapped.make)
        keys = None
        if kind == "map":
            parsed = _mapped(key_type, option, is_key=True).data_type
            if not is_hashable(parsed):
                raise error("MAP_KEY_TYPE", state=name, data_type=parsed.simpleString())
            if is_collated(parsed):
                raise error("MAP_KEY_COLLATION", state=name, data_type=parsed.simpleString())
            keys = KeyType(parsed, place.inside("{key}"))
        return Declaration(name, kind, value, keys, parsed_ttl, fold)


_ELEMENT = {"list": "[]", "map": "{value}"}


def _mapped(type: Any, place: str, *, is_key: bool = False) -> Mapped:
    mapped = mapped_type(type, place)
    if is_key and mapped.make is not None:
        reason = "the keys of a map are no objects of a class"
        raise error("INVALID_TYPE", option=place, value=shown(type), reason=reason)
    check_type(mapped.data_type, place, "the state")
    return mapped


def _check_fold(name: str, kind: str, fold: Any) -> None:
    if kind == "reducing" and not takes(fold, 2):
        raise error("NOT_A_REDUCE_FUNCTION", state=name, value=shown(fold))
    if kind == "aggregating" and not isinstance(fold, AggregateFunction):
        raise error("NOT_AN_AGGREGATE_FUNCTION", state=name, value=shown(fold))
    if kind == "aggregating":
        check_aggregate(fold)


def _shown(declaration: Declaration) -> str:
    keys = declaration.key_type
    types = [one.data_type.simpleString() for one in (keys, declaration.type) if one is not None]
    ttl = "" if declaration.ttl is None else f", ttl {declaration.ttl.duration}"
    if declaration.time_domain is not None:
        return f"timer in {declaration.time_domain.replace('_', ' ')}"
    return f"{declaration.kind} state of {' to '.join(types)}{ttl}"
