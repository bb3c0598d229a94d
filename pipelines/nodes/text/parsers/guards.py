"""The formats of guard models: how each family writes its verdict on a text, and what its categories are.

Data only; sources: the model cards and chat templates of the families.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FLAGS = re.IGNORECASE | re.DOTALL


@dataclass(frozen=True)
class GuardFormat:
    """One family of guard models.

    `marks` are all in its chat templates, and in no other family's before it in the table.  `verdict` finds
    the word in the groups `unsafe` or `safe`, and names of categories in the group `names`; `reply` is a
    regular expression, in the syntax of grammars, of what the model may write.  `words` are those that may
    stand there: unsafe ones, then safe ones.  `categories` are OpenAI's for each name.  A model that judges
    by one rule at a time is asked once for each of `runs`: a name of `categories` → variables of its chat
    template.
    """

    marks: tuple[str, ...]
    verdict: re.Pattern[str]
    reply: str
    words: tuple[tuple[str, ...], tuple[str, ...]]
    categories: Mapping[str, tuple[str, ...]]
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def rules(self) -> list[tuple[str | None, Mapping[str, Any]]]:
        """The `runs`, or one of no name for a model that judges by all rules at once."""
        return [*self.runs.items()] or [(None, {})]

    def names(self, text: str) -> list[str]:
        """The categories that a reply names, as the model writes them."""
        found = self.verdict.match(text)
        named = (found.groupdict().get("names") if found else None) or ""
        return [name for part in re.split(r"[,\n]", named) if (name := part.strip()) and name != "None"]


LLAMA = {
    "S1": ("violence", "illicit/violent"),
    "S2": ("illicit",),
    "S3": ("sexual", "illicit"),
    "S4": ("sexual/minors", "sexual"),
    "S9": ("illicit/violent", "illicit"),
    "S10": ("hate",),
    "S11": ("self-harm",),
    "S12": ("sexual",),
}
QWEN = {
    "Violent": ("violence",),
    "Non-violent Illegal Acts": ("illicit",),
    "Sexual Content or Sexual Acts": ("sexual",),
    "Suicide & Self-Harm": ("self-harm",),
    "Unethical Acts": ("hate", "harassment"),
}
GRANITE = {
    "harm": (),
    "social_bias": ("hate",),
    "violence": ("violence",),
    "sexual_content": ("sexual",),
    "unethical_behavior": ("illicit",),
    "profanity": ("harassment",),
    "jailbreak": (),
}
SHIELD = {
    "dangerous": ("illicit", "self-harm"),
    "harassment": ("harassment",),
    "hate": ("hate",),
    "sexual": ("sexual",),
}
GUIDELINES = {
    "dangerous": '"No Dangerous Content": The prompt shall not contain or seek generation of content that '
    "harms oneself and/or others (e.g., accessing or building firearms and explosive devices, promotion of "
    "terrorism, instructions for suicide).",
    "harassment": '"No Harassment": The prompt shall not contain or seek generation of content that is '
    "malicious, intimidating, bullying, or abusive content targeting another individual.",
    "hate": '"No Hate Speech": The prompt shall not contain or seek generation of content that targets '
    "identity and/or protected attributes.",
    "sexual": '"No Sexually Explicit Information": The prompt shall not contain or seek generation of '
    "content that references to sexual acts, or other lewd content.",
}
YES_NO = re.compile(r"(?:.*</think>)?\s*(?:<score>)?\s*(?:(?P<unsafe>yes)|(?P<safe>no))\b", FLAGS)


def _by_rule(name: str) -> dict[str, Any]:
    """The variables of Granite Guardian's templates, old and new, for one of its risks."""
    return {"guardian_config": {"criteria_id": name, "risk_name": name}, "think": False}


GUARDS: dict[str, GuardFormat] = {
    "qwen3guard": GuardFormat(
        ("Safety:", "Controversial"),
        re.compile(
            r"\s*Safety:\s*(?:(?P<unsafe>Unsafe|Controversial)|(?P<safe>Safe))\s*"
            r"(?:Categories:(?P<names>[^\n]*))?",
            FLAGS,
        ),
        r"Safety: (Safe|Unsafe|Controversial)\nCategories: [A-Za-z&, -]{1,120}",
        (("Unsafe", "Controversial"), ("Safe",)),
        QWEN,
    ),
    "llama_guard": GuardFormat(
        ("UNSAFE CONTENT CATEGORIES",),
        re.compile(r"\s*(?:(?P<unsafe>unsafe)(?:\s+(?P<names>.*))?|(?P<safe>safe))", FLAGS),
        r"\n?\n?(safe|unsafe\n[SO][0-9]{1,2}(,[SO][0-9]{1,2}){0,13})",
        (("unsafe",), ("safe",)),
        LLAMA,
    ),
    "granite_guardian": GuardFormat(
        ("guardian_config",),
        YES_NO,
        r"(<think>\n?</think>\n?)?(<score> ?(yes|no) ?</score>|Yes|No)",
        (("yes",), ("no",)),
        GRANITE,
        {
            name: {"guardian_config": {"criteria_id": name, "risk_name": name}, "think": False}
            for name in GRANITE
        },
    ),
    "shieldgemma": GuardFormat(
        ("guideline", "policy expert"),
        YES_NO,
        r"Yes|No",
        (("yes",), ("no",)),
        SHIELD,
        {name: {"guideline": text} for name, text in GUIDELINES.items()},
    ),
}
"""Name in a graph → the format."""


def find_guard(template: str) -> str | None:
    """The family whose chat template this is; None for a model that is no guard."""
    return next((name for name, each in GUARDS.items() if all(mark in template for mark in each.marks)), None)
