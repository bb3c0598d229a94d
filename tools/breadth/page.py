"""Writes docs/models.md: one row for each family, one column for each version of transformers."""

from __future__ import annotations

import json
from pathlib import Path

from tools.breadth.trial import IR, UNKNOWN, Outcome

HEAD = Path(__file__).with_name("head.md")


def page(folder: Path, names: list[str]) -> str:
    """The page of all results in `folder`."""
    results: dict[str, dict[str, Outcome]] = {
        file.stem.partition("-")[2]: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob("transformers-*.json"))
    }
    sentences: list[str] = []
    titles = [f"transformers {version}" for version in results]
    lines = [f"| family | {' | '.join(titles)} |", "|---" * (1 + len(results)) + "|"]
    for name in [each for each in names if any(each in outcomes for outcomes in results.values())]:
        cells = [_cell(outcomes.get(name), sentences) for outcomes in results.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    notes = [f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)]
    return HEAD.read_text(encoding="utf-8") + "\n".join([*lines, "", "## Refusals", "", *notes, ""])


def _cell(outcome: Outcome | None, sentences: list[str]) -> str:
    if outcome is None or outcome["state"] == UNKNOWN:
        return "–"
    if outcome["state"] == "equal":
        return "= (IR)" if outcome["why"] == IR else "="
    sentence = outcome["why"] if outcome["state"] == "refused" else f"FAILED: {outcome['why']}"
    if sentence not in sentences:
        sentences.append(sentence)
    return str(sentences.index(sentence) + 1)
