"""What ``async_io`` refuses, before any job is started."""

from __future__ import annotations

import re
import threading

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as t

import pillarbox as pb
from pillarbox._base.spark_versions import line_of
from pillarbox._driver.client.classic import ClassicClient
from pillarbox._driver.client.connect import ConnectClient
from pillarbox._driver.engine import require_jvm
from spark_support import by_value

by_value(__name__)


@pytest.fixture
def df(spark):
    return spark.range(3).withColumn("name", F.lit("x"))


async def f(row):
    return row.id


async def with_resource(row, resource):
    return row.id


def apply(df, function=f, **options):
    return pb.async_io(df, function, **{"returns": "y long", "engine": "python", **options})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"capacity": 0}, "capacity"),
        ({"capacity": -1}, "capacity"),
        ({"capacity": 1.5}, "capacity"),
        ({"capacity": True}, "capacity"),
        ({"capacity": 2**31 - 1, "ordered": False}, "capacity must be a whole number from 1 to 10"),
        ({"batch_size": 2**32 + 1}, "batch_size must be a whole number from 1 to 10"),
        ({"timeout": "100001 days"}, "at most 100000 days"),
        ({"retry": pb.Retry(2, on="java.io.IOException")}, "retry.on"),
        ({"timeout": "0s"}, "timeout"),
        ({"timeout": "-5s"}, "timeout"),
        ({"timeout": 5}, "timeout"),
        ({"retry": "3"}, "retry"),
        ({"on_error": "ignore"}, "on_error"),
        ({"limit": 50}, "limit must be a pb.Limit or a list"),
        (
            {"limit": pb.Limit(concurrency=1, scope="key")},
            "limit.scope='key' has no meaning without by",
        ),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 101}, "batch_size"),
        ({"ordered": "yes"}, "ordered"),
        ({"explode": 1}, "explode"),
        ({"inputs": ["id", "id"]}, "inputs"),
        ({"call_key": "id"}, "CALL_KEY_WITHOUT_NAME"),
        ({"journal": "/answers"}, "JOURNAL_WITHOUT_NAME"),
        ({"journal": True, "call_key": "id"}, "JOURNAL_WITHOUT_NAME"),
        ({"attempt_timeout": "5s"}, 'Meant is timeout=pb.Timeout("30s", attempt="5s").'),
        ({"max_concurrency": 5}, "Meant is limit=pb.Limit(concurrency=...)."),
        ({"hours": 3}, "no option hours. It has df, function, returns, "),
        ({"ordred": True}, "no option ordred. The nearest that it has is ordered."),
        ({"inputs": []}, "inputs"),
        ({"inputs": [1]}, "inputs"),
        ({"name": ""}, "name"),
        ({"engine": "spark"}, "engine"),
    ],
    ids=str,
)
def test_an_option_that_cannot_work_is_named_with_its_value(df, options, named):
    with pytest.raises(pb.InvalidOption) as no:
        apply(df, **options)
    assert named in str(no.value)


def test_an_unknown_input_column_is_named_with_those_there_are(df):
    with pytest.raises(pb.InvalidOption, match=r"the column nme.*only id, name"):
        apply(df, inputs=["id", "nme"])


def test_input_names_follow_sparks_case_sensitivity(spark, df):
    apply(df, inputs=["ID"])
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(pb.InvalidOption, match="the column ID"):
            apply(df, inputs=["ID"])
        assert apply(df, returns="ID long").columns == ["id", "name", "ID"]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize(
    "returns",
    [
        *("y lng", "y long,", "", "   ", None, 5, t.LongType(), t.StructType(), "long", "y"),
        *("y decimal(39,2)", "y struct<a: decimal(50,1)>"),
    ],
)
def test_malformed_returns_are_shown(df, returns):
    with pytest.raises(pb.InvalidSchema, match=r"INVALID_RETURNS.*returns must be"):
        apply(df, returns=returns)


