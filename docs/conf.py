"""Sphinx settings of the site; ``make docs`` builds it with warnings as errors."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Pillarbox"
author = "the Pillarbox maintainers"
release = (ROOT / "python/src/pillarbox/_version.py").read_text().split('"')[1]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
extensions += ["house_docstrings", "house_folders", "house_sources"]
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
myst_heading_anchors = 3
smartquotes = False  # they would spoil the quotes of error messages
exclude_patterns = ["_build", "_ext"]

html_theme = "furo"
html_title = "Pillarbox"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#b3261e", "color-brand-content": "#b3261e"},
    "dark_css_variables": {"color-brand-primary": "#ff8a80", "color-brand-content": "#ff8a80"},
}
