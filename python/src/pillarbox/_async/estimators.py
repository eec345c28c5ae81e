"""Functions of users that say what a row's call will use, before it begins."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._base.checks import check
from .._base.failures import LONGEST_MESSAGE, LONGEST_TRACEBACK, Failure, message_of
from .._base.functions import check_parameters, name_of, pickled
from ..errors import error
from .options import AsyncOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# In characters of base64: the JVM reads texts of up to 20 million in the operator's JSON.
_LARGEST = 16 << 20

# For each limit the amount, or else what was wrong and the traceback of that.
Estimated = tuple[list[float] | None, str | None, str | None]


def check_estimators(options: AsyncOptions) -> None:
    """Raise ``InvalidFunction`` (ESTIMATE_WRONG_PARAMETERS) for an ``estimate`` not of a row."""
    for function in options.estimators:
        check_parameters(function, ("row",), name_of(function), "ESTIMATE_WRONG_PARAMETERS")


def estimator(functions: Sequence[Callable[..., Any]]) -> Callable[..., Estimated]:
    """Return the function that calls all of them for a row, each of them once.

    It is pickled by value, since the worker of Spark that calls it may lack this package.
    """
    named = [(function, name_of(function)) for function in functions]
    longest_message, longest_traceback = LONGEST_MESSAGE, LONGEST_TRACEBACK

    def plain(value: Any) -> Any:
        # A UDF of Spark has binary columns as bytearray, an operator as bytes.
        if isinstance(value, bytearray):
            return bytes(value)
        if hasattr(value, "__fields__") and any(isinstance(cell, bytearray) for cell in value):
            cells = (bytes(cell) if isinstance(cell, bytearray) else cell for cell in value)
            return type(value)(*value.__fields__)(*cells)
        return value

    def estimated(*values: Any, **by_name: Any) -> Estimated:
        import traceback

        values = tuple(map(plain, values))
        by_name = {name: plain(value) for name, value in by_name.items()}
        amounts: dict[int, float] = {}
        for function, name in named:
            if id(function) in amounts:
                continue
            try:
                amount = function(*values, **by_name)
                is_text = isinstance(amount, (str, bytes, bool))
                number = float("nan") if amount is None or is_text else float(amount)
                if not 0 <= number < float("inf"):
                    return None, f"{name} returned {amount!r}"[:longest_message], ""
            except (Exception, SystemExit) as problem:
                frames = problem.__traceback__ and problem.__traceback__.tb_next
                only = "".join(traceback.format_exception_only(type(problem), problem)).strip()
                shown = "".join(traceback.format_exception(type(problem), problem, frames))
                told = f"{name} raised {only}"[:longest_message]
                return None, told, shown[-longest_traceback:]
            amounts[id(function)] = number
        return [amounts[id(function)] for function, _ in named], None, None

    estimated.__module__ = "__main__"
    return estimated


def estimate_failure(what: str, trace: str) -> Failure:
    """Return the failure of a row for which a function has given no amount."""
    problem = error("ESTIMATE_FUNCTION_FAILED", what=what)
    return Failure(problem.condition, message_of(problem), trace)


def udf_of(options: AsyncOptions, most: int = _LARGEST) -> str | None:
    """Return the functions as a UDF of Spark that takes a row's values, pickled and in base64.

    None without such functions. ``Estimates.scala`` makes the UDF. Raises ``InvalidFunction``
    (NOT_PICKLABLE), and ``InvalidOption`` if it has more than ``most`` characters.
    """
    functions = options.estimators
    if not functions:
        return None
    names = ", ".join(dict.fromkeys(map(name_of, functions)))
    pair = (estimator(functions), _type(len(functions)))
    made = base64.b64encode(pickled(pair, names)).decode()
    fits = f"at most {most} bytes, pickled with what it uses"
    check(len(made) <= most, "limit.estimate", fits, len(made), "a function without data")
    return made


def _type(limits: int) -> StructType:
    """Return the type of ``Estimated``. The names of the amounts are ``Estimates.scala``'s."""
    from pyspark.sql.types import DoubleType, StructField, StructType

    amounts = StructType([StructField(str(place), DoubleType()) for place in range(limits)])
    return StructType().add("amounts", amounts).add("what", "string").add("traceback", "string")
