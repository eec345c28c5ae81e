"""The code in the documentation runs, and prints what the documentation says it prints.

A page's blocks marked ``<!-- runnable -->`` run in order in one namespace, which starts with
``spark``. Classes marked ``<!-- compiled -->`` are compiled before. A text block marked
``<!-- output -->`` that follows one is what it prints.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import re
from pathlib import Path
from typing import Any

import pytest

import pillarbox as pb
from java_jars import compiled
from pillarbox._driver.python_engine import SETTINGS
from spark_support import add_jar

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "python/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/cookbook").glob("*.md")),
]
BLOCK = re.compile(
    r"<!-- runnable -->\n```python\n(?P<code>.*?)^```$"
    r"(?:\s*<!-- output -->\s*```text\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


def blocks(page: Path) -> list[re.Match[str]]:
    return list(BLOCK.finditer(page.read_text("utf-8")))


KAFKA = re.compile(
    r"<!-- kafka -->\n```python\n.*?^```\s*<!-- output -->", re.DOTALL | re.MULTILINE
)
CLASS = re.compile(
    r"<!-- compiled -->\n```(?P<language>java|scala)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)


def add_classes(page: Path, folder: Path, spark: Any) -> None:
    """Compiles the page's classes of Java and Scala, and gives them to the session."""
    sources: dict[str, dict[str, str]] = {"java": {}, "scala": {}}
    for block in CLASS.finditer(page.read_text("utf-8")):
        name = re.findall(r"^(?:public )?class (\w+)", block["code"], re.MULTILINE)[0]
        sources[block["language"]][name] = block["code"]
    if sources["java"]:
        jar = compiled(folder, f"{page.stem}.jar", sources["java"], sources["scala"])
        add_jar(spark, jar)


RUNNABLE = [page for page in PAGES if blocks(page)]


def without_trailing_space(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_prints_what_the_page_says(
    page: Path, spark: Any, tmp_path: Path
) -> None:
    add_classes(page, tmp_path, spark)
    # Functions of __main__ are pickled by value, as those of a user's script are.
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    try:
        for block in blocks(page):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block["code"], str(page), "exec", dont_inherit=True), namespace)
            if block["output"] is not None:
                said = without_trailing_space(block["output"])
                assert without_trailing_space(printed.getvalue()) == said, block["code"]
    finally:
        for one in namespace.values():  # a service that still runs would hold up pytest's end
            if isinstance(one, contextlib.ExitStack):
                one.close()


def test_no_marker_is_lost() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        assert len(blocks(page)) == text.count("<!-- runnable -->"), page
        assert len(CLASS.findall(text)) == text.count("<!-- compiled -->"), page
        outputs = [block for block in blocks(page) if block["output"] is not None]
        of_kafka = len(KAFKA.findall(text))  # test_docs_kafka.py runs these
        assert len(outputs) + of_kafka == text.count("<!-- output -->"), page


def test_the_readme_and_the_guide_have_code_that_runs() -> None:
    names = {page.name for page in RUNNABLE}
    assert {"README.md", "quickstart.md", "async-io.md", "errors.md", "java-scala.md"} <= names


def test_the_figures_of_the_readme_are_on_the_pages_that_it_links_to() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    (measured,) = re.findall(r"^Measured .*?(?=\n\n)", readme, re.DOTALL | re.MULTILINE)
    link = re.compile(r"\((docs/benchmarks/(?!index)[\w-]+\.md)\)")
    pages = [(ROOT / page).read_text("utf-8") for page in link.findall(measured)]
    known = {figure for page in pages for figure in figures(page)}
    assert figures(link.sub("", measured)) - known == set()


