"""The directive ``{error-catalogue}``: every error of the package, read from its errors.json."""

import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

CATALOGUE = Path(__file__).resolve().parents[2] / "python/src/pillarbox/errors.json"


class ErrorCatalogue(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(CATALOGUE))
        catalogue = json.loads(CATALOGUE.read_text("utf-8"))
        entries = [entry(name, catalogue[name]) for name in sorted(catalogue)]
        return [nodes.definition_list("", *entries)]


def entry(name: str, error: dict[str, str]) -> nodes.definition_list_item:
    term = nodes.term("", "", nodes.literal("", name), nodes.Text(f" ({error['type']})"))
    told = [nodes.paragraph("", error[part]) for part in ("message", "remedy")]
    return nodes.definition_list_item("", term, nodes.definition("", *told))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("error-catalogue", ErrorCatalogue)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
