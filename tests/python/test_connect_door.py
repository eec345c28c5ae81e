"""The door to a Spark Connect server, as far as it needs none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import pillarbox as pb

pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio: install pyspark[connect]")

from pillarbox._driver.door.connect import ConnectDoor, _bytes

MIB = 1 << 20


def door(setting: str | None = None) -> ConnectDoor:
    conf = SimpleNamespace(get=lambda _, default: default if setting is None else setting)
    session: Any = SimpleNamespace(conf=conf)
    return ConnectDoor(session)


@pytest.mark.parametrize("operator", ["async_io", "process_keyed"])
def test_a_function_that_no_message_can_hold_is_refused_before_it_is_sent(operator: str) -> None:
    rest: Any = (None,) if operator == "process_keyed" else ()
    df: Any = None
    for setting, limit in ((None, 128), ("192m", 192)):
        command = bytes(limit * MIB - 1)
        with pytest.raises(
            pb.InvalidFunction, match=rf"FUNCTION_TOO_LARGE.*prices is {limit}\.0 MiB"
        ):
            getattr(door(setting), operator)(df, command, {"name": "prices"}, *rest)
    door("192m")._check_size(bytes(130 * MIB), {"name": "prices"})


def test_sizes_are_read_as_spark_writes_them() -> None:
    assert [_bytes(text) for text in ("134217728", "128m", "128mb", "1g", "64 k")] == [
        128 * MIB,
        128 * MIB,
        128 * MIB,
        1024 * MIB,
        64 << 10,
    ]