@pytest.mark.parametrize("odd", ["\ud800", "\0"])
@pytest.mark.parametrize("option", ["name", "returns", "journal"])
def test_text_that_nothing_can_take_is_refused(df, option, odd):
    options = {"name": "asked", "returns": "y int", "journal": "/journals"}
    with pytest.raises(pb.InvalidOption, match=rf"{option} must be text without lone surrogates"):
        apply(df, **{**options, option: f"{options[option]}{odd}"})


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("state.snapshotEvry", "2", "There is no setting spark.pillarbox.state.snapshotEvry"),
        (
            "state.rocksdb.memory",
            "1k",
            'rocksdb.memory can\'t be "1k" .*default: 256m.*a size of at least 1m',
        ),
        ("state.rocksdb.memory", "much", 'rocksdb.memory can\'t be "much" .*default: 256m'),
        ("state.snapshotEvery", "0", 'state.snapshotEvery can\'t be "0" .*default: 10'),
        ("state.maintenanceInterval", "0s", 'maintenanceInterval can\'t be "0s" .*default: 30s'),
    ],
)
def test_settings_without_a_meaning_are_refused_when_an_operator_is_made(spark, key, value, told):
    spark.conf.set(f"spark.pillarbox.{key}", value)
    try:
        with pytest.raises(pb.InvalidOption, match=f"SETTING. .*{told}"):
            apply(spark.range(3), engine="jvm")
        with pytest.raises(pb.InvalidOption, match=f"SETTING. .*{told}"):
            pb.async_udf(f, returns="y int")("id")
    finally:
        spark.conf.unset(f"spark.pillarbox.{key}")


def test_a_misspelt_setting_is_refused_on_the_python_engine_too(spark):
    key = "spark.pillarbox.errors.showValue"
    spark.conf.set(key, "false")
    try:
        with pytest.raises(pb.InvalidOption, match=f"There is no setting {key}. .*showValues"):
            apply(spark.range(3), engine="python")
    finally:
        spark.conf.unset(key)


def test_returns_of_a_type_that_arrow_cannot_carry_name_the_column(df):
    with pytest.raises(pb.InvalidSchema, match=r"column gap of returns has the type interval year"):
        apply(df, returns="y long, gap interval year to month")


def test_an_input_of_a_type_that_arrow_cannot_carry_is_named(df):
    odd = df.withColumn("gap", F.expr("make_ym_interval(1, 2)"))
    with pytest.raises(pb.InvalidSchema, match=r"column gap of the input"):
        apply(odd)


@pytest.mark.parametrize(
    ("options", "column"),
    [
        ({"returns": "name string"}, "name"),
        ({"returns": "NAME string"}, "NAME"),
        ({"returns": "y long, Y string"}, "Y"),
        ({"returns": "error string", "on_error": "column"}, "error"),
        ({"on_error": pb.ErrorColumn("id")}, "id"),
        ({"on_error": pb.ErrorColumn("y")}, "y"),
        ({"call_column": "id"}, "id"),
        ({"call_column": "y"}, "y"),
        ({"call_column": "error", "on_error": "column"}, "error"),
    ],
    ids=str,
)
def test_output_names_that_clash_are_refused(df, options, column):
    with pytest.raises(pb.InvalidSchema, match=f"two columns named {column}:"):
        apply(df, **options)


def test_the_error_column_clashes_only_where_it_is_made(df):
    assert apply(df, returns="error string").columns == ["id", "name", "error"]


@pytest.mark.parametrize("function", [None, 5, "f"])
def test_what_is_no_function_is_refused(df, function):
    with pytest.raises(pb.InvalidFunction, match="must be callable"):
        apply(df, function)


def test_a_wrong_number_of_parameters_is_refused(df):
    with pytest.raises(pb.InvalidFunction, match=r"f\(row, resource\)"):
        apply(df, f, resource=threading.Lock)
    with pytest.raises(pb.InvalidFunction, match=r"with_resource\(row\)"):
        apply(df, with_resource)
    with pytest.raises(
        pb.InvalidFunction, match=r"NOT_CALLABLE.*but it is with_resource\(row, res"
    ):
        apply(df, f, resource=with_resource)


def test_a_function_that_cannot_be_pickled_is_refused_at_once_on_every_engine(df, engine):
    lock = threading.Lock()

    async def holds_a_lock(row):
        with lock:
            return 1

    with pytest.raises(pb.InvalidFunction, match="holds_a_lock can't be sent"):
        apply(df, holds_a_lock, engine=engine)


def test_a_function_that_captured_the_session_is_refused_with_a_remedy(spark, df):
    async def uses_spark(row):
        return spark.range(row.id).count()

    async def uses_a_frame(row):
        return df.count()

    with pytest.raises(pb.InvalidFunction, match="uses a DataFrame, which tasks don't have"):
        apply(df, uses_a_frame)
    with pytest.raises(pb.InvalidFunction, match="uses a SparkSession, which tasks don't have"):
        apply(df, uses_spark)


