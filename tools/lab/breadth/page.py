"""Writes docs/models.md: one row for each family, one column for each format and version of transformers, and
one for an optimum-intel that needs another transformers for each family.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tools.lab.breadth.trial import FORMATS, ONNX_RUNTIME, UNKNOWN, Outcome

HEAD = Path(__file__).with_name("head.md")
TITLES = dict(zip(FORMATS, ("ONNX, transformers", "IR, transformers"), strict=True))
OPTIMUM, WITH = "optimum-intel", "transformers "
"""How the results of a newer optimum-intel are called; before the version of transformers that gave a row."""
EARLIER = "2026-11-28"
"""The day until which the results that do not name one were tried."""
Results = dict[str, dict[str, Outcome]]
"""Row → format → outcome."""


def page(folder: Path, names: list[str]) -> str:
    """The page of all results in `folder`."""
    files = [*sorted(folder.glob("transformers-*.json")), *sorted(folder.glob(f"{OPTIMUM}-*.json"))]
    results: dict[str, Results] = {
        file.stem.removeprefix("transformers-"): json.loads(file.read_text(encoding="utf-8"))
        for file in files
    }
    columns = [
        (version, form)
        for version, rows in results.items()
        for form in FORMATS
        if any(form in outcomes for outcomes in rows.values())
    ]
    sentences: list[str] = []
    titles = [_title(version, form) for version, form in columns]
    lines = [f"| family | {' | '.join(titles)} | tried |", "|---" * (2 + len(columns)) + "|"]
    for name in [family for family in names if any(family in rows for rows in results.values())]:
        cells = [_cell(results[version].get(name, {}).get(form), sentences) for version, form in columns]
        lines.append(f"| {name} | {' | '.join(cells)} | {_tried(name, results.values())} |")
    notes = [f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)]
    return HEAD.read_text(encoding="utf-8") + "\n".join([*lines, "", "## Refusals", "", *notes, ""])


def _tried(name: str, results: Iterable[Results]) -> str:
    """The first and the last day on which this row's exports to ONNX were tried."""
    outcomes = [rows[name][FORMATS[0]] for rows in results if FORMATS[0] in rows.get(name, {})]
    days = sorted({outcome.get("tried", EARLIER) for outcome in outcomes if outcome["state"] != UNKNOWN})
    return " – ".join(dict.fromkeys([*days[:1], *days[-1:]])) or "–"


def _title(version: str, form: str) -> str:
    if version.startswith(OPTIMUM):
        return f"IR, {version.replace(f'{OPTIMUM}-', f'{OPTIMUM} ')}"
    return f"{TITLES[form]} {version}"


def _cell(outcome: Outcome | None, sentences: list[str]) -> str:
    if outcome is None or outcome["state"] == UNKNOWN:
        return "–"
    if outcome["state"] == "equal":
        if outcome["why"].startswith(WITH):
            return f"= ({outcome['why'].removeprefix(WITH)})"
        return "= (ORT)" if outcome["why"] == ONNX_RUNTIME else "="
    sentence = outcome["why"] if outcome["state"] == "refused" else f"FAILED: {outcome['why']}"
    if sentence not in sentences:
        sentences.append(sentence)
    return str(sentences.index(sentence) + 1)
