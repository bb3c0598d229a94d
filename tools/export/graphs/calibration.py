"""English texts of every length for calibration: the docstrings of Python's standard library."""

from __future__ import annotations

import random
import re
import warnings
from importlib import import_module

MODULES = (
    *("argparse", "asyncio", "collections", "csv", "datetime", "decimal", "email.message", "fractions"),
    *("functools", "heapq", "http.client", "itertools", "json", "logging", "os", "pathlib", "random"),
    *("shutil", "socket", "statistics", "subprocess", "tempfile", "textwrap", "threading", "typing"),
    *("unittest", "urllib.request", "zipfile"),
)
SHORTEST, LONGEST = 20, 800  # characters
NUM_TEXTS = 300


def calibration_texts() -> list[str]:
    """`NUM_TEXTS` paragraphs in a fixed random order."""
    paragraphs: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what is only looked at
        for name in MODULES:
            for _, documented in sorted(vars(import_module(name)).items(), key=lambda pair: pair[0]):
                paragraphs.update(_paragraphs(getattr(documented, "__doc__", None)))
    texts = sorted(paragraphs)
    random.Random(0).shuffle(texts)
    return texts[:NUM_TEXTS]


def _paragraphs(text: object) -> list[str]:
    """The prose paragraphs of a docstring."""
    if not isinstance(text, str):
        return []
    joined = [" ".join(part.split()) for part in text.split("\n\n")]
    return [
        part
        for part in joined
        if SHORTEST < len(part) < LONGEST and ">>>" not in part and re.search("[a-z] [a-z]", part)
    ]
