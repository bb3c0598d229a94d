"""Two adapters of tiny random encoders and PEFT's vectors with each; `python recorded_encoder_adapters.py` with
peft installed records them again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

FOLDER = Path(__file__).parent / "recorded" / "encoder_adapters"
ORDER = [None, "a", "b", "b", "a", None]
"""The adapters of the recorded texts."""
LONGEST = 20
CONFIGS: dict[str, dict[str, dict[str, Any]]] = {
    "bert": {
        "a": {
            "r": 6,
            "lora_alpha": 12,
            "target_modules": ["query", "key", "value", "dense"],
            "exclude_modules": ".*pooler.*",
            "task_type": "FEATURE_EXTRACTION",
        },
        "b": {"r": 2, "lora_alpha": 6, "target_modules": ["query", "value"], "use_rslora": True},
    },
    "qwen3-scorer": {
        "a": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "k_proj", "o_proj", "down_proj"]},
        "b": {"r": 3, "lora_alpha": 9, "target_modules": ["q_proj", "v_proj", "gate_proj"]},
    },
}
"""Family → name → PEFT's settings."""


def recorded_rows(family: str) -> list[np.ndarray]:
    """What PEFT gives for each text with its adapter: [tokens, size], or [size]."""
    rows = load_file(FOLDER / family / "rows.safetensors")
    return [rows[str(place)] for place in range(len(ORDER))]


def record(family: str) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors.numpy import save_file
    from tiny_encoders import make_model, rows_alone, texts

    model = make_model(family)
    model.config._name_or_path = f"tiny-{family}"
    configs = {name: LoraConfig(**fields) for name, fields in CONFIGS[family].items()}
    peft = get_peft_model(model, configs["a"], adapter_name="a")
    peft.add_adapter("b", configs["b"])
    torch.manual_seed(1)
    with torch.no_grad():
        for key, values in peft.named_parameters():
            if ".lora_" in key:
                values.copy_(torch.randn_like(values) * 0.2)
    peft.eval().save_pretrained(FOLDER / family)
    (FOLDER / family / "README.md").unlink(missing_ok=True)
    rows = {}
    for place, (name, text) in enumerate(zip(ORDER, texts(len(ORDER), LONGEST), strict=True)):
        peft.set_adapter(name or "a")
        (peft.base_model.disable_adapter_layers if name is None else peft.base_model.enable_adapter_layers)()
        rows[str(place)] = np.ascontiguousarray(rows_alone(peft, text))
    save_file(rows, FOLDER / family / "rows.safetensors")


if __name__ == "__main__":
    for each in CONFIGS:
        record(each)
