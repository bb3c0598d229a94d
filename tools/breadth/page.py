"""Writes docs/models.md: one row for each family, one column for each version of transformers."""

from __future__ import annotations

import json
from pathlib import Path

from tools.breadth.trial import FORMATS, ONNX_RUNTIME, UNKNOWN, Outcome

HEAD = Path(__file__).with_name("head.md")
TITLES = dict(zip(FORMATS, ("ONNX, transformers", "IR, transformers"), strict=True))
Results = dict[str, dict[str, Outcome]]
"""Row → format → outcome."""


def page(folder: Path, names: list[str]) -> str:
    """The page of all results in `folder`."""
    results: dict[str, Results] = {
        file.stem.partition("-")[2]: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob("transformers-*.json"))
    }
    columns = [
        (version, form)
        for version, rows in results.items()
        for form in FORMATS
        if any(form in outcomes for outcomes in rows.values())
    ]
    sentences: list[str] = []
    titles = [f"{TITLES[form]} {version}" for version, form in columns]
    lines = [f"| family | {' | '.join(titles)} |", "|---" * (1 + len(columns)) + "|"]
    for name in [each for each in names if any(each in rows for rows in results.values())]:
        cells = [_cell(results[version].get(name, {}).get(form), sentences) for version, form in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    notes = [f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)]
    return HEAD.read_text(encoding="utf-8") + "\n".join([*lines, "", "## Refusals", "", *notes, ""])


def _cell(outcome: Outcome | None, sentences: list[str]) -> str:
    if outcome is None or outcome["state"] == UNKNOWN:
        return "–"
    if outcome["state"] == "equal":
        return "= (ORT)" if outcome["why"] == ONNX_RUNTIME else "="
    sentence = outcome["why"] if outcome["state"] == "refused" else f"FAILED: {outcome['why']}"
    if sentence not in sentences:
        sentences.append(sentence)
    return str(sentences.index(sentence) + 1)