def figures(text: str) -> set[float]:
    return {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


# What only Sphinx understands: directives, roles, labels, definition lists, comments.
MYST_ONLY = re.compile(r"^ *(`{3,}|:{3,})\{|\{[\w-]+\}`|^\([\w-]+\)=$|^: {1,3}\S|^% ", re.MULTILINE)
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    text = re.sub(r"`[^`\n]+`", "", FENCED.sub("", page.read_text("utf-8")))
    return [link for link in LINK.findall(text) if "://" not in link]


def reached_from(start: Path) -> list[Path]:
    reached = [start]
    for page in reached:
        targets = [(page.parent / link.split("#")[0]).resolve() for link in links(page)]
        reached += [
            one for one in dict.fromkeys(targets) if one.suffix == ".md" and one not in reached
        ]
    return reached


REACHED = reached_from(ROOT / "README.md")


def headings(page: Path) -> set[str]:
    """As GitHub names them in links."""
    text = FENCED.sub("", page.read_text("utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_readme_reaches_the_guides() -> None:
    names = {page.name for page in REACHED}
    assert {"async-io.md", "keyed.md", "configuration.md", "metrics.md", "errors.md"} <= names


@pytest.mark.parametrize("page", REACHED, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_that_the_readme_reaches_is_plain_markdown(page: Path) -> None:
    assert MYST_ONLY.findall(page.read_text("utf-8")) == []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in headings(target), link


@pytest.mark.parametrize(
    "text", ["```{toctree}\n", "  :::{note}\n", "see {ref}`x`", "(label)=\n", "term\n: what\n"]
)
def test_what_only_sphinx_understands_is_known_as_such(text: str) -> None:
    assert MYST_ONLY.search(text)


def loaded(script: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(script).stem, ROOT / script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_made_parts_of_the_pages_are_equal_to_their_sources() -> None:
    generate = loaded("docs/generate.py")
    pages = generate.with_parts()
    assert len(pages) > 4
    for page in pages:
        assert generate.PART.search(page.read_text("utf-8")), page
        assert generate.filled(page) == page.read_text("utf-8"), "run python docs/generate.py"


@pytest.mark.parametrize("name", ["in_flight", "modules", "order", "timers"])
def test_a_picture_is_as_its_script_draws_it(name: str) -> None:
    drawn = loaded(f"docs/images/draw_{name}.py").drawn()
    assert drawn == (ROOT / f"docs/images/{name.replace('_', '-')}.svg").read_text("utf-8")


# Of a type, a method, or what is given by keyword.
NAME = re.compile(
    r"\b(?:class|object|trait|interface|record|enum|def) (\w+)|^ +(\w+): ", re.MULTILINE
)


def main_code() -> dict[Path, set[str]]:
    """The names that each file defines."""
    folders = [ROOT / "python/src/pillarbox", *ROOT.glob("jvm/*/src/main")]
    files = [one for folder in folders for one in folder.rglob("*.*")]
    code = [one for one in files if one.suffix in (".py", ".scala", ".java")]
    return {one: {a or b for a, b in NAME.findall(one.read_text("utf-8"))} for one in code}


def is_there(name: str, code: dict[Path, set[str]]) -> bool:
    if name.endswith(".py"):
        return any(path.as_posix().endswith(f"/{name}") for path in code)
    of, _, method = name.rpartition(".")
    return any(method in names and (not of or of in names) for names in code.values())


def test_the_walks_through_the_code_name_what_is_there() -> None:
    page = (ROOT / "docs/how-it-works.md").read_text("utf-8")
    (walks,) = re.findall(r"^## One row of `async_io`.*^## One thread", page, re.DOTALL | re.M)
    named = set(re.findall(r"`([\w./]+)`", walks))
    assert len(named) > 60
    code = main_code()
    assert [name for name in sorted(named) if not is_there(name, code)] == []
    assert not is_there("CallPipeline.run", code)
    assert not is_there("CallPipelines", code)


def test_the_picture_of_the_stages_has_those_of_a_call_in_their_order() -> None:
    code = (ROOT / "jvm/async/src/main/scala/io/pillarbox/async/CallPipeline.scala").read_text(
        "utf-8"
    )
    (stages,) = re.findall(r"val stages.*?\n(.*?)\n  \)\.flatten", code, re.DOTALL)
    named = re.findall(r"(?:new |Some\(|Option\(|null\)\()(?!new )(\w+)", stages)
    drawn = [stage.name for stage in loaded("docs/images/draw_modules.py").STAGES]
    assert [name.lower() for name in named] == [name.lower() for name in drawn]


def test_a_decision_record_says_which_module_it_is_of() -> None:
    modules = {"all", "python", *(path.parent.name for path in ROOT.glob("jvm/*/README.md"))}
    for record in (ROOT / "docs/adr").glob("0*.md"):
        (said,) = re.findall(r"^Status: .*?Module: ([\w, ]+)\.", record.read_text("utf-8"), re.M)
        assert set(said.split(", ")) <= modules, record


def test_llms_txt_names_every_page_and_no_other() -> None:
    docs = ROOT / "docs"
    named = re.findall(
        r"^- \[[^\]]+\]\(([^)]+)\): ", (docs / "llms.txt").read_text("utf-8"), re.MULTILINE
    )
    pages = [*docs.glob("*.md"), *docs.glob("cookbook/*.md"), docs / "benchmarks/index.md"]
    assert sorted(named) == sorted(str(page.relative_to(docs)) for page in pages)


MODULES = ("columns", "testing")


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs/reference").glob("*.rst"))
    named = re.findall(r"^\.\. (?:auto\w+|data):: pillarbox\.(\w+)$", pages, re.MULTILINE)
    assert sorted(named) == sorted([*pb.__all__, *MODULES])


def called_by_users() -> list[tuple[str, Any]]:
    """What users call: no errors, and nothing that a function is handed."""
    public = [(name, getattr(pb, name)) for name in pb.__all__]
    for module in MODULES:
        inside = vars(getattr(pb, module)).items()
        own = [one for one in inside if getattr(one[1], "__module__", "") == f"pillarbox.{module}"]
        public += [(f"{module}.{name}", one) for name, one in own if not name.startswith("_")]
    handed = ("Call", "Context", "Timer", "Timers", "State")
    return [
        (name, one)
        for name, one in public
        if callable(one)
        and not name.endswith(handed)
        and not (isinstance(one, type) and issubclass(one, pb.PillarboxError))
    ]


@pytest.mark.parametrize(("name", "one"), called_by_users())
def test_the_reference_tells_every_parameter(name: str, one: Any) -> None:
    text = " ".join((inspect.getdoc(one) or "", inspect.getdoc(inspect.getmodule(one)) or ""))
    missing = [
        parameter
        for parameter in inspect.signature(one).parameters
        if not re.search(rf"\b{parameter}\b", text)
    ]
    assert missing == []


def strings(pattern: str, *files: str) -> list[str]:
    spark = ROOT / "jvm/spark/src/main/scala/io/pillarbox/spark"
    return [found for file in files for found in re.findall(pattern, (spark / file).read_text())]


def test_what_asks_over_http_looks_at_the_status() -> None:
    asking = [
        block
        for page in PAGES
        for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        if re.search(r"\bhttp\.(get|post)\(", block)
    ]
    assert len(asking) >= 3
    assert [block for block in asking if "raise_for_status" not in block] == []


def test_every_metric_is_on_the_page_of_metrics() -> None:
    page = (ROOT / "docs/metrics.md").read_text("utf-8")
    shown = strings(
        r'Metric\(sc, "([^"]+)"\)', "async/AsyncIOMetrics.scala", "keyed/KeyedMetrics.scala"
    )
    of_state = ("keyed/KeyedMetrics.scala", "state/StateTaskSpec.scala")
    carried = "async/carry/CarryMetrics.scala"
    shown += strings(r'[\w"]+ -> "([^"]+ [^"]+)"', *of_state, carried)
    assert len(shown) == 49
    assert [name for name in shown if f"| {name} |" not in page] == []
    customs = strings(r'(?<!-> )"(num\w+|state\w+|commit\w+)"', *of_state, carried)
    assert len(customs) == 18
    assert [name for name in customs if f"| `{name}` |" not in page] == []


def test_every_setting_is_on_the_page_of_configuration_with_its_default() -> None:
    page = (ROOT / "docs/configuration.md").read_text("utf-8")
    settings = strings(r'"(spark\.pillarbox[^"]+)",\s+"([^"]+)"', "base/PillarboxConf.scala")
    assert tuple(key for key, _ in settings) == SETTINGS
    assert [one for one in settings if f"- `{one[0]}` ({one[1]}): " not in page] == []
