"""Fills in the parts of the pages that are made of something else, as plain Markdown.

Such a part stands between ``<!-- made from SOURCE by docs/generate.py -->`` and ``<!-- end -->``.
``python docs/generate.py`` writes it anew; a test keeps it equal to its source.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
CATALOGUE = ROOT / "python/src/pillarbox/errors.json"
PART = re.compile(
    r"(?P<begin><!-- made from (?P<source>.+?) by docs/generate\.py -->\n).*?(?P<end><!-- end -->)",
    re.DOTALL,
)


def filled(page: Path) -> str:
    """The text of a page with all its parts as they should be."""
    return PART.sub(
        lambda part: f"{part['begin']}\n{made(part['source'], page)}\n\n{part['end']}",
        page.read_text("utf-8"),
    )


def with_parts() -> list[Path]:
    """The pages that have such parts; those of a built site are none of them."""
    pages = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
    return [page for page in pages if "<!-- made" in page.read_text("utf-8")]


def made(source: str, page: Path) -> str:
    name, _, place = source.partition(" from ")
    path = (page.parent / name).resolve()
    maker = next(make for fits, make in MAKERS if re.search(fits, name))
    return maker(path, place)


def code(path: Path, place: str) -> str:
    """A file, or that from the line which begins so."""
    lines = path.read_text("utf-8").rstrip().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(place))
    return "\n".join(["```python", *lines[first:], "```"])


def exceptions(path: Path, _: str) -> str:
    """The tree of exceptions in the docstring of errors.py."""
    (tree,) = re.findall(r"^ {4}PillarboxError\n(?: {4}.*\n)+", path.read_text("utf-8"), re.M)
    return f"```text\n{textwrap.dedent(tree).rstrip()}\n```"


def errors(path: Path, _: str) -> str:
    catalogue = json.loads(path.read_text("utf-8"))
    return "\n".join(
        sorted(
            f"- **{name}** ({kind}): {plain(error['message'])} *{plain(error['remedy'])}*"
            for kind, errors in catalogue.items()
            for name, error in errors.items()
        )
    )


def plain(text: str) -> str:
    """What would be markup outside of code, escaped."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [re.sub(r"([*<|\[\]\\])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def pages(path: Path, _: str) -> str:
    """The titles of all pages of a folder, as links, with what their "Status:" says."""
    others = sorted(page for page in path.glob("*.md") if page.name != "index.md")
    return "\n".join(f"- [{title(page)}]({page.name}){status(page)}" for page in others)


def status(page: Path) -> str:
    """The module of a decision record, and whether another one has taken its place in part."""
    text = page.read_text("utf-8")
    module = "".join(re.findall(r"^Status: .*?Module: ([\w, ]+)\.", text, re.M))
    part = ", superseded in part" if re.search(r"^Status: .*Superseded in part", text, re.M) else ""
    return f" ({module}{part})" if module else ""


def title(page: Path) -> str:
    return page.read_text("utf-8").split("\n", 1)[0].removeprefix("# ")


def api(path: Path, _: str) -> str:
    """Signatures and docstrings of all public names."""
    sys.path.insert(0, str(DOCS))
    import one_page

    return str(one_page.text(path))


MAKERS: tuple[tuple[str, Callable[[Path, str], str]], ...] = (
    (r"errors\.py$", exceptions),
    (r"errors\.json$", errors),
    (r"\.py$", code),
    (r"\.rst$", api),
    (r"\.$", pages),
)


def main() -> None:
    for page in with_parts():
        text = filled(page)
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            print(page.relative_to(ROOT), file=sys.stderr)


if __name__ == "__main__":
    main()
