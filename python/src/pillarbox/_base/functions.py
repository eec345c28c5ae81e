"""Functions of users: their names, kinds and parameters, and how they are pickled."""

from __future__ import annotations

import functools
import inspect
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import error, shown
from .checks import check, invalid
from .failures import message_of
from .unknown_options import answers_unknown


@answers_unknown
@dataclass(frozen=True)
class JvmFunction:
    """A function in Scala or Java, by the full ``class_name``, from any jar on Spark's class path.

    For :func:`async_io`, with engine="jvm", it is an ``AsyncFunction[Row, Row]``; for
    :func:`process_keyed` a ``KeyedProcessFunction``. ``options`` (strings only) are handed to it
    when it is made. Raises :class:`InvalidOption` for a name or options that are no strings.
    """

    class_name: str
    options: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        is_name = isinstance(self.class_name, str) and bool(self.class_name.strip())
        example = '"com.acme.Enrich"'
        check(is_name, "class_name", "the full name of a class", self.class_name, example)
        options = {} if self.options is None else self.options
        are_texts = isinstance(options, Mapping) and all(
            isinstance(text, str) for pair in options.items() for text in pair
        )
        check(are_texts, "options", "a dict of strings", options, '{"url": "http://…"}')


def name_of(function: object) -> str:
    """Return the name of a function in messages and plans."""
    if isinstance(function, JvmFunction):
        return function.class_name
    inner = function.func if isinstance(function, functools.partial) else function
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return str(name).replace("<locals>.", "")


def pickled(command: object, function: str) -> bytes:
    """Cloudpickle ``command``. Raises ``InvalidFunction`` (NOT_PICKLABLE) naming ``function``."""
    try:
        with io.BytesIO() as target:
            _pickler(target).dump(command)
            return target.getvalue()
    except Exception as problem:
        reason = f"{type(problem).__name__}: {problem}"
        raise error("NOT_PICKLABLE", function=function, reason=reason) from problem


_OF_DRIVER = ("SparkSession", "DataFrame")


def _pickler(target: io.BytesIO) -> Any:
    """Return a pickler that refuses sessions and DataFrames, even picklable ones of Connect."""
    from pyspark.cloudpickle import CloudPickler

    class Pickler(CloudPickler):
        def reducer_override(self, value: object) -> Any:
            kind = type(value)
            if kind.__name__ in _OF_DRIVER and kind.__module__.startswith("pyspark.sql."):
                raise pickle.PicklingError(f"it uses a {kind.__name__}, which tasks don't have")
            return super().reducer_override(value)  # type: ignore[no-untyped-call]

    return Pickler(target)  # type: ignore[no-untyped-call]


def unpickled(command: bytes) -> object:
    """Unpickle a command. Raises ``WorkerFailed`` (FUNCTION_LOAD_FAILED)."""
    from pyspark import cloudpickle
    from pyspark.core.broadcast import Broadcast

    try:
        made: object = cloudpickle.loads(command)
        if isinstance(made, Broadcast):  # as Spark sends commands over 1 MB
            made = cloudpickle.loads(made.value)
        if isinstance(made, tuple):  # as Spark sends a UDF: its function and its type
            inner = made[0].pillarbox_command
            made = cloudpickle.loads(inner.value if isinstance(inner, Broadcast) else inner)
    except BaseException as problem:
        kind, reason = type(problem).__name__, message_of(problem)
        raise error("FUNCTION_LOAD_FAILED", kind=kind, reason=reason) from problem
    return made


def is_async(function: object) -> bool:
    """Return True if a call gives a coroutine, also through a partial or ``__call__``."""
    return any(map(inspect.iscoroutinefunction, _run_by_call(function)))


def _run_by_call(function: object) -> tuple[object, ...]:
    """Return what may run when ``function`` is called; of a class nothing, as that makes one."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return ()
    return function, getattr(function, "__call__", None)  # noqa: B004


def check_called(function: object, refusal: str, answer: str) -> Callable[..., Any]:
    """Return ``function`` if a call of it can give one answer. Raises ``InvalidFunction``.

    The conditions are ``refusal`` for what is no function, CALLED_FUNCTION and ASYNC_GENERATOR,
    which says to return ``answer``.
    """
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if isinstance(inner, type):
        raise error(refusal, value=f"the class {inner.__qualname__}")
    if hasattr(inner, "evalType") and hasattr(inner, "returnType"):
        raise error(refusal, value=f"the Spark UDF {name_of(inner)}, which gives columns")
    if inspect.iscoroutine(function):
        function.close()
        raise error("CALLED_FUNCTION", value=shown(function))
    if not callable(function):
        raise error(refusal, value=shown(function))
    if is_generator(function):
        raise error("ASYNC_GENERATOR", function=name_of(function), answer=answer)
    return function


def is_generator(function: object) -> bool:
    """Return True if a call gives a generator, also through a partial or ``__call__``."""
    kinds = _run_by_call(function)
    return any(inspect.isasyncgenfunction(one) or inspect.isgeneratorfunction(one) for one in kinds)


def check_parameters(
    function: Callable[..., Any],
    arguments: tuple[str, ...],
    name: str,
    problem: str = "WRONG_PARAMETERS",
) -> None:
    """Raise the error ``problem`` if ``function`` can't be called with so many arguments."""
    if not takes(function, len(arguments)):
        signature, call = str(inspect.signature(function)), f"{name}({', '.join(arguments)})"
        raise error(problem, function=name, signature=signature, call=call)


def check_callback(
    option: str, value: object, expected: str, parameters: int, example: str
) -> None:
    """Raise INVALID_OPTION unless ``value`` is a plain function that takes so many arguments.

    ``expected`` describes it with its parameters, such as "a predicate of one argument".
    """
    check(callable(value), option, expected, value, example)
    plain = "a plain function: the coroutine of an `async def`, or a generator, would not run"
    check(not (is_async(value) or is_generator(value)), option, plain, value, example)
    if not takes(value, parameters):
        signature = inspect.signature(value)  # type: ignore[arg-type]
        raise invalid(option, f"{expected}, and {name_of(value)} has {signature}", value, example)


def check_method(method: Any, parameters: tuple[str, ...], called: str) -> None:
    """Raise METHOD_NOT_CALLABLE or WRONG_METHOD_PARAMETERS; ``called`` is ``Class.method``."""
    if not callable(method):
        definition = f"def {called.rpartition('.')[2]}({', '.join(('self', *parameters))})"
        raise error(
            "METHOD_NOT_CALLABLE", method=called, value=shown(method), definition=definition
        )
    check_parameters(method, parameters, called, "WRONG_METHOD_PARAMETERS")


def takes(function: object, count: int) -> bool:
    """Return True if ``function`` can be called with ``count`` arguments, or has no signature."""
    if not callable(function):
        return False
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return True  # a built-in without a signature
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
