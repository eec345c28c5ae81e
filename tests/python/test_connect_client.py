"""The client to a Spark Connect server, as far as it needs none."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

import pillarbox as pb

pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio: install pyspark[connect]")

from pillarbox._driver.client import connect
from pillarbox._driver.client.connect import ConnectClient

MIB = 1 << 20


@pytest.fixture(autouse=True)
def small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_MESSAGE_LIMIT", 2 * MIB)
    monkeypatch.setattr(connect, "_LARGE", MIB)


def client(compresses: bool) -> ConnectClient:
    """Of a client that compresses plans, as from Spark 4.1 on, or not."""
    client = {"_try_compress_and_set_plan": None} if compresses else {}
    session: Any = SimpleNamespace(client=SimpleNamespace(**client))
    return ConnectClient(session)


@pytest.mark.parametrize("operator", ["async_io", "process_keyed", "plan_udfs"])
@pytest.mark.parametrize("compresses", [False, True])
def test_a_function_that_no_message_can_hold_is_refused_before_it_is_sent(
    operator: str, compresses: bool
) -> None:
    df: Any = () if operator == "plan_udfs" else (None,)
    rest: Any = (None,) if operator == "process_keyed" else ()
    command = os.urandom(3 * MIB)
    with pytest.raises(pb.InvalidFunction, match=r"FUNCTION_TOO_LARGE.*prices is 3\.0 MiB"):
        getattr(client(compresses), operator)(*df, command, {"name": "prices"}, *rest)


def test_functions_of_estimates_count_into_the_size_of_what_is_sent() -> None:
    spec = {"name": "prices", "estimator": "x" * (5 * MIB // 2)}
    for command in (os.urandom(MIB // 2), b"", None):
        with pytest.raises(
            pb.InvalidFunction, match=r"FUNCTION_TOO_LARGE.*prices is [23]\.[05] MiB"
        ):
            client(False)._check_size(command, spec)


def test_a_large_function_that_compresses_well_is_sent_where_plans_are_compressed() -> None:
    command = bytes(4 * MIB)
    client(True)._check_size(command, {"name": "prices"})
    with pytest.raises(pb.InvalidFunction):
        client(False)._check_size(command, {"name": "prices"})
