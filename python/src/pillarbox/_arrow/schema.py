"""The columns that operators take and return, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ArithmeticException, ParseException
from pyspark.sql.types import DataType, StructField, StructType

from .._base.checks import check_text, not_columns
from .._base.spark_versions import in_utc
from ..errors import PillarboxError, error, shown
from .classes import is_record, mapped_annotation
from .ddl import parse_columns, parse_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR_TYPE = parse_columns(
    "kind string, message string, attempts int, elapsed_ms bigint, call_id string", ""
)

CALL_TYPE = parse_columns(
    "call_id string, attempts int, elapsed_ms bigint, from_journal boolean, "
    "usage map<string,double>",
    "",
)

# The metadata of these columns: the names of the input's, and the operator with its units, and if
# its calls are of lists.
# AsyncIOPlanner.scala has the same.
INPUTS = "pillarbox.inputs"
OPERATOR = "pillarbox.operator"
UNITS = "pillarbox.units"
BATCH = "pillarbox.batch"


def error_field(name: str, inputs: Sequence[str]) -> StructField:
    """Return the error column of an operator whose input has these columns."""
    return StructField(name, ERROR_TYPE, metadata={INPUTS: list(inputs)})


def call_field(
    name: str, operator: str, units: Sequence[str], is_batch: bool = False
) -> StructField:
    """Return the column that tells of each row's call."""
    metadata = {OPERATOR: operator, UNITS: list(units), BATCH: is_batch}
    return StructField(name, CALL_TYPE, metadata=metadata)


def parse_returns(
    returns: object, spark: SparkSession | None, option: str = "returns"
) -> StructType:
    """Return the schema that ``option`` gives as a DDL string, StructType or class.

    A DDL string is read by the parser of ``spark``, or by ours without a session. Raises
    ``InvalidSchema`` for other values, and for columns that can't travel as Arrow.
    """
    schema = _parsed(returns, spark, option)
    if not isinstance(schema, StructType) or not schema.fields:
        raise _invalid(option, returns, "it has no named columns")
    for column in schema.fields:
        check_type(column.dataType, column.name, option)
    return schema


def as_nullable(schema: StructType) -> StructType:
    """Return the same columns, all of which may be null."""
    return StructType([StructField(f.name, f.dataType, True, f.metadata) for f in schema.fields])


def _parsed(returns: object, spark: Any, option: str) -> DataType:
    if isinstance(returns, StructType):
        return returns
    if is_record(returns):
        return mapped_annotation(returns, option, _invalid).data_type
    if not isinstance(returns, str) or not returns.strip():
        raise _invalid(option, returns, "it is none of these")
    check_text(option, returns, '"price double"')
    if spark is None:
        return parse_type(returns, option, _invalid)
    try:
        parsed: DataType = spark._parse_ddl(returns)
        return parsed
    except (ParseException, AnalysisException, ArithmeticException) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise _invalid(option, returns, reason) from None


def _invalid(option: str, returns: object, reason: str) -> PillarboxError:
    kinds = (
        "a DDL string, a StructType or a class (dataclass, NamedTuple, TypedDict, pydantic model)"
    )
    return _refused(
        option, returns, reason, f"{kinds} with at least one column", "temp double, wind double"
    )


def invalid_value(option: str, returns: object, reason: str) -> PillarboxError:
    """Return INVALID_RETURNS for a function of values, which gives one."""
    expected = "a type as DDL, a DataType, or a class or another annotation that gives a type"
    return _refused(option, returns, reason, expected, "double")


def _refused(
    option: str, returns: object, reason: str, expected: str, example: str
) -> PillarboxError:
    return error(
        "INVALID_RETURNS",
        option=option,
        expected=expected,
        value=shown(returns),
        reason=reason,
        example=example,
    )


def check_type(data_type: DataType, column: str, place: str) -> None:
    """Raise ``InvalidSchema`` (UNSUPPORTED_TYPE) unless Arrow can carry ``data_type``."""
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        to_arrow_type(
            data_type, error_on_duplicated_field_names_in_struct=True, **in_utc(to_arrow_type)
        )
    except Exception:
        raise error(
            "UNSUPPORTED_TYPE", column=column, place=place, data_type=data_type.simpleString()
        ) from None


def is_case_sensitive(spark: SparkSession) -> bool:
    return str(spark.conf.get("spark.sql.caseSensitive")).strip().lower() == "true"


def select_inputs(schema: StructType, inputs: Sequence[str] | None, case_sensitive: bool) -> Any:
    """Return the columns of ``schema`` that the function sees, in the order of ``inputs``.

    Names are resolved as Spark resolves them. Raises as ``find_columns``, and ``InvalidSchema``
    (UNSUPPORTED_TYPE).
    """
    chosen = list(schema.fields)
    if inputs is not None:
        chosen = find_columns(schema, inputs, "inputs", case_sensitive)
    for column in chosen:
        check_type(column.dataType, column.name, "the input")
    return StructType(chosen)


def positions(schema: StructType, inputs: Sequence[str] | None, chosen: StructType) -> list[int]:
    """Return the positions in a row of the columns that the function sees."""
    if inputs is None:
        return list(range(len(schema.names)))
    return [schema.names.index(name) for name in chosen.names]


def find_column(
    schema: StructType, name: str, option: str, case_sensitive: bool = True
) -> StructField:
    """Return the one column that ``option`` names.

    Raises ``InvalidOption`` (UNKNOWN_COLUMN, AMBIGUOUS_COLUMN) if there is none, or several.
    """
    wanted = folded(name, case_sensitive)
    found = [field for field in schema.fields if folded(field.name, case_sensitive) == wanted]
    if not found:
        raise error("UNKNOWN_COLUMN", option=option, column=name, available=", ".join(schema.names))
    if len(found) > 1:
        names = ", ".join(field.name for field in found)
        raise error("AMBIGUOUS_COLUMN", option=option, column=name, count=len(found), found=names)
    return found[0]


def find_columns(
    schema: StructType, names: Sequence[str], option: str, case_sensitive: bool
) -> list[StructField]:
    """Return the columns that ``option`` names, which must be different ones.

    Raises as ``find_column``, and ``InvalidOption`` for two names of one column ("k" and "K").
    """
    found = [find_column(schema, name, option, case_sensitive) for name in names]
    if len({column.name for column in found}) < len(found):
        raise not_columns(option, list(names))
    return found


def output_schema(
    schema: StructType,
    returns: StructType,
    others: Sequence[tuple[StructField, str]],
    case_sensitive: bool,
) -> StructType:
    """Return the input columns, those of ``returns``, and ``others``, each with its option's name.

    Raises ``InvalidSchema`` (OUTPUT_NAME_CLASH) if a new column has the name of another one. The
    input itself may have a name twice.
    """
    owners = {folded(name, case_sensitive): "the input" for name in schema.names}
    added = [*((column, "returns") for column in returns.fields), *others]
    for column, place in added:
        claim(owners, column.name, place, case_sensitive)
    return StructType(schema.fields + [column for column, _ in added])


def claim(owners: dict[str, str], name: str, place: str, case_sensitive: bool) -> None:
    """Add a column to ``owners`` by name. Raises ``InvalidSchema`` (OUTPUT_NAME_CLASH)."""
    key = folded(name, case_sensitive)
    if key in owners:
        raise error("OUTPUT_NAME_CLASH", column=name, first=owners[key], second=place)
    owners[key] = place


def folded(name: str, case_sensitive: bool) -> str:
    """Return the form in which equal names are compared."""
    return name if case_sensitive else name.lower()
