"""Classes as columns: the table of docs/values.md, the errors, and the objects of states."""

from __future__ import annotations

import dataclasses
import enum
import re
import subprocess
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict
from uuid import UUID

import pydantic
import pytest
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ShortType
from typing_extensions import Required

import pillarbox as pb
from pillarbox._arrow.classes import mapped_annotation
from pillarbox._arrow.fields import Getters
from pillarbox._arrow.fields import Place as Path
from pillarbox._arrow.results import ResultEncoder
from pillarbox._base.spark_versions import in_utc
from pillarbox._keyed.values import ValueType
from test_docs import ROOT


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Place:
    city: str


@dataclasses.dataclass
class Price:
    amount: Annotated[Decimal, "decimal(10,2)"]
    note: str | None


class Model(pydantic.BaseModel):
    amount: Annotated[Decimal, pydantic.Field(gt=0), "decimal(10,2)"]
    note: str | None = None


class Keys(TypedDict, total=False):
    amount: Required[Annotated[Decimal, "decimal(10,2)"]]
    note: str


class Named(NamedTuple):
    amount: Annotated[Decimal, "decimal(10,2)"]
    note: str | None


@dataclasses.dataclass
class Endless:
    inner: list[Endless]


@dataclasses.dataclass(kw_only=True, frozen=True, slots=True)
class ByKeyword:
    n: int
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Computed:
    n: int
    twice: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.twice = 2 * self.n


class Nested(pydantic.BaseModel):
    n: int = pydantic.Field(alias="N")
    inner: list[ByKeyword] | None = None
    by_colour: dict[Colour, Model | None] = pydantic.Field(default_factory=dict)


OBJECTS = [
    ByKeyword(n=1),
    Computed(1),
    Nested(N=1),
    Nested(N=1, inner=[ByKeyword(n=2)], by_colour={Colour.RED: Model(amount=Decimal("1.50"))}),
]

NAMES = {
    **{one.__name__: one for one in (Colour, Place, date, datetime, timedelta, Decimal, UUID)},
    **{"Literal": Literal, "Optional": Optional, "Annotated": Annotated, "ShortType": ShortType},
}
ROW = re.compile(r"^\| `(.+?)`.* \| `(.+)` \| `(.+)` \|$", re.MULTILINE)


def table() -> list[Any]:
    page = (ROOT / "docs/values.md").read_text("utf-8")
    part = page.partition("| annotation | column |")[2].partition("\n\n")[0]
    found = [[cell.replace("\\|", "|") for cell in row] for row in ROW.findall(part)]
    return [pytest.param(*row, id=row[0]) for row in found]


def encoded(schema: t.StructType, answers: list[Any]) -> Any:
    arrow = to_arrow_schema(schema, **in_utc(to_arrow_schema))
    return ResultEncoder(schema, arrow, explode=False).encode(answers)


@pytest.mark.parametrize(("annotation", "column", "text"), table())
def test_the_table_of_the_docs(annotation, column, text):
    kind = dataclasses.make_dataclass("Kind", [("n", int), ("x", eval(annotation, NAMES))])
    mapped = mapped_annotation(kind, "returns")
    field = mapped.data_type["x"]
    assert field.dataType.simpleString() == column
    assert field.nullable
    value = kind(1, eval(text, NAMES))
    assert not encoded(mapped.data_type, [value]).mismatches
    state = ValueType(mapped.data_type, Path("s"), mapped.make)
    assert state.copy(state.accept(value)) == value


def test_the_table_is_read_whole():
    assert len(table()) == 20


@pytest.mark.parametrize("kind", [Price, Model, Keys, Named])
def test_all_kinds_of_classes(kind):
    mapped = mapped_annotation(kind, "returns")
    assert mapped.data_type.simpleString() == "struct<amount:decimal(10,2),note:string>"
    assert [field.nullable for field in mapped.data_type] == [True, True]
    value = kind(amount=Decimal("1.50"), note="a")
    (row,) = encoded(mapped.data_type, [value]).batch.to_pylist()
    assert row == {"amount": Decimal("1.50"), "note": "a"}
    state = ValueType(mapped.data_type, Path("s"), mapped.make)
    read = state.copy(state.accept(value))
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("value", OBJECTS)
def test_objects_of_odd_classes_come_back(value):
    mapped = mapped_annotation(type(value), "returns")
    assert not encoded(mapped.data_type, [value]).mismatches
    state = ValueType(mapped.data_type, Path("s"), mapped.make)
    assert state.copy(state.accept(value)) == value


def test_classes_that_are_made_in_each_call_are_not_held():
    getters = Getters(["city"])
    for _ in range(3 * Getters.MOST):
        kind = dataclasses.make_dataclass("Kind", ["city"])
        getter = getters[kind]
        assert getter is not None
        assert getter(kind("Oslo")) == ("Oslo",)
    assert len(getters) <= Getters.MOST


def test_an_object_without_one_of_its_fields_is_told():
    broken = Price(Decimal(1), None)
    del broken.amount
    mapped = mapped_annotation(Price, "returns")
    assert len(encoded(mapped.data_type, [broken]).mismatches) == 1
    flat = mapped_annotation(Place, "returns")
    place = Place("Oslo")
    del place.city
    with pytest.raises(pb.ResultTypeMismatch):
        ValueType(flat.data_type, Path("s")).accept(place)


