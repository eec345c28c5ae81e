"""Errors as data: the catalogue and the types agree, and messages are whole."""

import pickle
import re
import string
from pathlib import Path

import pytest

import pillarbox as pb
from pillarbox import errors

ROOT = Path(__file__).resolve().parents[2]


def parameters_of(name):
    entry = errors.CATALOGUE[name]
    text = entry["message"] + entry["remedy"]
    return {field: f"<{field}>" for _, field, _, _ in string.Formatter().parse(text) if field}


@pytest.mark.parametrize("name", sorted(errors.CATALOGUE))
def test_each_entry_says_what_was_wrong_and_what_to_do(name):
    assert name == name.upper()
    problem = errors.error(name, **parameters_of(name))
    assert isinstance(problem, pb.PillarboxError)
    assert type(problem).__name__ == errors.CATALOGUE[name]["type"]
    assert str(problem).startswith(f"[{name}] ")
    assert errors.CATALOGUE[name]["remedy"].strip()
    for value in parameters_of(name).values():
        assert value in str(problem)


def test_each_public_error_type_is_listed_in_the_tree_at_the_top_of_the_module():
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, pb.PillarboxError):
            assert name in errors.__doc__
            assert getattr(pb, name) is value


def test_errors_of_stored_state_are_in_the_docs_too():
    sources = [path.read_text("utf-8") for path in ROOT.glob("jvm/*/src/main/scala/**/*.scala")]
    named = {name for text in sources for name in re.findall(r'"((?:STATE|TIMERS)_[A-Z_]+)"', text)}
    assert len(named) > 10
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    assert {name for name in named if not re.search(rf"\b{name}\b", page)} == set()


def test_an_error_travels_between_processes():
    problem = errors.error("INVALID_DURATION", option="timeout", value="'x'")
    copy = pickle.loads(pickle.dumps(problem))
    assert (type(copy), copy.condition, str(copy)) == (
        pb.InvalidOption,
        "INVALID_DURATION",
        str(problem),
    )


def test_a_value_is_shown_shortened_and_even_if_its_repr_fails():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert errors.shown("x" * 500) == "'" + "x" * 98 + "…"
    assert errors.shown(Broken()) == "<Broken whose repr failed: RuntimeError>"