@pytest.mark.parametrize("scope", ["query", "executor"])
def test_limits_over_tasks_are_refused_by_the_python_engine_with_one_that_it_keeps(df, scope):
    with pytest.raises(pb.InvalidOption, match=f'scope="{scope}".*scope="task"'):
        apply(df, limit=pb.Limit(per_second=5, scope=scope))
    with pytest.raises(pb.InvalidOption, match=r"limit\.adaptive can't be kept by"):
        apply(df, limit=pb.Limit(concurrency=5, scope="task", adaptive=True))
    with pytest.raises(pb.InvalidOption, match=r"call_key can't be kept by"):
        apply(df, call_key="id", name="asked")


class NoInvoke(pb.AsyncFunction):
    def call(self, row):
        return 1


class TwoRows(pb.AsyncFunction):
    def invoke(self, row, other):
        return 1


class OpensByYield(pb.AsyncFunction):
    def open(self, ctx):
        yield

    async def invoke(self, row):
        return row


class Yields(pb.AsyncFunction):
    async def invoke(self, row):
        yield 1


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (NoInvoke(), r"NoInvoke has no method invoke.*async def invoke\(self, row\)"),
        (TwoRows(), r"TwoRows.invoke\(row, other\) can't be called as TwoRows.invoke\(row\)"),
        (Yields(), "Yields.invoke is a generator"),
        (OpensByYield(), "OpensByYield.open has a yield"),
        (NoInvoke, "the class NoInvoke"),
    ],
    ids=["no invoke", "two rows", "a generator", "a generator opens", "the class"],
)
def test_an_object_that_cannot_be_called_is_refused(df, function, told):
    with pytest.raises(pb.InvalidFunction, match=told):
        apply(df, function)


def test_an_object_opens_its_resources_itself(df):
    class Fine(pb.AsyncFunction):
        def invoke(self, row):
            return 1

    with pytest.raises(pb.InvalidOption, match=r"for a pb\.AsyncFunction"):
        apply(df, Fine(), resource=threading.Lock)


def test_a_jvm_function_needs_the_jvm(df):
    with pytest.raises(pb.EngineUnavailable, match="JVM function"):
        apply(df, pb.JvmFunction("com.acme.Enrich"))


@pytest.mark.parametrize("options", [{"resource": list}, {"batch_size": 2}])
def test_a_jvm_function_takes_no_options_of_python(df, options):
    with pytest.raises(pb.InvalidOption, match="for a JVM function"):
        apply(df, pb.JvmFunction("com.acme.Enrich"), engine="jvm", **options)


REMEDIES = {
    ClassicClient: r"make the first session by pb\.configure",
    ConnectClient: r"Start the server with --jars \S+\.jar --conf "
    r"spark\.connect\.extensions\.relation\.classes=io\.pillarbox\.spark\.connect\.PillarboxRelations",
}


@pytest.fixture(params=list(REMEDIES))
def client_with(request, monkeypatch):
    """A client to a driver with a jar of some version and line of Spark."""

    def enter(jar):
        client = request.param
        monkeypatch.setattr(client, "jar", lambda self: jar)
        monkeypatch.setattr("pillarbox._driver.engine.client_of", client)
        return client

    return enter


@pytest.mark.parametrize(
    ("jar", "told"),
    [
        (None, "{client.no_jar}"),
        (("0.0.1", "4.2"), "jar of this session is version 0.0.1, the Python package is"),
        ((pb.__version__, "3.5"), r"runs Spark 4\.\d\.\d.*made for Spark 3\.5"),
    ],
)
def test_a_jar_that_is_missing_or_does_not_fit_is_told(df, client_with, jar, told):
    client = client_with(jar)
    told = told.format(client=client) + r"[\s\S]*" + REMEDIES[client]
    with pytest.raises(pb.EngineUnavailable, match=told):
        apply(df, engine="jvm")


@pytest.mark.parametrize("commit", ["", "+ga", "+gb"])
def test_of_two_development_builds_those_of_other_commits_do_not_fit(
    spark, df, client_with, monkeypatch, commit
):
    found = pb.__version__ + commit
    client_with((found, line_of(spark.version)))
    monkeypatch.setattr("pillarbox._driver.engine.build_version", lambda: f"{pb.__version__}+ga")
    if commit == "+gb":
        told = f"jar of this session is version {found}, the Python package is {pb.__version__}+ga."
        with pytest.raises(pb.EngineUnavailable, match=re.escape(told)):
            require_jvm(spark)
    else:
        require_jvm(spark)


