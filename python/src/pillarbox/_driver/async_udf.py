"""``async_udf``: asynchronous calls in column expressions and in SQL."""

from __future__ import annotations

import functools
import hashlib
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from .._async.column_command import ColumnCommand, by_place
from .._async.estimators import udf_of
from .._async.function import AsyncFunction
from .._async.given import check_retry_on
from .._async.keywords import UdfKeywords
from .._async.options import AsyncOptions
from .._async.ticketed import Ticketed
from .._base.checks import needs_other
from .._base.functions import JvmFunction, check_called, is_async, name_of
from .._base.keywords import takes
from ..errors import error, shown
from ..limits import Limit
from .engine import require_jvm
from .failure_of import reported
from .marked import LARGE, Marked
from .plain_call import awaitable, called
from .specs import form_of
from .value_type import value_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType
    from typing_extensions import Unpack

    Returns = DataType | str | type[Any]

# Spark's number for a UDF that is given a row at a time.
_BATCHED = 100
_VALUE = "value"


@overload
def async_udf(
    function: Callable[..., Any],
    *,
    returns: Returns | None = None,
    **keywords: Unpack[UdfKeywords],
) -> AsyncUdf: ...


@overload
def async_udf(
    *,
    returns: Returns | None = None,
    **keywords: Unpack[UdfKeywords],
) -> Callable[[Callable[..., Any]], AsyncUdf]: ...


@takes(UdfKeywords)
def async_udf(
    function: Callable[..., Any] | None = None,
    *,
    returns: Returns | None = None,
    **keywords: Unpack[UdfKeywords],
) -> AsyncUdf | Callable[[Callable[..., Any]], AsyncUdf]:
    """Make a function of columns of an asynchronous function, for expressions and for SQL.

    ``function`` is ``async def f(a, b)``, or ``def f(a, b)``, which runs in threads of the worker.
    It gets the open resource first, if there is one, then a value for each column of the call, and
    returns one value; None is null. Without ``function`` this is a decorator.

    The result is used as a UDF of Spark is, in batches and in streams: ``select``, ``withColumn``,
    ``filter``, nested in other expressions, and in SQL after ``score.register(spark, "score")``.
    ``capacity`` rows of a task are in flight at a time, and rows keep their order. With plain
    values it is an ordinary call: ``await score("text")``.

    Spark calls it once for each row that reaches the expression, in all branches of CASE,
    ``coalesce`` and the like. A call of outer columns in a correlated subquery, or of both sides in
    a join's condition, may be made more often. A call that a query has several times, as in a
    filter on a column that it shows too, is made once. It needs the jar, see :func:`configure`.

    Parameters
    ----------
    returns: the type of the value: DDL or a ``DataType``, or a class or an annotation that is
        mapped as in :func:`async_io`. Several columns, as in "temp double, wind double", and a
        class, are a struct. By default the function's annotation.
    batch_size: the function gets lists of up to so many values, one list for each column, and
        returns a list with a value for each row; a :class:`BatchSize` also says how long the first
        row waits for others. An annotation of the result is then ``list[...]``.
    capacity: the number of rows in flight in one task, which holds up to ten times as many, those
        that are done and wait for their turn included.
    limit: the number of calls that the service may see, over all uses of this object.
    budget: when to stop calling, a :class:`Budget`, over all uses of this object in a query.
    on_error: "raise" fails the task; "null" gives null; "column" gives struct<value, error>, in
        which ``error`` is that of :func:`async_io`, null for good rows. An :class:`ErrorColumn`
        has another name for it.
    share_calls: with True rows with equal arguments, in flight in one task, share one call.
    journal: the path of a folder that keeps answers, or a :class:`Journal`, as in
        :func:`async_io`; True, in a streaming query, is a folder in its checkpoint. A call is named
        by ``name`` and its arguments, which count by place. It needs ``name``.
    {keywords}

    Raises :class:`InvalidOption`, :class:`InvalidSchema` or :class:`InvalidFunction`.
    """
    if function is None:
        return functools.partial(async_udf, returns=returns, **keywords)
    is_batch = keywords.get("batch_size") is not None
    _check_function(function, is_batch)
    options = AsyncOptions.of(name_of(function), keywords, check_limit=_check_limit)
    check_retry_on(options.retry, on_jvm=False)
    if options.share_calls == "query":
        advice = "Use True, or pb.async_io, which can shuffle rows."
        raise needs_other("share_calls", "query", "in an expression", advice)
    if options.error_column == _VALUE:
        condition = "where the value has this name"
        raise needs_other("on_error", options.on_error, condition, "Take another.")
    return AsyncUdf(function, value_type(returns, function, is_batch, _VALUE), options)


def _check_limit(limit: Limit) -> None:
    """Raise ``InvalidOption`` for a limit that goes by columns."""
    condition = "for a function of values, which has no columns"
    if limit.scope == "key":
        advice = "Choose another scope, or use pb.async_io with by."
        raise needs_other("limit.scope", "key", condition, advice)
    if limit.key is not None:
        raise needs_other("limit.key", limit.key, condition, "Leave it out, or use pb.async_io.")
    if isinstance(limit.estimate, str):
        advice = "Give a function of the same values, or a number."
        raise needs_other("limit.estimate", limit.estimate, condition, advice)


def _check_function(function: object, is_batch: bool) -> None:
    if isinstance(function, (AsyncFunction, JvmFunction, Ticketed, AsyncUdf)):
        raise error("NOT_A_FUNCTION_OF_VALUES", value=shown(function))
    several = 'one value: several are a list, with returns="array<double>"'
    answer = "a list with a value for each row" if is_batch else several
    check_called(function, "NOT_A_FUNCTION_OF_VALUES", answer)


