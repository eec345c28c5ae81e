"""The context in which a function is opened and declares its states."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from .surface import AggregatingState, ListState, MapState, ReducingState, ValueState
from .ttl import StateTtl
from .typevars import In, Object, Out

IntNames = Literal["tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"]
FloatNames = Literal["float", "real", "double"]
DecimalNames = Literal["decimal", "dec", "numeric"]
DateTimeNames = Literal["timestamp", "timestamp_ltz", "timestamp_ntz"]

if TYPE_CHECKING:
    from pyspark.sql import types as t

    from .aggregate import AggregateFunction

    Ints = IntNames | t.IntegralType
    Floats = FloatNames | t.FloatType | t.DoubleType
    Bools = Literal["boolean"] | t.BooleanType
    Strings = Literal["string"] | t.StringType
    Binaries = Literal["binary"] | t.BinaryType
    Decimals = DecimalNames | t.DecimalType
    Dates = Literal["date"] | t.DateType
    DateTimes = DateTimeNames | t.TimestampType | t.TimestampNTZType
    AnyType = str | t.DataType
    GivenType = AnyType | type[Any]

    T = TypeVar("T")
    ReduceFunction = Callable[[T, T], T]

Ttl = StateTtl | str | timedelta | None


class OpenContext:
    """The context of ``open``, which returns state handles. There is no key yet.

    A type is a Spark type, as DDL or as a ``DataType``, or a class as in ``returns`` of
    :func:`async_io`: the state then takes and gives back objects of it, a new one at each read. The
    keys of a map are of no class. Type checkers know what the simple ones hold, such as "bigint";
    handles of others are ``Any`` to them, unless they are annotated, as in
    ``self.tags: pb.ValueState[list[str]] = ctx.value_state("tags", "array<string>")``.

    ``ttl`` is a :class:`StateTtl`, or the duration of one; without it state lives until it is
    cleared. ``name`` is that of the operator.

    All methods raise :class:`StateError` for a name that has another state, after ``open``, and
    for a TTL in event time without a watermark; :class:`InvalidSchema` for an unknown type,
    :class:`InvalidOption` for an invalid TTL, :class:`InvalidFunction` for a function of another
    kind.
    """

    def __init__(self, declare: Any, name: str) -> None:
        self._declare = declare
        self.name = name

    @overload
    def value_state(self, name: str, type: Ints, *, ttl: Ttl = None) -> ValueState[int]: ...
    @overload
    def value_state(self, name: str, type: Floats, *, ttl: Ttl = None) -> ValueState[float]: ...
    @overload
    def value_state(self, name: str, type: Bools, *, ttl: Ttl = None) -> ValueState[bool]: ...
    @overload
    def value_state(self, name: str, type: Strings, *, ttl: Ttl = None) -> ValueState[str]: ...
    @overload
    def value_state(self, name: str, type: Binaries, *, ttl: Ttl = None) -> ValueState[bytes]: ...
    @overload
    def value_state(self, name: str, type: Decimals, *, ttl: Ttl = None) -> ValueState[Decimal]: ...
    @overload
    def value_state(self, name: str, type: Dates, *, ttl: Ttl = None) -> ValueState[date]: ...
    @overload
    def value_state(
        self, name: str, type: DateTimes, *, ttl: Ttl = None
    ) -> ValueState[datetime]: ...
    @overload
    def value_state(
        self, name: str, type: type[Object], *, ttl: Ttl = None
    ) -> ValueState[Object]: ...
    @overload
    def value_state(self, name: str, type: AnyType, *, ttl: Ttl = None) -> ValueState[Any]: ...
    def value_state(self, name: str, type: GivenType, *, ttl: Ttl = None) -> Any:
        """Declare one value a key."""
        return self._declare(name, "value", type, ttl=ttl)

    @overload
    def list_state(self, name: str, type: Ints, *, ttl: Ttl = None) -> ListState[int]: ...
    @overload
    def list_state(self, name: str, type: Floats, *, ttl: Ttl = None) -> ListState[float]: ...
    @overload
    def list_state(self, name: str, type: Bools, *, ttl: Ttl = None) -> ListState[bool]: ...
    @overload
    def list_state(self, name: str, type: Strings, *, ttl: Ttl = None) -> ListState[str]: ...
    @overload
    def list_state(self, name: str, type: Binaries, *, ttl: Ttl = None) -> ListState[bytes]: ...
    @overload
    def list_state(self, name: str, type: Decimals, *, ttl: Ttl = None) -> ListState[Decimal]: ...
    @overload
    def list_state(self, name: str, type: Dates, *, ttl: Ttl = None) -> ListState[date]: ...
    @overload
    def list_state(self, name: str, type: DateTimes, *, ttl: Ttl = None) -> ListState[datetime]: ...
    @overload
    def list_state(
        self, name: str, type: type[Object], *, ttl: Ttl = None
    ) -> ListState[Object]: ...
    @overload
    def list_state(self, name: str, type: AnyType, *, ttl: Ttl = None) -> ListState[Any]: ...
    def list_state(self, name: str, type: GivenType, *, ttl: Ttl = None) -> Any:
        """Declare a list a key."""
        return self._declare(name, "list", type, ttl=ttl)

    @overload
    def map_state(
        self, name: str, key_type: Ints, value_type: Ints, *, ttl: Ttl = None
    ) -> MapState[int, int]: ...
    @overload
    def map_state(
        self, name: str, key_type: Ints, value_type: Floats, *, ttl: Ttl = None
    ) -> MapState[int, float]: ...
    @overload
    def map_state(
        self, name: str, key_type: Ints, value_type: Bools, *, ttl: Ttl = None
    ) -> MapState[int, bool]: ...
    @overload
    def map_state(
        self, name: str, key_type: Ints, value_type: Strings, *, ttl: Ttl = None
    ) -> MapState[int, str]: ...
    @overload
    def map_state(
        self, name: str, key_type: Ints, value_type: DateTimes, *, ttl: Ttl = None
    ) -> MapState[int, datetime]: ...
    @overload
    def map_state(
        self, name: str, key_type: Ints, value_type: AnyType, *, ttl: Ttl = None
    ) -> MapState[int, Any]: ...
    @overload
    def map_state(
        self, name: str, key_type: Strings, value_type: Ints, *, ttl: Ttl = None
    ) -> MapState[str, int]: ...
    @overload
    def map_state(
        self, name: str, key_type: Strings, value_type: Floats, *, ttl: Ttl = None
    ) -> MapState[str, float]: ...
    @overload
    def map_state(
        self, name: str, key_type: Strings, value_type: Bools, *, ttl: Ttl = None
    ) -> MapState[str, bool]: ...
    @overload
    def map_state(
        self, name: str, key_type: Strings, value_type: Strings, *, ttl: Ttl = None
    ) -> MapState[str, str]: ...
    @overload
    def map_state(
        self, name: str, key_type: Strings, value_type: DateTimes, *, ttl: Ttl = None
    ) -> MapState[str, datetime]: ...
    @overload
    def map_state(
        self, name: str, key_type: Strings, value_type: AnyType, *, ttl: Ttl = None
    ) -> MapState[str, Any]: ...
    @overload
    def map_state(
        self, name: str, key_type: Ints, value_type: type[Object], *, ttl: Ttl = None
    ) -> MapState[int, Object]: ...
    @overload
    def map_state(
        self, name: str, key_type: Strings, value_type: type[Object], *, ttl: Ttl = None
    ) -> MapState[str, Object]: ...
    @overload
    def map_state(
        self, name: str, key_type: AnyType, value_type: type[Object], *, ttl: Ttl = None
    ) -> MapState[Any, Object]: ...
    @overload
    def map_state(
        self, name: str, key_type: AnyType, value_type: AnyType, *, ttl: Ttl = None
    ) -> MapState[Any, Any]: ...
    def map_state(
        self, name: str, key_type: AnyType, value_type: GivenType, *, ttl: Ttl = None
    ) -> Any:
        """Declare a map a key. Its keys are of atomic types, or of structs of such.

        Arrays, maps, variants, user-defined types and classes are refused.
        """
        return self._declare(name, "map", value_type, key_type=key_type, ttl=ttl)

    @overload
    def reducing_state(
        self, name: str, type: Ints, function: ReduceFunction[int], *, ttl: Ttl = None
    ) -> ReducingState[int]: ...
    @overload
    def reducing_state(
        self, name: str, type: Floats, function: ReduceFunction[float], *, ttl: Ttl = None
    ) -> ReducingState[float]: ...
    @overload
    def reducing_state(
        self, name: str, type: Bools, function: ReduceFunction[bool], *, ttl: Ttl = None
    ) -> ReducingState[bool]: ...
    @overload
    def reducing_state(
        self, name: str, type: Strings, function: ReduceFunction[str], *, ttl: Ttl = None
    ) -> ReducingState[str]: ...
    @overload
    def reducing_state(
        self, name: str, type: Binaries, function: ReduceFunction[bytes], *, ttl: Ttl = None
    ) -> ReducingState[bytes]: ...
    @overload
    def reducing_state(
        self, name: str, type: Decimals, function: ReduceFunction[Decimal], *, ttl: Ttl = None
    ) -> ReducingState[Decimal]: ...
    @overload
    def reducing_state(
        self, name: str, type: Dates, function: ReduceFunction[date], *, ttl: Ttl = None
    ) -> ReducingState[date]: ...
    @overload
    def reducing_state(
        self, name: str, type: DateTimes, function: ReduceFunction[datetime], *, ttl: Ttl = None
    ) -> ReducingState[datetime]: ...
    @overload
    def reducing_state(
        self, name: str, type: type[Object], function: ReduceFunction[Object], *, ttl: Ttl = None
    ) -> ReducingState[Object]: ...
    @overload
    def reducing_state(
        self, name: str, type: AnyType, function: ReduceFunction[Any], *, ttl: Ttl = None
    ) -> ReducingState[Any]: ...
    def reducing_state(
        self, name: str, type: GivenType, function: ReduceFunction[Any], *, ttl: Ttl = None
    ) -> Any:
        """Declare the result of ``function(a, b)`` over all added values."""
        return self._declare(name, "reducing", type, fold=function, ttl=ttl)

    def timer(
        self, name: str, time_domain: Literal["event_time", "processing_time"] = "event_time"
    ) -> None:
        """Declare one timer a key, for the column form; it has one of each time domain at most.

        ``state[name]`` is an int64 column of times (epoch ms), null for keys without a timer. What
        is assigned to it sets, moves and deletes timers, and ``on_timers`` is called when they
        fire. Raises :class:`InvalidFunction` without ``on_timers`` and in another form, and
        :class:`StateError` for an event-time timer without a watermark.
        """
        self._declare(name, "timer", "bigint", time_domain=time_domain)

    def aggregating_state(
        self,
        name: str,
        accumulator_type: GivenType,
        function: AggregateFunction[In, Any, Out],
        *,
        ttl: Ttl = None,
    ) -> AggregatingState[In, Out]:
        """Declare the result of an :class:`AggregateFunction` over all added values."""
        handle: AggregatingState[In, Out] = self._declare(
            name, "aggregating", accumulator_type, fold=function, ttl=ttl
        )
        return handle
