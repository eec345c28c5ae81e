"""The specs that operators in the JVM are asked for by, of which both sides know each field.

``tests/golden/specs.json`` has those without options; Scala's tests read it by case classes that
refuse a field too many or too few. ``python test_specs.py`` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

import pillarbox as pb
from pillarbox._async.options import AsyncOptions
from pillarbox._base.keywords import options_shown
from pillarbox._driver.identity import Identity
from pillarbox._driver.keyed_input import KeyedInput
from pillarbox._driver.specs import async_spec, keyed_spec
from pillarbox._keyed.options import KeyedKeywords, KeyedOptions
from pillarbox._keyed.ttl import as_ttl

FILE = Path(__file__).parents[1] / "golden/specs.json"


def specs() -> dict[str, Any]:
    nothing, columns = AsyncOptions.of("test", {}), StructType().add("x", "long")
    function = pb.JvmFunction("some.Class")
    identity = Identity("", "operator", None)
    found = KeyedInput(
        KeyedOptions.of("test", "k", {}),
        StructType().add("k", "string"), columns, None, [], False, False, None, False,
    )  # fmt: skip
    life = as_ttl("1 hour")
    assert life is not None
    return {
        "async": async_spec(nothing, function, columns, [], columns, identity),
        "figures": nothing.to_spec()["figures"],
        "retry": pb.Retry()._to_spec(),
        "limit": pb.Limit(concurrency=1)._to_specs()[0] | {"concurrency": None},
        "batching": AsyncOptions.of("f", {"batch_size": 2}).to_spec()["figures"]["batching"],
        "carry_over": AsyncOptions.of("f", {"carry_over": True}).to_spec()["carry_over"],
        "journal": AsyncOptions.of("f", {"journal": True, "name": "f"}).to_spec()["journal"],
        "ticketed": pb.Ticketed(len, len)._to_spec(),
        "budget": pb.Budget(max_calls=1)._to_spec() | {"max_calls": None},
        "keyed": keyed_spec(found, "jvm", function, columns, [], None),
        "scan": {"state": [], "select": [], "ttl": None},
        "ttl": life._to_spec(),
    }


def test_the_specs_have_the_fields_that_the_jvm_reads() -> None:
    assert specs() == json.loads(FILE.read_text())


def test_explain_shows_the_options_that_are_no_defaults() -> None:
    given: dict[str, Any] = {
        "name": "weather", "ordered": False, "explode": True, "by": ["a", "b"], "retry": 3,
        "journal": "/answers", "timeout": pb.Timeout("5s", attempt="1s"), "usage": "tokens",
        "limit": [pb.Limit(concurrency=1, scope="key"), pb.Limit(per_day=9, breaker=4)],
        "budget": pb.Budget(max_usage={"usd": 2}), "on_error": "column", "resource": dict,
    }  # fmt: skip
    assert AsyncOptions.of("f", given).to_spec()["shown"] == [
        "explode=true",
        "by=[a, b]",
        "limit=[(concurrency=1 scope=key), (per_day=9 scope=query breaker=(failures=4))]",
        "budget=(max_usage={usd: 2})",
        "usage=tokens",
        "timeout=(total=5s attempt=1s)",
        "retry=(max_attempts=3)",
        "resource=dict",
        "journal=(path=/answers)",
    ]
    assert AsyncOptions.of("f", {}).to_spec()["shown"] == []
    keyed = KeyedOptions.of("f", "k", {"backend": "heap", "time_sorted": True, "order_by": "n"})
    assert options_shown(KeyedKeywords, keyed) == [
        "order_by=n",
        "time_sorted=true",
        "backend=(state=heap)",
        "name=f",
    ]


if __name__ == "__main__":
    FILE.write_text(json.dumps(specs(), indent=1) + "\n")