class AsyncUdf:
    """A function of columns, which :func:`async_udf` makes, with the attributes of Spark's UDFs.

    It is made of the ``function``, which is its ``__wrapped__``, the ``data_type`` of the value,
    and the ``options`` of the operator.
    """

    evalType = _BATCHED

    def __init__(
        self,
        function: Callable[..., Any],
        data_type: DataType,
        options: AsyncOptions,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._name = options.name
        self._function, self._options = function, options
        self._data_type = data_type
        self._operator = uuid.uuid4().hex
        self.deterministic = True
        self._made: tuple[Any, Any] = None, None

    @property
    def returnType(self) -> DataType:
        """The type of the column."""
        from pyspark.sql.types import StructField, StructType

        from .._arrow.schema import ERROR_TYPE

        if self._options.error_column is None:
            return self._data_type
        failed = StructField(self._options.error_column, ERROR_TYPE)
        return StructType([StructField(_VALUE, self._data_type), failed])

    @property
    def func(self) -> Any:
        """The function that Spark pickles."""
        return Marked(self._name, self._spec(), self.deterministic, self._command().dumps)

    def asNondeterministic(self) -> AsyncUdf:
        """Return the same function, which Spark calls exactly where it stands in the query.

        A filter on other columns that is written after it then runs after it, too. Limits count
        its calls with those of this object.
        """
        other = AsyncUdf(self._function, self._data_type, self._options)
        other._operator, other.deterministic = self._operator, False
        return other

    def register(self, spark: SparkSession, name: str | None = None) -> None:
        """Make it a function of SQL in ``spark``, by default under its own name.

        Raises :class:`EngineUnavailable` where the session lacks the jar, and
        :class:`InvalidFunction` (NOT_PICKLABLE).
        """
        self._check_in(spark)
        spark.udf.register(self._name if name is None else name, self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return a column, or call the function.

        With a ``Column`` among the arguments, or texts only, which name columns, the result is a
        ``Column``. Otherwise, and with texts if it is awaited, it is a call with these values. It
        opens the resource if there is one.

        Raises :class:`InvalidFunction` (WRONG_ARGUMENTS, ESTIMATE_WRONG_PARAMETERS, NOT_PICKLABLE)
        if the function, or an estimate, doesn't take so many, or can't travel, and
        :class:`EngineUnavailable` where the session lacks the jar.
        """
        from pyspark.sql import Column

        given = [*arguments, *named.values()]
        has_resource = self._options.resource is not None
        places, by_name = by_place(self._function, self._name, has_resource, arguments, named)
        for function in self._options.estimators:
            problem = "ESTIMATE_WRONG_PARAMETERS"
            by_place(function, name_of(function), False, places, by_name, problem)
        is_column = any(isinstance(one, Column) for one in given)
        plain = [one for one in given if not isinstance(one, (str, Column))]
        if plain and is_column:
            raise error("NOT_A_COLUMN", function=self._name, value=shown(plain[0]))
        spark = None if plain else _session()
        if spark is None:
            return self._called(arguments, named)
        column = self._udf(spark)(*places, **by_name)
        if not is_column:
            column.__class__ = awaitable(column.__class__)
            column._pillarbox_call = lambda: self._called(arguments, named)
        return column

    def _called(self, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return called(self._function, self._options.resource, values, named)

    def _check_in(self, spark: SparkSession) -> None:
        client = require_jvm(spark)
        command = self._command().dumps()  # Spark's error would not name the function
        client.forget_broadcasts()
        with reported():
            client.plan_udfs(command, {"name": self._name, "journal": self._options.journal_path})

    def _udf(self, spark: SparkSession) -> Any:
        """Return Spark's UDF, which is made once for a SparkContext, or a session of Connect."""
        is_classic = hasattr(spark, "_jsparkSession")
        owner: Any = spark.sparkContext if is_classic else spark
        if self._made[0] is not owner:
            self._check_in(spark)
            if is_classic:
                from pyspark.sql.udf import UserDefinedFunction
            else:
                from pyspark.sql.connect.udf import UserDefinedFunction  # type: ignore[assignment]
            made = UserDefinedFunction(
                self.func, self.returnType, self._name, _BATCHED, self.deterministic
            )
            self._made = owner, made
        return self._made[1]

    def _command(self) -> ColumnCommand:
        from pyspark.sql.types import StructType

        return ColumnCommand(
            function=self._function,
            is_async=is_async(self._function),
            is_batch=self._options.batch_size is not None,
            resource=self._options.resource,
            retry=self._options.retry,
            input_schema=StructType(),
            returns=self._columns(),
            name=self._name,
            has_limits=self._options.has_limits,
        )

    def _columns(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType().add(_VALUE, self._data_type)

    def _spec(self) -> dict[str, Any]:
        told = f"{self._name}|{self.returnType.json()}"
        return {
            **self._options.to_spec(),
            "estimator": udf_of(self._options, LARGE),
            "form": form_of(self._command()),
            "returns": self._columns().json(),
            "signature": hashlib.blake2s(told.encode(), digest_size=6).hexdigest(),
            "operator_id": self._operator,
            "expression": True,
        }

    def __repr__(self) -> str:
        return f"async_udf({self._name})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": (None, None)}


def _session() -> Any:
    """Return the session that a column would be made in, or None."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        from pyspark.sql.connect.session import SparkSession as Remote

        return Remote.getActiveSession()
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession._instantiatedSession
