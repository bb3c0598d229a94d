"""OpenAI's categories of harm, and what labels of common classifiers are among them."""

from __future__ import annotations

CATEGORIES = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)

LABELS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in CATEGORIES},
    "toxic": ("harassment",),
    "toxicity": ("harassment",),
    "severe_toxic": ("harassment",),
    "severe_toxicity": ("harassment",),
    "insult": ("harassment",),
    "obscene": ("harassment",),
    "threat": ("harassment/threatening", "violence"),
    "identity_hate": ("hate",),
    "identity_attack": ("hate",),
    "sexual_explicit": ("sexual",),
    "offensive": ("harassment",),
    "nsfw": ("sexual",),
    "h": ("hate",),
    "h2": ("hate/threatening",),
    "hr": ("harassment",),
    "s": ("sexual",),
    "s3": ("sexual/minors",),
    "sh": ("self-harm",),
    "v": ("violence",),
    "v2": ("violence/graphic",),
    "jailbreak": (),
    "injection": (),
    "malicious": (),
}
"""Label in small letters → its categories; () is harm that has none of them.  The short ones are those of
KoalaAI/Text-Moderation, which follows OpenAI's earlier data set; the others those of Jigsaw's.
"""


def categories_of(label: str) -> tuple[str, ...] | None:
    """The categories of a label; None for one that is no harm, or unknown."""
    return LABELS.get(label.strip().lower().replace(" ", "_"))
