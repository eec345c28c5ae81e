"""Writes the page of JMH runs beside Flink's classes: CPU per operation, and the ratios."""

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


def page(results: list[dict[str, Any]], title: str, commit: str, versus: str | None) -> str:
    cases: dict[str, dict[str, list[float]]] = defaultdict(dict)
    alone: dict[str, list[float]] = {}
    for result in results:
        system = next((result["params"][key] for key in SYSTEMS if key in result["params"]), None)
        if system:
            cases[case(result)][system] = figures(result)
        else:
            alone[case(result)] = figures(result)
    lines = [
        f"# {title}",
        "",
        f"{date.today().isoformat()}, commit {commit}. CPU time of the whole process per",
        "operation in ns, minimum / median over all iterations. Both systems in one JMH run; the",
        "ratio is ours to Flink's.",
        "",
        "| case | Flink 2.3 | Pillarbox | ratio of minima | ratio of medians |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, systems in cases.items():
        if {"flink", "pillarbox"} <= systems.keys():
            lines.append(row(name, systems["flink"], systems["pillarbox"]))
    if alone:
        lines += ["", "| Pillarbox alone | ns |", "|---|--:|"]
        lines += [f"| {name} | {shown(values)} |" for name, values in alone.items()]
    if versus:
        lines += versus_table(cases, versus)
    return "\n".join(lines) + "\n"


def versus_table(cases: dict[str, dict[str, list[float]]], versus: str) -> list[str]:
    """What a parameter costs within one system: `ttl=on/off` divides cases that differ in it."""
    name, values = versus.split("=")
    one, other = values.split("/")
    lines = ["", f"| {name} {one} to {other} | Flink 2.3 | Pillarbox |", "|---|--:|--:|"]
    for label, systems in cases.items():
        counterpart = cases.get(label.replace(f"{name} {one}", f"{name} {other}"), {})
        if f"{name} {one}" in label and counterpart.keys() == systems.keys():
            shares = [
                f"{min(systems[of]) / min(counterpart[of]):.2f}" for of in ("flink", "pillarbox")
            ]
            lines.append(f"| {label.replace(f', {name} {one}', '')} | {shares[0]} | {shares[1]} |")
    return lines


def row(name: str, flink: list[float], ours: list[float]) -> str:
    least, middle = min(ours) / min(flink), statistics.median(ours) / statistics.median(flink)
    return f"| {name} | {shown(flink)} | {shown(ours)} | {least:.2f} | {middle:.2f} |"


def shown(values: list[float]) -> str:
    return f"{min(values):,.1f} / {statistics.median(values):,.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="JMH's JSON files")
    parser.add_argument("--title", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--versus", help="a parameter to compare within a system: ttl=on/off")
    parser.add_argument("--notes", type=Path, help="Markdown to end the page with")
    options = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    results = [result for path in options.results for result in json.loads(path.read_text())]
    text = page(results, options.title, commit, options.versus)
    if options.notes:
        text += "\n" + options.notes.read_text()
    options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