def test_auto_takes_python_where_there_is_no_jar(df, client_with):
    client_with(None)
    assert apply(df, engine="auto").collect()[2].y == 2


@pytest.mark.parametrize(
    "retry_on",
    [ValueError, (ValueError, KeyError), lambda problem: True],
    ids=["a class", "classes", "a function"],
)
def test_exceptions_of_python_are_refused_for_a_jvm_function(spark, retry_on):
    with pytest.raises(pb.InvalidOption, match=r"retry\.on=.* has no meaning for a JVM"):
        apply(
            spark.range(3),
            pb.JvmFunction("com.acme.Enrich"),
            engine="jvm",
            retry=pb.Retry(3, on=retry_on),
        )


@pytest.mark.parametrize("options", [{"ordered": True}, {"ordered": False}], ids=str)
def test_the_largest_numbers_work(spark, engine, options):
    limits = {"limit": pb.Limit(concurrency=10**9, per_second=10**9, scope="executor")}
    retry = pb.Retry(10**9, backoff="100000 days", max_backoff="100000 days", multiplier=1_000_000)
    out = spark.range(20).transform(
        pb.async_io,
        f,
        returns="y long",
        engine=engine,
        capacity=10**9,
        timeout=pb.Timeout("100000 days", attempt="100000 days"),
        retry=retry,
        **options,
    )
    assert sorted(map(tuple, out.collect())) == [(i, i) for i in range(20)]
    if engine == "jvm":
        limited = spark.range(20).transform(
            pb.async_io, f, returns="y long", engine=engine, **options, **limits
        )
        assert sorted(map(tuple, limited.collect())) == [(i, i) for i in range(20)]


class Counts(pb.KeyedProcessFunction):
    def process(self, row, ctx):
        yield row


KEYED = {"by": "id", "returns": "id long"}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda df, _: pb.async_io(None, f, returns="y long"), "df must be a DataFrame of Spark"),
        (lambda df, _: pb.async_io(df.groupBy("id"), f, returns="y long"), "df must be a Data"),
        (lambda df, _: pb.process_keyed([1], Counts(), **KEYED), "df must be a DataFrame of Spark"),
        (lambda df, _: pb.scan(None, by="id", state={"n": ("0L", "n + 1")}), "df must be a Data"),
        (
            lambda df, _: pb.process_keyed(df, Counts(), **KEYED, side_outputs=["bad"]),
            r"side_outputs must be a dict of columns by tag.*\['bad'\]",
        ),
        (lambda df, spark: pb.read_state(spark, None, 0, "n"), "checkpoint must be the folder of"),
        (lambda df, spark: pb.read_state(spark, "", 0, "n"), "checkpoint must be the folder of"),
        (lambda df, spark: pb.read_journal(spark, ""), "path must be the folder of a journal"),
        (lambda df, spark: pb.read_journal(df, "/x"), "spark must be a SparkSession"),
        (lambda df, spark: pb.read_journal(spark, "/x", name=""), "name must be a text that"),
        (lambda df, spark: pb.purge_journal(spark, "/x", older_than=3), "older_than must be"),
        (lambda df, spark: pb.purge_journal(spark, "/x", name="n", where=3), "where must be a SQL"),
        (lambda df, _: pb.read_state("spark", "/x", 0, "n"), "spark must be a SparkSession"),
        (lambda df, _: pb.read_state(df, "/x", 0, "n"), "spark must be a SparkSession"),
        (lambda df, spark: pb.configure(spark), "builder must be a builder of sessions"),
    ],
)
def test_something_else_than_a_frame_or_a_session_is_refused(df, spark, call, told):
    with pytest.raises(pb.InvalidOption, match=told):
        call(df, spark)


@pytest.mark.parametrize(
    ("sides", "told"),
    [
        ({"bad": ""}, r"INVALID_RETURNS\] side_outputs\['bad'\] must be a DDL string"),
        ({"bad": "x intervall"}, r"INVALID_RETURNS\] side_outputs\['bad'\] must be a DDL string"),
        ({"bad": "gap interval year to month"}, r"column gap of side_outputs\['bad'\] has"),
        ({"id": "x int"}, "named id: one from returns, another from side_outputs"),
        ({"bad": "x int", "BAD": "x int"}, "one from side_outputs, another from side_outputs"),
    ],
)
def test_a_side_output_that_cannot_be_is_named(df, sides, told):
    with pytest.raises(pb.InvalidSchema, match=told):
        pb.process_keyed(df, Counts(), **KEYED, side_outputs=sides)
