"""Checks of the methods of a user's function, before any of them is called."""

from __future__ import annotations

import inspect
from typing import Any

from .._base.functions import JvmFunction, check_method
from .._base.names import is_nearly
from ..errors import PillarboxError, error, shown
from .aggregate import AggregateFunction
from .function import ArrowKeyedProcessFunction, AsyncKeyedProcessFunction, KeyedProcessFunction

_ROW = {"open": ("ctx",), "process": ("row", "ctx"), "on_timer": ("timestamp", "ctx"), "close": ()}
_ASYNC = {"open": ("ctx",), "process": ("row", "ctx"), "close": ()}
_AGGREGATE = {
    "create_accumulator": (),
    "add": ("value", "accumulator"),
    "get_result": ("accumulator",),
}
_ARROW = {
    "open": ("ctx",),
    "process": ("batch", "state", "ctx"),
    "on_timers": ("batch", "state", "ctx"),
    "close": (),
}


def check_methods(
    fn: KeyedProcessFunction | AsyncKeyedProcessFunction | ArrowKeyedProcessFunction,
) -> None:
    """Raise ``InvalidFunction`` for a function that can't be called as Pillarbox calls it.

    The conditions are METHOD_MISSING (of ``process``), ASYNC_METHOD, NOT_ASYNC_METHOD,
    TIMERS_OF_ASYNC_FUNCTION, and those of ``check_method``.
    """
    is_async = isinstance(fn, AsyncKeyedProcessFunction)
    methods = _ASYNC if is_async else _ARROW if isinstance(fn, ArrowKeyedProcessFunction) else _ROW
    if not has_own(fn, "process"):
        raise missing(fn, "process", f"(self, {', '.join(methods['process'])})")
    for name, parameters in methods.items():
        method: Any = getattr(fn, name, None)
        called = f"{type(fn).__qualname__}.{name}"
        check_method(method, parameters, called)
        if is_async and name == "process":
            if not _is_async(inspect.unwrap(method)) and not _is_async(method):
                raise error("NOT_ASYNC_METHOD", method=called)
        elif _is_async(method):
            raise error("ASYNC_METHOD", method=called)
        yields = name in ("process", "on_timer") and methods is not _ARROW
        if not yields and inspect.isgeneratorfunction(inspect.unwrap(method)):
            raise error("GENERATOR_METHOD", method=called)
    if is_async and has_own(fn, "on_timer"):
        raise timers_refused(type(fn).__qualname__)


def _is_async(method: object) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def timers_refused(operator: str) -> PillarboxError:
    return error("TIMERS_OF_ASYNC_FUNCTION", operator=operator)


def check_aggregate(function: AggregateFunction) -> None:
    """Raise ``InvalidFunction`` if it lacks a method, or has another thing of that name."""
    for name, parameters in _AGGREGATE.items():
        if not has_own(function, name):
            raise missing(function, name, f"({', '.join(('self', *parameters))})")
        called = f"{type(function).__qualname__}.{name}"
        check_method(getattr(function, name), parameters, called)


_ON_SPARK: dict[type, str] = {
    KeyedProcessFunction: "Use pb.process_keyed.",
    AsyncKeyedProcessFunction: "Use pb.process_keyed_async.",
    ArrowKeyedProcessFunction: "Use pb.process_keyed_arrow.",
    JvmFunction: "Use pb.process_keyed.",
}


def check_kind(function: object, *kinds: type, others: dict[type, str] = _ON_SPARK) -> None:
    """Raise ``InvalidFunction`` (NOT_A_KEYED_FUNCTION) for an object of none of ``kinds``.

    ``others`` has the advice for functions of other kinds.
    """
    if not isinstance(function, kinds):
        expected = " or ".join(f"an object of a pb.{kind.__name__}" for kind in kinds)
        advice = _instead_of(function, kinds[0], others)
        raise error("NOT_A_KEYED_FUNCTION", expected=expected, value=shown(function), advice=advice)


def _instead_of(function: object, wanted: type, others: dict[type, str]) -> str:
    known = function if isinstance(function, type) else type(function)
    advice = next((told for kind, told in others.items() if issubclass(known, kind)), None)
    if advice is None:
        return (
            f"Write a class that extends pb.{wanted.__name__} and pass an object of it; "
            "for a plain function of a row there is pb.async_io."
        )
    if isinstance(function, type) and issubclass(function, wanted):
        return f"Pass an object, such as {function.__name__}(), not its class."
    return advice


def has_own(fn: object, name: str) -> bool:
    """Return True if the user has overridden the method."""
    if name in getattr(fn, "__dict__", ()):
        return True
    found = getattr(type(fn), name, None)
    bases = (
        *(KeyedProcessFunction, AsyncKeyedProcessFunction, ArrowKeyedProcessFunction),
        AggregateFunction,
    )
    return found is not None and all(found is not getattr(base, name, None) for base in bases)


def missing(fn: object, name: str, parameters: str) -> PillarboxError:
    """Return METHOD_MISSING, which names a method with nearly this name."""
    meant = misspelt(fn, name)
    prefix = "async " if isinstance(fn, AsyncKeyedProcessFunction) and name == "process" else ""
    return error(
        "METHOD_MISSING",
        function=type(fn).__qualname__,
        method=name,
        instead="" if meant is None else f", but a {meant}",
        definition=f"{prefix}def {name}{parameters}",
    )


def without_on_timer(fn: object, operator: str, method: str = "on_timer") -> PillarboxError:
    """Return TIMER_WITHOUT_ON_TIMER, which names a method with nearly that name."""
    meant = misspelt(fn, method)
    parameters = ", ".join((_ARROW if method == "on_timers" else _ROW)[method])
    return error(
        "TIMER_WITHOUT_ON_TIMER",
        operator=operator,
        did="declared" if method == "on_timers" else "registered",
        method=method,
        instead="" if meant is None else f", but a {meant}",
        definition=f"def {method}(self, {parameters})",
    )


def misspelt(fn: object, name: str) -> str | None:
    """Return a method of the user's with nearly this name, if there is one."""
    public = (one for one in dir(type(fn)) if not one.startswith("_") and one != name)
    return next((one for one in public if is_nearly(one, name) and has_own(fn, one)), None)
