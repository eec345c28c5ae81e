"""Names in a function's answers: which keys are taken, left out, or refused; without Spark."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from typing import Any, get_args

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

import pillarbox as pb
from keyed.support import AtKeys
from pillarbox._arrow.ddl import parse_columns
from pillarbox._arrow.results import ResultEncoder
from pillarbox._base.names import is_nearly, nearest
from pillarbox._base.spark_versions import in_utc
from pillarbox._keyed import opening
from pillarbox._keyed.output import RowsEncoder
from pillarbox._keyed.whole_columns import BatchAcceptor
from pillarbox.testing import KeyedHarness

MONEY = parse_columns("price double, currency string", "returns")
STRICT = parse_columns("price double not null, currency string", "returns")


def arrow(schema: t.StructType) -> pa.Schema:
    return to_arrow_schema(schema, **in_utc(to_arrow_schema))


@pytest.mark.parametrize(
    ("name", "meant", "nearly"),
    [
        ("curency", "currency", True),
        ("currnecy", "currency", True),
        ("curencys", "currency", True),
        ("Currency", "currency", True),
        ("CURRENCY_", "currency", True),
        ("crrncyx", "currency", False),
        ("nmae", "name", True),
        ("names", "name", True),
        ("nmaes", "name", False),
        ("temp", "time", False),
        ("id", "ts", False),
        ("ID", "id", True),
        ("a", "b", False),
        ("", "id", False),
    ],
)
def test_a_name_is_nearly_another_by_case_or_a_letter_or_two(
    name: str, meant: str, nearly: bool
) -> None:
    assert is_nearly(name, meant) is nearly


def test_the_nearest_name_is_that_with_the_fewest_letters_to_change() -> None:
    assert nearest("prcie", ["currency", "price", "pierce"]) == "price"
    assert nearest("x", []) is None


@dataclasses.dataclass
class Misspelt:
    price: float
    curency: str


MISSPELT = [
    {"price": 1.0, "curency": "EUR"},
    {"price": 1.0, "Currency": "EUR"},
    Row(price=1.0, curency="EUR"),
    Misspelt(1.0, "EUR"),
]
OTHERS = [
    {"price": 1.0, "currency": "EUR", "country": "DE"},
    {"price": 1.0, "country": "DE"},
    {"price": 1.0, "currency": "EUR", 5: 5},
    Row(price=1.0, currency="EUR", country="DE"),
]


class Emits(pb.KeyedProcessFunction):
    def __init__(self, answer: Any, tag: str | None = None) -> None:
        self.answer, self.tag = answer, tag

    def open(self, ctx: Any) -> None:
        self.value = ctx.value_state("money", MONEY)
        self.list = ctx.list_state("list", MONEY)
        self.map = ctx.map_state("map", MONEY, MONEY)

    def process(self, row: Any, ctx: Any) -> Any:
        if self.tag is None:
            yield self.answer
        else:
            ctx.output(self.tag, self.answer)


def keyed_row(answer: Any) -> Any:
    RowsEncoder(MONEY, {}, arrow(MONEY)).encode([answer, answer], ())


def harness(answer: Any) -> Any:
    KeyedHarness(Emits(answer), by="k", schema="k string", returns=MONEY).process(("a",))


def harness_input(answer: Any) -> Any:
    KeyedHarness(Emits(None), by="price", schema=MONEY, returns="x int").process(answer)


def side_output(answer: Any) -> Any:
    options: dict[str, Any] = {"returns": "x int", "side_outputs": {"side": MONEY}}
    KeyedHarness(Emits(answer, "side"), by="k", schema="k string", **options).process(("a",))


def value_state(answer: Any) -> Any:
    AtKeys(lambda ctx: ctx.value_state("money", MONEY)).at().update(answer)


def list_state(answer: Any) -> Any:
    AtKeys(lambda ctx: ctx.list_state("money", MONEY)).at().add(answer)


def map_state(answer: Any) -> Any:
    AtKeys(lambda ctx: ctx.map_state("money", "string", MONEY)).at().put("a", answer)


def map_key(answer: Any) -> Any:
    AtKeys(lambda ctx: ctx.map_state("money", MONEY, "string")).at().get(answer)


def inside_a_keyed_row(answer: Any) -> Any:
    outer = t.StructType([t.StructField("money", MONEY), t.StructField("x", t.IntegerType())])
    RowsEncoder(outer, {}, arrow(outer)).encode([{"money": answer, "x": 1}], ())


def inside_an_array(answer: Any) -> Any:
    outer = t.StructType([t.StructField("money", t.ArrayType(MONEY)), *parse_columns("x int", "")])
    RowsEncoder(outer, {}, arrow(outer)).encode([([answer], 1)], ())


def rows_of_a_column(answer: Any) -> Any:
    outer = t.StructType([t.StructField("money", MONEY)])
    BatchAcceptor(outer, arrow(outer)).batch({"money": [answer]})


KEYED = [
    keyed_row,
    harness,
    harness_input,
    side_output,
    value_state,
    list_state,
    map_state,
    map_key,
    inside_a_keyed_row,
    inside_an_array,
    rows_of_a_column,
]


@pytest.mark.parametrize("form", KEYED)
@pytest.mark.parametrize("answer", MISSPELT, ids=str)
def test_a_misspelt_key_is_an_error_that_names_it_and_the_nearest(form: Any, answer: Any) -> None:
    wanted = r"UNKNOWN_FIELD.*[uU]r+ency' is no column.*nearest is currency, and there are price, "
    with pytest.raises(pb.ResultTypeMismatch, match=wanted):
        form(answer)


@pytest.mark.parametrize("form", KEYED)
@pytest.mark.parametrize("answer", OTHERS, ids=str)
def test_a_key_that_is_no_column_is_an_error_in_keyed_functions(form: Any, answer: Any) -> None:
    with pytest.raises(pb.ResultTypeMismatch, match="UNKNOWN_FIELD"):
        form(answer)


@pytest.mark.parametrize("form", KEYED)
def test_a_row_with_a_field_twice_is_an_error_that_names_it(form: Any) -> None:
    twice = Row("price", "currency", "currency")(1.0, "EUR", "USD")
    with pytest.raises(pb.ResultTypeMismatch, match=r"FIELD_TWICE.*'currency' twice"):
        form(twice)


@pytest.mark.parametrize("form", KEYED)
def test_a_column_that_is_missing_is_null(form: Any) -> None:
    form({"price": 1.0})
    form({"currency": "EUR"})


def test_columns_of_the_column_form_are_named_as_they_are_declared() -> None:
    accept = BatchAcceptor(MONEY, arrow(MONEY)).batch
    for answer in (
        {"price": [1.0], "curency": ["EUR"]},
        pa.record_batch({"price": [1.0], "curency": ["EUR"]}),
        pa.table({"price": [1.0], "curency": ["EUR"]}),
        {"price": [1.0], "currency": ["EUR"], "curency": ["EUR"]},
        pa.record_batch({"money": [{"price": 1.0}]}),
    ):
        with pytest.raises(pb.ResultTypeMismatch, match=r"UNKNOWN_FIELD.*nearest is"):
            accept(answer)
    with pytest.raises(pb.ResultTypeMismatch, match="column currency must be"):
        accept({"price": [1.0]})


def answered(answer: Any, schema: t.StructType = MONEY) -> Any:
    encoded = ResultEncoder(schema, arrow(schema), explode=False).encode([answer])
    if encoded.mismatches:
        raise encoded.mismatches[0]
    return encoded.batch.to_pylist()


@pytest.mark.parametrize("answer", MISSPELT, ids=str)
def test_a_service_that_spells_a_missing_column_nearly_so_is_an_error(answer: Any) -> None:
    outer = t.StructType([t.StructField("money", t.ArrayType(MONEY)), *parse_columns("x int", "")])
    for made, schema in ((answer, MONEY), ({"money": [answer], "x": 1}, outer)):
        with pytest.raises(
            pb.ResultTypeMismatch, match=r"[uU]r+ency' is no column.*nearest is curren"
        ):
            answered(made, schema)


@pytest.mark.parametrize("answer", OTHERS, ids=str)
def test_a_service_may_tell_more_than_was_asked(answer: Any) -> None:
    (row,) = answered(answer)
    assert row["price"] == 1.0
    assert answered({"money": [answer], "x": 1}, t.StructType().add("money", t.ArrayType(MONEY)))


def test_a_service_may_have_both_spellings() -> None:
    assert answered({"price": 1.0, "currency": "EUR", "curency": "x"}) == [
        {"price": 1.0, "currency": "EUR"}
    ]


@pytest.mark.parametrize(
    "answer", [{"currency": "EUR"}, {"price": None, "currency": "EUR"}, (None, "EUR"), {}]
)
def test_a_column_that_is_not_null_refuses_null_and_being_missing(answer: Any) -> None:
    wanted = "price must be double and not null, but it is None"
    with pytest.raises(pb.ResultTypeMismatch, match=wanted):
        answered(answer, STRICT)
    with pytest.raises(pb.ResultTypeMismatch, match=wanted):
        RowsEncoder(STRICT, {}, arrow(STRICT)).encode([answer], ())
    with pytest.raises(pb.ResultTypeMismatch, match=wanted):
        KeyedHarness(Emits(answer), by="k", schema="k string", returns=STRICT).process(("a",))
    with pytest.raises(pb.ResultTypeMismatch, match=wanted):
        AtKeys(lambda ctx: ctx.value_state("s", STRICT)).at().update(answer)
    sides = {"side": STRICT}
    with pytest.raises(pb.ResultTypeMismatch, match=wanted):
        RowsEncoder(MONEY, sides, sided(sides)).encode([], [("side", 0, answer)])


def sided(sides: dict[str, t.StructType]) -> pa.Schema:
    from pillarbox._keyed.output import wire_schema

    return arrow(wire_schema(MONEY, sides))


def test_rows_of_other_outputs_have_nulls_where_a_side_output_has_none() -> None:
    sides = {"side": STRICT}
    encoder = RowsEncoder(MONEY, sides, sided(sides))
    batch = encoder.encode([(1.0, "EUR")], [("side", 0, (2.0, None))])
    assert batch.column("side").to_pylist() == [None, {"price": 2.0, "currency": None}]


def test_none_among_rows_is_a_row_of_nulls_or_refused() -> None:
    for columns in (MONEY, t.StructType([t.StructField("n", t.LongType())])):
        nulls = [dict.fromkeys(columns.names)]
        assert RowsEncoder(columns, {}, arrow(columns)).encode([None], ()).to_pylist() == nulls
        assert (
            ResultEncoder(columns, arrow(columns), True).encode([[None]]).batch.to_pylist() == nulls
        )
    with pytest.raises(pb.ResultTypeMismatch, match="not null, but it is None"):
        RowsEncoder(STRICT, {}, arrow(STRICT)).encode([None], ())


@pytest.mark.parametrize("explode", [False, True])
def test_no_match_is_refused_where_a_column_can_not_be_null(explode: bool) -> None:
    encoder = ResultEncoder(STRICT, arrow(STRICT), explode)
    encoded = encoder.encode([None, [(1.0, "EUR")] if explode else (1.0, "EUR")])
    assert encoded.counts == [0, 1]
    assert "price must be double and not null, but it is None" in str(encoded.mismatches[0])
    if explode:
        assert encoder.encode([[]]).counts == [0]
        assert 0 in encoder.encode([[None]]).mismatches


def test_nulls_inside_a_column_are_found_where_none_can_be() -> None:
    schema = t.StructType(
        [
            t.StructField("a", t.ArrayType(t.LongType(), False)),
            t.StructField("m", t.MapType(t.StringType(), t.LongType(), False)),
            t.StructField("s", t.StructType([t.StructField("x", t.LongType(), False)])),
            t.StructField("n", t.LongType(), False),
        ]
    )
    accept = BatchAcceptor(schema, arrow(schema)).batch
    struct = pa.struct([("x", pa.int64())])
    pairs = pa.map_(pa.string(), pa.int64())
    good = {
        "a": pa.array([[1], None, []]),
        "m": pa.array([[("a", 1)], None, []], pairs),
        "s": pa.array([{"x": 1}, None, {"x": 2}], struct),
        "n": pa.array([1, 2, 3]),
    }
    assert accept(good).num_rows == 3
    assert accept({name: column.slice(1) for name, column in good.items()}).num_rows == 2
    for name, bad in {
        "a": pa.array([[1], [None], []]),
        "m": pa.array([[("a", None)], None, []], pairs),
        "s": pa.array([{"x": None}, None, {"x": 2}], struct),
        "n": pa.array([1, None, 3]),
    }.items():
        for made in (bad, bad.to_pylist(maps_as_pydicts="strict")):
            with pytest.raises(pb.ResultTypeMismatch, match="not null, but it is None"):
                accept({**good, name: made})


@pytest.mark.parametrize(
    ("name", "meant"), [("proces_keyed", "process_keyed"), ("colums", "columns")]
)
def test_a_misspelt_name_of_the_package_is_an_error_that_names_the_nearest(
    name: str, meant: str
) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; the nearest is '{meant}'"):
        getattr(pb, name)


HOLDS = {
    opening.IntNames: int,
    opening.FloatNames: float,
    opening.DecimalNames: decimal.Decimal,
    opening.DateTimeNames: datetime.datetime,
}


@pytest.mark.parametrize(
    ("name", "held"), [(name, held) for names, held in HOLDS.items() for name in get_args(names)]
)
def test_the_types_that_type_checkers_know_by_name_hold_what_they_are_told(
    name: str, held: Any
) -> None:
    samples = [1, 1.5, decimal.Decimal(1), datetime.datetime(2026, 1, 1)]
    sample = next(one for one in samples if type(one) is held)
    state = AtKeys(lambda ctx: ctx.value_state("s", name)).at()
    state.update(sample)
    assert type(state.value()) is held
