"""Pages of a folder stand below its index in the sidebar, while the index stays plain Markdown."""

from __future__ import annotations

from sphinx.application import Sphinx

FOLDERS = {"benchmarks/index": "[!i]*", "adr/index": "0*", "cookbook/index": "[!i]*"}


def pages_below(app: Sphinx, docname: str, source: list[str]) -> None:
    """Adds the folder's pages to its index as a hidden list."""
    if docname in FOLDERS:
        source[0] += f"\n```{{toctree}}\n:glob:\n:hidden:\n\n{FOLDERS[docname]}\n```\n"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", pages_below)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
