"""openvino_genai with its prompt lookup, for `tools/lab/bench/child.py`.

Runs in its own environment; knows nothing of the other systems.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from tools.lab.bench.peers import openvino_genai


class Engine(openvino_genai.Engine):
    draft_tokens: ClassVar[dict[str, Any]] = {"num_assistant_tokens": 5, "max_ngram_size": 3}

    def properties(self, folder: Path) -> dict[str, Any]:
        return {"prompt_lookup": True}
