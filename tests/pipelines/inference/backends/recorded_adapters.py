"""Adapters of tiny random decoders and what PEFT generates with each; `python recorded_adapters.py FOLDER
[NAME …]` with peft installed records them again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from adapter_batches import NUM_TOKENS, Case

ROOT = Path(__file__).parent / "recorded" / "adapters"
ORDER = [None, "a", "b", "c", "a", None, "c", "b"]
"""The adapters of the recorded prompts."""
TYPES = {"a": "float16", "b": "bfloat16", "c": "float32"}
"""In which their files are saved."""
FAMILIES = {
    "layers": "llama",
    "qwen3": "qwen3",
    "gemma3": "gemma3_text",
    "phi3": "phi3",
    "ends": "llama",
    "tied_ends": "qwen3",
}
"""Recording → the family of its base."""
LAYERS: dict[str, dict[str, Any]] = {
    "a": {
        "r": 8,
        "lora_alpha": 16,
        "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "down_proj"],
    },
    "b": {"r": 4, "lora_alpha": 6, "target_modules": "all-linear", "use_rslora": True},
    "c": {
        "r": 2,
        "lora_alpha": 8,
        "target_modules": r".*layers\.1\.self_attn\.(q|v)_proj",
        "rank_pattern": {r"layers\.1\.self_attn\.v_proj": 3},
        "alpha_pattern": {"q_proj": 5},
    },
}
CONFIGS: dict[str, dict[str, dict[str, Any]]] = {
    "layers": LAYERS,
    "qwen3": LAYERS,
    "gemma3": LAYERS,
    "phi3": {
        "a": LAYERS["a"] | {"target_modules": ["qkv_proj", "o_proj", "down_proj"]},
        "b": LAYERS["b"],
        "c": {
            "r": 2,
            "lora_alpha": 8,
            "target_modules": r".*layers\.1\.(self_attn\.qkv|mlp\.gate_up)_proj",
            "rank_pattern": {r"layers\.1\.mlp\.gate_up_proj": 3},
            "alpha_pattern": {"qkv_proj": 5},
        },
    },
    "ends": {
        "a": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "embed_tokens", "lm_head"]},
        "b": {
            "r": 2,
            "lora_alpha": 6,
            "target_modules": ["v_proj"],
            "modules_to_save": ["embed_tokens", "lm_head"],
        },
        "c": {
            "r": 3,
            "lora_alpha": 5,
            "target_modules": ["embed_tokens"],
            "modules_to_save": ["lm_head"],
            "use_rslora": True,
        },
    },
    "tied_ends": {
        "a": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "embed_tokens"]},
        "b": {"r": 2, "lora_alpha": 6, "target_modules": ["v_proj"], "modules_to_save": ["embed_tokens"]},
        "c": {
            "r": 3,
            "lora_alpha": 5,
            "target_modules": ["v_proj", "embed_tokens"],
            "ensure_weight_tying": True,
        },
    },
}


def recorded_cases(recording: str) -> list[Case]:
    return [Case(**each) for each in json.loads((ROOT / recording / "cases.json").read_text())]


def record(recording: str, scratch: Path) -> None:
    import numpy as np
    from tiny_decoders import VOCABULARY, write_decoder

    base, folder = scratch / recording, ROOT / recording
    write_decoder(FAMILIES[recording], base)
    models = {None: _opened(base)}
    for seed, name in enumerate(TYPES):
        _write_adapter(base, folder / name, CONFIGS[recording][name], TYPES[name], seed)
        models[name] = _opened(base, folder / name)
    rng, cases = np.random.default_rng(5), []
    for name in ORDER:
        prompt = rng.integers(3, VOCABULARY, int(rng.integers(5, 70))).tolist()
        cases.append(Case(name, prompt, _generated(models[name], prompt))._asdict())
    (folder / "cases.json").write_text(json.dumps(cases) + "\n")


def _opened(base: Path, adapter: Path | None = None) -> Any:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return model if adapter is None else PeftModel.from_pretrained(model, adapter)


def _write_adapter(base: Path, folder: Path, config: dict[str, Any], dtype: str, seed: int) -> None:
    """An adapter with random weights, as PEFT saves it."""
    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file, save_file

    model = _opened(base)
    model.name_or_path = "tiny"
    model = get_peft_model(model, LoraConfig(**config))
    torch.manual_seed(seed)
    with torch.no_grad():
        for key, values in model.named_parameters():
            if ".lora_" in key or ".modules_to_save." in key:
                values.copy_(torch.randn_like(values) * 0.2)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    file = folder / "adapter_model.safetensors"
    save_file({key: tensor.to(getattr(torch, dtype)) for key, tensor in load_file(file).items()}, file)


def _generated(model: Any, prompt: list[int]) -> list[int]:
    import torch

    ids = torch.tensor([prompt])
    generated = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=NUM_TOKENS,
        eos_token_id=None,
        pad_token_id=0,
    )
    return generated[0].tolist()[len(prompt) :]


if __name__ == "__main__":
    for each in sys.argv[2:] or FAMILIES:
        record(each, Path(sys.argv[1]))
