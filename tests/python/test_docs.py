"""The code in the documentation runs, and prints what the documentation says it prints.

A page's blocks marked ``<!-- runnable -->`` run in order in one namespace, which starts with
``spark``. A text block marked ``<!-- output -->`` that follows one is what it prints.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "python/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
BLOCK = re.compile(
    r"<!-- runnable -->\n```python\n(?P<code>.*?)^```$"
    r"(?:\s*<!-- output -->\s*```text\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


def blocks(page: Path) -> list[re.Match[str]]:
    return list(BLOCK.finditer(page.read_text("utf-8")))


RUNNABLE = [page for page in PAGES if blocks(page)]


def without_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_prints_what_the_page_says(page: Path, spark: Any) -> None:
    # Functions of __main__ are pickled by value, as those of a user's script are.
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    for block in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block["code"], str(page), "exec"), namespace)
        if block["output"] is not None:
            said = without_trailing_space(block["output"])
            assert without_trailing_space(printed.getvalue()) == said, block["code"]


def test_no_marker_is_lost() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        assert len(blocks(page)) == text.count("<!-- runnable -->"), page
        outputs = [block for block in blocks(page) if block["output"] is not None]
        assert len(outputs) == text.count("<!-- output -->"), page


def test_the_readme_and_the_guide_have_code_that_runs() -> None:
    names = {page.name for page in RUNNABLE}
    assert {"README.md", "quickstart.md", "async-io.md", "errors.md"} <= names


def test_the_figures_of_the_readme_are_on_the_pages_that_it_links_to() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    (measured,) = re.findall(r"^Measured .*?(?=\n\n)", readme, re.DOTALL | re.MULTILINE)
    link = re.compile(r"\((docs/benchmarks/(?!index)[\w-]+\.md)\)")
    pages = [(ROOT / page).read_text("utf-8") for page in link.findall(measured)]
    known = {figure for page in pages for figure in figures(page)}
    assert figures(link.sub("", measured)) - known == set()


def figures(text: str) -> set[float]:
    return {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}
