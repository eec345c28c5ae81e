"""An ``async_udf`` called with plain values, outside Spark."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

from .._async.resources import OpenResource
from .._base.functions import is_async

_CLOSE_LIMIT_S = 5.0


async def called(
    function: Callable[..., Any],
    resource: Callable[[], Any] | None,
    values: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    """Return what ``function`` answers, with the resource opened around the call."""
    async with _opened(resource) as resources:
        call = functools.partial(function, *resources, *values, **named)
        answer = call() if is_async(function) else await asyncio.to_thread(call)
        return await answer if inspect.isawaitable(answer) else answer


@functools.cache
def awaitable(kind: Any) -> type:
    """Return a class of columns that may be awaited instead."""

    def called(column: Any) -> Generator[Any, None, Any]:
        awaited: Awaitable[Any] = column._pillarbox_call()
        return awaited.__await__()

    body = {"__await__": called, "__hash__": object.__hash__, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), body)


@asynccontextmanager
async def _opened(resource: Callable[[], Any] | None) -> AsyncIterator[tuple[Any, ...]]:
    """Give the open resource in a tuple, which is empty without one."""
    if resource is None:
        yield ()
        return
    held = OpenResource(resource)
    await held.open()
    try:
        yield (held.value,)
    finally:
        await held.close(_CLOSE_LIMIT_S)
