"""openvino_genai with a draft model, for `tools/lab/bench/child.py`.

Runs in its own environment; knows nothing of the other systems.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

from openvino_genai import draft_model

from tools.lab.bench.peers import openvino_genai


class Engine(openvino_genai.Engine):
    draft_tokens: ClassVar[dict[str, Any]] = {"num_assistant_tokens": 4}

    def properties(self, folder: Path) -> dict[str, Any]:
        """The draft lies beside the repository that `folder` is in, and wants a tokenizer of its own."""
        draft = folder.parents[2] / "draft"
        for path in folder.glob("openvino_*tokenizer.*"):
            shutil.copy(path, draft)
        return {"draft_model": draft_model(str(draft), "CPU")}
