"""The site has each page as Markdown too, beside its HTML, and llms.txt that names them."""

from __future__ import annotations

import shutil
from pathlib import Path

from sphinx.application import Sphinx


def copy_sources(app: Sphinx, problem: Exception | None) -> None:
    if problem is not None or app.builder.format != "html":
        return
    docs, site = Path(app.srcdir), Path(app.outdir)
    for name in app.env.found_docs:
        if (docs / f"{name}.md").exists():
            shutil.copyfile(docs / f"{name}.md", site / f"{name}.md")
    shutil.copyfile(docs / "llms.txt", site / "llms.txt")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", copy_sources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
