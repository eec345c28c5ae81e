"""``AsyncFunction``, a function with clients of its own that are opened in the worker."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from .._base.functions import check_method, is_generator
from ..errors import error


@dataclass(frozen=True)
class AsyncOpenContext:
    """The context of ``open`` of an :class:`AsyncFunction`; ``name`` is that of the operator."""

    name: str


class AsyncFunction:
    """A function for :func:`async_io` as a class to extend, for more than one client.

    The object is pickled before it is opened: ``open`` opens clients in the worker, ``close``
    closes them. Each method is ``def`` or ``async def``. With engine="jvm" an open object serves
    later tasks of the worker too, with engine="python" one task; it may be opened again after it
    was closed. All calls of a worker share its attributes, and a plain ``invoke`` runs in threads.
    """

    def open(self, ctx: AsyncOpenContext) -> Any:
        """Called before the first call, on the event loop. An exception fails the task."""

    def invoke(self, row: Any) -> Any:
        """Called with a row, or with a list of rows under ``batch_size``.

        It returns what a function of :func:`async_io` does. An ``async def`` runs on the event
        loop, a ``def`` in a thread.
        """
        raise NotImplementedError(f"{type(self).__name__}.invoke")

    def close(self) -> Any:
        """Called on the event loop when the worker no longer needs the function, in bounded time.

        It is not called where ``open`` has failed.
        """


class Opening:
    """A factory with which a worker opens an ``AsyncFunction`` like a resource."""

    def __init__(self, function: AsyncFunction, operator: str) -> None:
        self._function = function
        self._context = AsyncOpenContext(operator)
        self.__qualname__ = f"{type(function).__qualname__}.open"  # the name in messages

    def __call__(self) -> AbstractAsyncContextManager[AsyncFunction]:
        return _opened(self._function, self._context)


@asynccontextmanager
async def _opened(
    function: AsyncFunction, context: AsyncOpenContext
) -> AsyncIterator[AsyncFunction]:
    await _done(function.open(context))
    try:
        yield function
    finally:
        await _done(function.close())


async def _done(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


def invoke(argument: Any, function: AsyncFunction) -> Any:
    return function.invoke(argument)


def answer_of(is_batch: bool) -> str:
    """Return what a function returns that would yield its rows."""
    if is_batch:
        return "a list with an answer for each row of the list"
    return "a list of rows, and pass explode=True"


def check_methods(function: AsyncFunction, is_batch: bool) -> None:
    """Raise ``InvalidFunction`` for a function that can't be called as Pillarbox calls it.

    The conditions are METHOD_MISSING (of ``invoke``), ASYNC_GENERATOR (of ``invoke``),
    GENERATOR_METHOD and those of ``check_method``.
    """
    kind = type(function)
    if kind.invoke is AsyncFunction.invoke and "invoke" not in vars(function):
        definition = f"async def invoke(self, {'rows' if is_batch else 'row'})"
        raise error(
            "METHOD_MISSING",
            function=kind.__qualname__,
            method="invoke",
            instead="",
            definition=definition,
        )
    parameters = {"open": ("ctx",), "invoke": ("rows" if is_batch else "row",), "close": ()}
    for name, arguments in parameters.items():
        method: Any = getattr(function, name)
        called = f"{kind.__qualname__}.{name}"
        if is_generator(method):
            raise (
                error("ASYNC_GENERATOR", function=called, answer=answer_of(is_batch))
                if name == "invoke"
                else error("GENERATOR_METHOD", method=called)
            )
        check_method(method, arguments, called)
