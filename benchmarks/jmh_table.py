"""Writes the page of JMH runs beside Flink's classes: CPU per operation, and the ratios."""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from . import report

SYSTEMS = ("of", "system")
MEASURED = (
    "The figures are CPU time of the whole process an operation in ns, the minimum and the median "
    "of all iterations. Both systems run in one JMH run; a ratio is ours to Flink's."
)


def figures(result: dict[str, Any]) -> list[float]:
    """CPU nanoseconds per operation of every iteration of every fork."""
    metrics = result["secondaryMetrics"]
    (name,) = [name for name in metrics if name.endswith("cpu")]
    return [value for fork in metrics[name]["rawData"] for value in fork]


def case(result: dict[str, Any]) -> str:
    params = {key: value for key, value in result.get("params", {}).items() if key not in SYSTEMS}
    name = ".".join(result["benchmark"].split(".")[-2:])
    return ", ".join([name, *(f"{key} {value}" for key, value in sorted(params.items()))])


def tables(results: list[dict[str, Any]], versus: str | None, aims: dict[str, float]) -> str:
    """The cases of both systems, those of ours alone, and what a parameter costs."""
    cases: dict[str, dict[str, list[float]]] = defaultdict(dict)
    alone: dict[str, list[float]] = {}
    for result in results:
        system = next((result["params"][key] for key in SYSTEMS if key in result["params"]), None)
        if system:
            cases[case(result)][system] = figures(result)
        else:
            alone[case(result)] = figures(result)
    lines = [
        "| case | Flink 2.3 | Pillarbox | ratio of minima | ratio of medians | aim, by minima |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, systems in cases.items():
        if {"flink", "pillarbox"} <= systems.keys():
            lines.append(row(name, systems["flink"], systems["pillarbox"], aims))
    if alone:
        lines += ["", "| Pillarbox alone | ns |", "|---|--:|"]
        lines += [f"| {name} | {shown(values)} |" for name, values in alone.items()]
    if versus:
        lines += versus_table(cases, versus, aims)
    return "\n".join(lines)


def verdict(ratio: float, case: str, aims: dict[str, float]) -> str:
    """The aim of the last name in `aims` that the case has, and by how much it is missed."""
    aim = next((aim for name, aim in reversed(aims.items()) if name in case), None)
    if aim is None:
        return ""
    return report.aim_of(ratio, aim)


def versus_table(
    cases: dict[str, dict[str, list[float]]], versus: str, aims: dict[str, float]
) -> list[str]:
    """What a parameter costs within one system: `ttl=on/off` divides cases that differ in it."""
    name, values = versus.split("=")
    one, other = values.split("/")
    head = f"| {name} {one} to {other} | Flink 2.3 | Pillarbox | aim |"
    lines = ["", head, "|---|--:|--:|--:|"]
    for label, systems in cases.items():
        counterpart = cases.get(label.replace(f"{name} {one}", f"{name} {other}"), {})
        if f"{name} {one}" in label and counterpart.keys() == systems.keys():
            theirs, ours = (
                min(systems[of]) / min(counterpart[of]) for of in ("flink", "pillarbox")
            )
            case = label.replace(f", {name} {one}", "")
            aim = verdict(ours, versus, aims)
            lines.append(f"| {case} | {theirs:.2f} | {ours:.2f} | {aim} |")
    return lines


def row(name: str, flink: list[float], ours: list[float], aims: dict[str, float]) -> str:
    least, middle = min(ours) / min(flink), statistics.median(ours) / statistics.median(flink)
    ratios = f"{least:.2f} | {middle:.2f} | {verdict(least, name, aims)}"
    return f"| {name} | {shown(flink)} | {shown(ours)} | {ratios} |"


def shown(values: list[float]) -> str:
    return f"{min(values):,.1f} / {statistics.median(values):,.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="JMH's JSON files")
    parser.add_argument("--title", required=True)
    parser.add_argument("--question", required=True, help="what the page answers")
    parser.add_argument("--command", required=True, help="what makes the page again")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--versus", help="a parameter to compare within a system: ttl=on/off")
    parser.add_argument("--notes", type=Path, help="Markdown about aims and conditions")
    parser.add_argument("--aims", default="", help="ratios by parts of a case's name: heap=0.5,…")
    options = parser.parse_args()
    pairs = (one.rpartition("=") for one in filter(None, options.aims.split(",")))
    aims = {name: float(aim) for name, _, aim in pairs}
    results = [result for path in options.results for result in json.loads(path.read_text())]
    conditions = MEASURED + ("\n\n" + options.notes.read_text().rstrip() if options.notes else "")
    found = [tables(results, options.versus, aims)]
    text = report.page(options.title, options.question, found, conditions, options.command)
    options.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
