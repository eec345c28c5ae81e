"""What may be handed over as a function or a resource."""

import contextlib
import functools
import threading

import pytest
from pyspark.sql.functions import udf
from pyspark.sql.types import IntegerType, StructType

import pillarbox as pb
from pillarbox._async.command import Command, check_function
from pillarbox._async.resources import check_resource
from pillarbox._base.functions import is_async, name_of


async def plain(row):
    return row


async def with_resource(row, resource):
    return row


async def generator(row):
    yield row


class Callable:
    async def __call__(self, row):
        return row

    async def method(self, row):
        return row


ACCEPTED = [plain, Callable(), Callable().method, functools.partial(with_resource, resource=1),
            lambda row: row, len]  # fmt: skip


@pytest.mark.parametrize("function", ACCEPTED)
def test_anything_that_takes_a_row_is_accepted(function):
    check_function(function, with_resource=False, is_batch=False)


@pytest.mark.parametrize("function", [5, None, "plain", {"a": 1}])
def test_what_is_not_callable_is_refused(function):
    with pytest.raises(pb.InvalidFunction, match="must be callable") as no:
        check_function(function, with_resource=False, is_batch=False)
    assert repr(function) in str(no.value)


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (int, "the class int"),
        (Callable, "the class Callable"),
        (functools.partial(dict, a=1), "the class dict"),
        (udf(lambda row: row, IntegerType()), "the Spark UDF"),
    ],
)
def test_classes_and_udfs_of_spark_are_refused(function, shown):
    with pytest.raises(pb.InvalidFunction, match=f"must be callable.*{shown}"):
        check_function(function, with_resource=False, is_batch=False)


class NoMethods(pb.AsyncFunction):
    invoke = 5


class NoClose(pb.AsyncFunction):
    close = None

    def invoke(self, row):
        return row


@pytest.mark.parametrize(("fn", "method"), [(NoMethods(), "invoke"), (NoClose(), "close")])
def test_members_of_an_async_function_must_be_methods(fn, method):
    with pytest.raises(pb.InvalidFunction, match=rf"METHOD_NOT_CALLABLE.*\.{method} must"):
        check_function(fn, with_resource=False, is_batch=False)


def test_a_coroutine_instead_of_its_function_is_refused_with_the_remedy():
    with pytest.raises(pb.InvalidFunction, match="without parentheses"):
        check_function(plain(1), with_resource=False, is_batch=False)


@pytest.mark.parametrize(
    ("function", "resource", "call"),
    [
        (lambda: 1, False, r"\(row\)"),
        (with_resource, False, r"\(row\)"),
        (plain, True, r"\(row, resource\)"),
        (lambda a, b, c: 1, True, r"\(row, resource\)"),
        (lambda *, row: 1, False, r"\(row\)"),
    ],
)
def test_a_wrong_number_of_parameters_is_refused_showing_the_call(function, resource, call):
    with pytest.raises(pb.InvalidFunction, match="can't be called as .*" + call):
        check_function(function, resource, is_batch=False)


def test_the_batch_form_is_called_with_the_rows():
    with pytest.raises(pb.InvalidFunction, match=r"\(rows, resource\)"):
        check_function(plain, with_resource=True, is_batch=True)


def test_a_generator_is_refused_and_pointed_to_explode():
    with pytest.raises(pb.InvalidFunction, match="explode=True"):
        check_function(generator, with_resource=False, is_batch=False)
    with pytest.raises(
        pb.InvalidFunction, match=r"a list with an answer for each row of the list\.$"
    ):
        check_function(generator, with_resource=False, is_batch=True)


@pytest.mark.parametrize("resource", [5, object(), lambda one: one])
def test_a_resource_must_be_a_factory_without_parameters(resource):
    with pytest.raises(pb.InvalidFunction, match=r"resource must be a function|can't be called"):
        check_resource("resource", resource)


async def opens():
    return object()


async def yields_late():
    yield object()


def yields():
    yield object()


@pytest.mark.parametrize(
    ("resource", "gives"),
    [
        (opens, "opens gives a coroutine"),
        (functools.partial(opens), "opens gives a coroutine"),
        (yields_late, "yields_late gives a generator"),
        (yields, "yields gives a generator"),
    ],
)
def test_a_factory_without_its_decorator_is_refused_before_any_task(resource, gives):
    with pytest.raises(pb.InvalidFunction, match=f"RESOURCE_WITHOUT_DECORATOR.*{gives}.*context"):
        check_resource("resource", resource)


class Client:
    """A context manager that can be awaited when it is open."""

    async def __call__(self):
        return 7


@pytest.mark.parametrize(
    "resource",
    [
        contextlib.asynccontextmanager(yields_late),
        contextlib.contextmanager(yields),
        functools.partial(contextlib.asynccontextmanager(yields_late)),
        Client,
        functools.partial(Client),
    ],
)
def test_a_resource_may_be_whatever_gives_a_manager(resource):
    check_resource("resource", resource)


def test_coroutine_functions_are_told_from_plain_ones():
    asynchronous = [
        plain,
        Callable(),
        Callable().method,
        functools.partial(with_resource, 1),
    ]
    assert all(is_async(function) for function in asynchronous)
    assert not any(is_async(function) for function in (len, lambda row: plain(row)))


def test_a_function_that_cannot_be_pickled_is_named_with_the_reason_and_a_remedy():
    lock = threading.Lock()

    async def holds_a_lock(row):
        return lock

    schema = StructType().add("x", "long")
    command = Command(holds_a_lock, True, False, None, None, schema, schema, "holds_a_lock")
    with pytest.raises(pb.InvalidFunction, match="resource=") as no:
        command.dumps()
    assert "holds_a_lock" in str(no.value)
    assert "lock" in no.value.parameters["reason"]


def test_names_for_plans_are_those_of_the_source():
    assert name_of(functools.partial(with_resource, resource=1)) == "with_resource"
    assert name_of(Callable()) == "Callable"
    assert name_of(pb.JvmFunction("com.acme.Enrich")) == "com.acme.Enrich"


@pytest.mark.parametrize("arguments", [("",), (5,), ("a.B", {"n": 1}), ("a.B", {1: "n"})])
def test_a_jvm_function_takes_a_class_name_and_string_options(arguments):
    with pytest.raises(pb.InvalidOption, match=r"class_name|options"):
        pb.JvmFunction(*arguments)
