"""Writes the page of a JMH run beside Flink's classes: CPU per operation and the ratio."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

SYSTEMS = ("of", "system")


def figures(result: dict[str, Any]) -> list[float]:
    """CPU nanoseconds per operation of every iteration of every fork."""
    metrics = result["secondaryMetrics"]
    (name,) = [name for name in metrics if name.endswith("cpu")]
    return [value for fork in metrics[name]["rawData"] for value in fork]


def case(result: dict[str, Any]) -> str:
    params = {key: value for key, value in result.get("params", {}).items() if key not in SYSTEMS}
    name = ".".join(result["benchmark"].split(".")[-2:])
    return ", ".join([name, *(f"{key} {value}" for key, value in sorted(params.items()))])


def page(results: list[dict[str, Any]], title: str, commit: str) -> str:
    cases: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for result in results:
        system = next(result["params"][key] for key in SYSTEMS if key in result["params"])
        cases[case(result)][system] = figures(result)
    lines = [
        f"# {title}",
        "",
        f"{date.today().isoformat()}, commit {commit}. CPU time of the whole process per",
        "operation, ns: minimum / median over all iterations. Both systems in one JMH run; the",
        "ratio is ours to Flink's.",
        "",
        "| case | Flink 2.3 | Pillarbox | ratio of minima | ratio of medians |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, systems in cases.items():
        if {"flink", "pillarbox"} <= systems.keys():
            lines.append(row(name, systems["flink"], systems["pillarbox"]))
    return "\n".join(lines) + "\n"


def row(name: str, flink: list[float], ours: list[float]) -> str:
    least, middle = min(ours) / min(flink), statistics.median(ours) / statistics.median(flink)
    return f"| {name} | {shown(flink)} | {shown(ours)} | {least:.2f} | {middle:.2f} |"


def shown(values: list[float]) -> str:
    return f"{min(values):,.1f} / {statistics.median(values):,.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="JMH's JSON")
    parser.add_argument("--title", required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    text = page(json.loads(options.results.read_text()), options.title, commit)
    options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