def test_exploded_objects():
    schema = mapped_annotation(Price, "returns").data_type
    arrow = to_arrow_schema(schema, **in_utc(to_arrow_schema))
    answer = [Price(Decimal(1), None), Price(Decimal(2), "b")]
    made = ResultEncoder(schema, arrow, explode=True).encode([answer, []])
    assert (made.counts, made.batch.num_rows) == ([2, 0], 2)


def test_what_may_be_null_inside():
    kind = dataclasses.make_dataclass("Kind", [("x", list[int | None]), ("y", dict[str, Place])])
    x, y = mapped_annotation(kind, "returns").data_type.fields
    assert x.dataType == t.ArrayType(t.LongType(), True)
    city = t.StructType([t.StructField("city", t.StringType(), True)])
    assert y.dataType == t.MapType(t.StringType(), city, True)


def test_a_null_passes_as_under_ddl():
    mapped = mapped_annotation(Price, "returns")
    made = encoded(mapped.data_type, [Price(None, None)])
    assert not made.mismatches
    assert made.batch.to_pylist() == [{"amount": None, "note": None}]


@pytest.mark.parametrize("kind", [Place, dataclasses.make_dataclass("Other", ["city", "zip"])])
def test_one_column_of_an_object(kind):
    schema = t.StructType([t.StructField("city", t.StringType())])
    value = kind(*["Oslo"] * len(dataclasses.fields(kind)))
    assert encoded(schema, [value]).batch.to_pylist() == [{"city": "Oslo"}]


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        (complex, "its field x is of type complex"),
        (list[complex], "its field x[] is of type complex"),
        (dict[str, set[int]], "its field x{value} is of type set[int]"),
        (int | str, "its field x is of type int | str"),
        (list, "its field x is of type list"),
        (Literal[1], "its field x is of type typing.Literal[1]"),
        (dict[str | None, int], "its field x has keys that may be None"),
        (Annotated[int, "bigg"], "in its field x, "),
        (Endless, "its field x.inner[] contains Endless again"),
        (Any, "Any, which no column has"),
    ],
)
def test_what_is_no_column_is_told_by_its_field(annotation, told):
    kind = dataclasses.make_dataclass("Kind", [("x", annotation)])
    with pytest.raises(pb.InvalidSchema) as caught:
        mapped_annotation(kind, "returns")
    assert told in str(caught.value)


def test_annotations_that_cannot_be_read():
    kind = dataclasses.make_dataclass("Kind", [("x", "Nowhere")])
    with pytest.raises(pb.InvalidSchema, match="Nowhere"):
        mapped_annotation(kind, "returns")


class Last(pb.KeyedProcessFunction):
    def __init__(self, kind: type) -> None:
        self.kind = kind

    def open(self, ctx: Any) -> None:
        self.told: list[Any] = []
        ttl = pb.StateTtl("1s", on_expire=lambda *args: self.told.append(args[2]))
        self.last = ctx.value_state("last", self.kind, ttl=ttl)
        self.all = ctx.list_state("all", self.kind)
        self.by_note = ctx.map_state("by_note", "string", self.kind)
        self.most = ctx.reducing_state("most", self.kind, self.larger)

    def larger(self, one: Any, other: Any) -> Any:
        return max(one, other, key=amount)

    def process(self, row: Any, ctx: Any) -> Any:
        new = self.kind(amount=row.amount, note=ctx.key)
        yield self.last.value() or new
        for update in (self.last.update, self.all.add, self.most.add):
            update(new)
        self.by_note.put("x", new)
        ctx.output("side", new)


def amount(value: Any) -> Any:
    return value["amount"] if isinstance(value, dict) else value.amount


@pytest.mark.parametrize("kind", [Price, Model, Keys, Named])
def test_states_give_objects(kind):
    function = Last(kind)
    harness = pb.testing.KeyedHarness(
        function, by="k", schema="k string, amount decimal(10,2)", returns=kind,
        side_outputs={"side": kind},
    )  # fmt: skip
    one, two = Decimal("1.00"), Decimal("2.00")
    rows = harness.process({"k": "a", "amount": two}) + harness.process({"k": "a", "amount": one})
    assert [row.amount for row in rows] == [two, two]
    assert [row.amount for row in harness.side_output("side")] == [two, one]
    harness.advance_processing_time(10_000)
    harness.process({"k": "a", "amount": one})
    assert function.told == [kind(amount=one, note="a")]


def test_each_read_is_an_object_of_its_own():
    mapped = mapped_annotation(Price, "returns")
    state = ValueType(mapped.data_type, Path("s"), mapped.make)
    stored = state.accept(Price(Decimal(1), "a"))
    state.copy(stored).note = "b"
    assert state.copy(stored).note == "a"


def test_the_keys_of_a_map_are_of_no_class():
    class Bad(Last):
        def open(self, ctx: Any) -> None:
            ctx.map_state("m", Price, "int")

    with pytest.raises(pb.InvalidSchema, match="keys of a map"):
        pb.testing.KeyedHarness(Bad(Price), by="k", schema="k string", returns="k string")


def test_pydantic_is_not_imported():
    code = (
        "import sys, dataclasses, pillarbox\n"
        "from pillarbox._arrow.classes import mapped_annotation\n"
        "mapped_annotation(dataclasses.make_dataclass('K', [('x', int)]), 'returns')\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
