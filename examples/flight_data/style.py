"""How the demos' pictures look."""

from __future__ import annotations

OURS, OTHER, SLOW, INK = "#c8372d", "#5b7a99", "#c9a227", "#333333"
STYLE = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "figure.dpi": 110,
    "savefig.bbox": "tight",
}
