"""Writes the trained model as OpenVINO IR with eight-bit weights, ready to be served.

Knows nothing of training. Leaves the folder with what a server reads and nothing else.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .rendering import TEMPLATE_PATH

GENERATION = {"do_sample": False, "temperature": 0.0, "top_p": 1.0}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
SERVED_FILES = {
    "openvino_model.xml",
    "openvino_model.bin",
    "config.json",
    "generation_config.json",
    "chat_template.jinja",
    *TOKENIZER_FILES,
}


def export(trained: Path, target: Path) -> None:
    """Exports the folder `trained` into `target`, whose old files are replaced."""
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig  # slow to import

    model = OVModelForCausalLM.from_pretrained(
        trained, export=True, quantization_config=OVWeightQuantizationConfig(bits=8)
    )
    target.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(target)
    for name in TOKENIZER_FILES:
        shutil.copyfile(trained / name, target / name)
    shutil.copyfile(TEMPLATE_PATH, target / TEMPLATE_PATH.name)
    _write_generation_defaults(target)
    for path in target.iterdir():
        if path.name not in SERVED_FILES:
            path.unlink()


def _write_generation_defaults(folder: Path) -> None:
    """Greedy by default: a demonstration should answer the same question the same way."""
    config = json.loads((folder / "config.json").read_text())
    defaults = GENERATION | {key: config[key] for key in ("eos_token_id", "pad_token_id")}
    (folder / "generation_config.json").write_text(json.dumps(defaults, indent=2) + "\n")
