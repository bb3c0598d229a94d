"""Writes the trained model in Braid's ONNX format with eight-bit weights, for serving on any device.

The folder then holds only the files that a server reads.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .rendering import TEMPLATE_PATH

GENERATION = {"do_sample": False, "temperature": 0.0, "top_p": 1.0}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
SERVED_FILES = {
    "model.onnx",
    "model.onnx.data",
    "config.json",
    "generation_config.json",
    "chat_template.jinja",
    *TOKENIZER_FILES,
}


def export(trained: Path, target: Path) -> None:
    """Exports the folder `trained` into `target`, whose old files are replaced."""
    from tools.export.decoder import export_decoder  # slow to import

    export_decoder(str(trained), target, "int8", form="onnx")
    for name in TOKENIZER_FILES:
        shutil.copyfile(trained / name, target / name)
    shutil.copyfile(TEMPLATE_PATH, target / TEMPLATE_PATH.name)
    _write_generation_defaults(target)
    for path in target.iterdir():
        if path.name not in SERVED_FILES:
            path.unlink()


def _write_generation_defaults(folder: Path) -> None:
    """Greedy by default, so that the demo gives the same answer to the same question."""
    config = json.loads((folder / "config.json").read_text())
    defaults = GENERATION | {key: config[key] for key in ("eos_token_id", "pad_token_id")}
    (folder / "generation_config.json").write_text(json.dumps(defaults, indent=2) + "\n")
