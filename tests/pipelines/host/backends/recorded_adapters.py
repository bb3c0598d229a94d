"""Three adapters of a tiny random Llama and what PEFT generates with each; `python recorded_adapters.py` with
peft installed records them again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from adapter_batches import NUM_TOKENS, Case

FOLDER = Path(__file__).parent / "recorded" / "adapters"
FAMILY = "llama"
ORDER = [None, "a", "b", "c", "a", None, "c", "b"]
"""The adapters of the recorded prompts."""
CONFIGS: dict[str, dict[str, Any]] = {
    "a": {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "down_proj"]},
    "b": {"r": 4, "lora_alpha": 6, "target_modules": "all-linear", "use_rslora": True},
    "c": {
        "r": 2,
        "lora_alpha": 8,
        "target_modules": r".*layers\.1\.self_attn\.(q|v)_proj",
        "rank_pattern": {r"layers\.1\.self_attn\.v_proj": 3},
        "alpha_pattern": {"q_proj": 5},
    },
}


def recorded_cases() -> list[Case]:
    return [Case(**each) for each in json.loads((FOLDER / "cases.json").read_text())]


def record(scratch: Path) -> None:
    import numpy as np
    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file, save_file
    from tiny_decoders import VOCABULARY, write_decoder
    from transformers import AutoModelForCausalLM

    write_decoder(FAMILY, scratch)
    model = AutoModelForCausalLM.from_pretrained(scratch, dtype=torch.float32)
    model.config._name_or_path = f"tiny-{FAMILY}"
    configs = {name: LoraConfig(**fields) for name, fields in CONFIGS.items()}
    peft = get_peft_model(model, configs["a"], adapter_name="a")
    for name in ("b", "c"):
        peft.add_adapter(name, configs[name])
    torch.manual_seed(1)
    types = {"a": torch.float16, "b": torch.bfloat16, "c": torch.float32}
    with torch.no_grad():
        for key, values in peft.named_parameters():
            if ".lora_" in key:
                values.copy_((torch.randn_like(values) * 0.2).to(types[key.split(".")[-2]]))
    peft.save_pretrained(FOLDER)
    (FOLDER / "README.md").unlink(missing_ok=True)
    for name, dtype in types.items():
        file = FOLDER / name / "adapter_model.safetensors"
        save_file({key: each.to(dtype) for key, each in load_file(file).items()}, file)
    rng, cases = np.random.default_rng(5), []
    for name in ORDER:
        prompt = torch.tensor([rng.integers(3, VOCABULARY, int(rng.integers(5, 70))).tolist()])
        peft.set_adapter(name or "a")
        (peft.base_model.disable_adapter_layers if name is None else peft.base_model.enable_adapter_layers)()
        made = peft.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=NUM_TOKENS,
            eos_token_id=None,
            pad_token_id=0,
        )[0].tolist()
        cases.append(Case(name, prompt[0].tolist(), made[prompt.shape[1] :])._asdict())
    (FOLDER / "cases.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
