"""Keywords that several functions take, each declared once, as an ``Annotated`` of a ``TypedDict``.

The docstring of the module that declares it tells of each, in a section "Parameters".
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from textwrap import indent
from typing import Any, TypeVar, get_type_hints

from ..errors import shown
from .functions import name_of
from .unknown_options import answers_unknown

T = TypeVar("T", bound=Callable[..., Any])
_PLACE = re.compile(r"^( *)\{keywords\}$", re.MULTILINE)
_PARAGRAPH = re.compile(r"^(\w+): .*(?:\n(?:    .*)?)*", re.MULTILINE)


@dataclass(frozen=True)
class Keyword:
    """The default of a keyword, and what makes an option of a value that is given for it.

    ``check`` gets the keyword's name and a value that is not the default.
    """

    default: Any = None
    convert: Callable[[Any], Any] = lambda value: value
    check: Callable[[str, Any], object] = lambda name, value: None


def takes(keywords: type) -> Callable[[T], T]:
    """Let a function, or a class, have the keywords of a ``TypedDict``.

    It declares them by ``**keywords: Unpack[...]``, which type checkers know. ``help()`` shows each
    with its type and default; a line ``{keywords}`` of the docstring is what is told of those that
    the docstring doesn't tell of itself. Unknown ones raise ``InvalidOption``.
    """

    def given_to(made: T) -> T:
        taker: Any = made.__init__ if isinstance(made, type) else made  # type: ignore[misc]
        taker.__signature__ = _with_each(inspect.signature(taker), keywords)
        if made.__doc__:
            made.__doc__ = _with_docs(made.__doc__, keywords)
        return answers_unknown(made)

    return given_to


@functools.cache
def declared(keywords: type) -> dict[str, Keyword]:
    """Return the keywords of a ``TypedDict`` by name, in the order in which they are told of."""
    hints = get_type_hints(keywords, include_extras=True)
    order = sorted(hints, key=list(_docs(keywords)).index) if _docs(keywords) else hints
    return {name: hints[name].__metadata__[0] for name in order}


def converted(keywords: type, given: Mapping[str, object]) -> dict[str, Any]:
    """Return the options by name, those too that are not ``given``."""
    options = {}
    for name, one in declared(keywords).items():
        value = given.get(name, one.default)
        if value is not one.default:
            one.check(name, value)
        options[name] = one.convert(value)
    return options


def options_shown(keywords: type, options: object, but: Collection[str] = ()) -> list[str]:
    """Return the ``options`` that are no defaults, as ``explain()`` shows them: "name=value"."""
    return [
        f"{name}={option_text(value)}"
        for name, default in converted(keywords, {}).items()
        if name not in but and (value := getattr(options, name)) != default
    ]


def option_text(value: Any) -> str:
    """Return the text of an option: of an object, its fields that are no defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        given = [
            f"{field.name}={option_text(getattr(value, field.name))}"
            for at, field in enumerate(fields(value))
            if getattr(value, field.name) not in (None, None if at == 0 else field.default)
        ]
        return f"({' '.join(given)})" if given else "true"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {option_text(one)}' for name, one in value.items())}}}"
    if isinstance(value, tuple):
        texts = list(map(option_text, value))
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return name_of(value) if callable(value) else shown(value, text_of=str)


def _with_each(signature: inspect.Signature, keywords: type) -> inspect.Signature:
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=_type_of(keywords.__annotations__[name]),
        )
        for name, one in declared(keywords).items()
    ]
    return signature.replace(parameters=[*own, *shared])


def _type_of(annotation: Any) -> str:
    """Return the type in the text of an ``Annotated``."""
    text: str = getattr(annotation, "__forward_arg__", annotation)
    return text.removeprefix("Annotated[").rpartition(", Keyword(")[0]


def _with_docs(text: str, keywords: type) -> str:
    own, told = _paragraphs(text), _docs(keywords)
    shared = [told[name] for name in declared(keywords) if name not in own and name in told]
    # Since Python 3.13 a docstring has no indentation.
    return _PLACE.sub(lambda place: indent("\n".join(shared), place[1]), text)


@functools.cache
def _docs(keywords: type) -> dict[str, str]:
    """Return what the module that has declared a keyword tells of it."""
    homes = {name: one.__forward_module__ for name, one in keywords.__annotations__.items()}
    return {
        name: text
        for module in dict.fromkeys(homes.values())
        for name, text in _paragraphs(sys.modules[module].__doc__ or "").items()
        if homes.get(name) == module
    }


def _paragraphs(text: str) -> dict[str, str]:
    found = _PARAGRAPH.finditer(inspect.cleandoc(text))
    return {one[1]: one[0].rstrip() for one in found}
