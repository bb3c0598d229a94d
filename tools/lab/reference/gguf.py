"""Writes the tables of what is read of GGUF files into pages: `python -m tools.lab.reference.gguf PAGE…`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from pipelines.gguf.architectures import ARCHITECTURES
from pipelines.gguf.encoder_facts import ENCODERS
from pipelines.gguf.pre_tokenizers import PRE_TOKENIZERS
from pipelines.gguf.rotary import KINDS as ROTARY_KINDS
from pipelines.gguf.tensor_types import OTHER_TYPES, TENSOR_TYPES
from pipelines.gguf.tokenizer_kinds import KINDS as TOKENIZERS
from pipelines.gguf.vision_facts import PROJECTORS
from tools.lab.reference.setting_rows import table

HEAD = ("", "served", "refused, by name")
MODELS = {
    "llama": "Llama, Mistral, Mixtral, SmolLM2",
    "qwen2vl": "Qwen2-VL, 2.5-VL",
    "qwen35": "Qwen3.5",
    "qwen3next": "Qwen3-Next",
    "deepseek2": "DeepSeek V2 Lite and V3, GLM 4.7 Flash, Kimi K2",
    "glm4moe": "GLM 4.5 and later",
    "bailingmoe2": "Ling and Ring 2",
    "mistral3": "Ministral 3",
    "cohere2": "Command R7B, A",
    "olmo2": "OLMo 2, 3",
    "granitehybrid": "Granite 4 H",
    "nemotron_h_moe": "Nemotron 3",
    "phi3": "Phi 3, 3.5, 4",
    "phimoe": "Phi 3.5 MoE",
    "nomic-bert-moe": "on ONNX Runtime",
    "gemma-embedding": "with its dense layers, where the file has them",
}
"""An architecture → the models whose files say it, where its name does not say it."""
TO_EMBED = ("modern-bert", "gemma-embedding")
"""Decoders that embed texts alone."""
SCALINGS = {
    "none": "",
    "linear": "linearly",
    "yarn": "by yarn",
    "longrope": "by [longrope](#longrope)",
}
"""How rotary positions may be scaled, in words."""
WORDS = {
    "gpt2": "byte pairs",
    "llama": "scored pieces",
    "gemma4": "merged pieces",
    "bert": "word pieces",
    "t5": "unigrams",
}
"""`tokenizer.ggml.model` → what it is."""
PROJECTED = {
    "qwen2vl_merger": "Qwen2-VL (architecture qwen2vl)",
    "qwen2.5vl_merger": "Qwen2.5-VL (qwen2vl)",
    "qwen3vl_merger": "Qwen3-VL (qwen3vl, qwen3vlmoe), with deepstack; Qwen3.5 (qwen35, qwen35moe)",
    "gemma3": "Gemma 3 (gemma3), 4B and larger: tokens of an image attend to one another",
    "gemma4v": "Gemma 4 (gemma4): tokens of an image attend to one another in layers with a window, and in "
    "E2B and E4B in none, as in transformers",
    "gemma4uv": "Gemma 4 12B (gemma4), which has no encoder: tokens of an image attend to one another in all "
    "layers",
    "idefics3": "Idefics3, SmolVLM",
    "internvl": "InternVL 2.5, 3 and 3.5 whose layers have norms with a bias (the vision model of 300M)",
    "pixtral": "Pixtral, Mistral Small 3.1 and later (llama, mistral3)",
    "lfm2": "LFM2-VL (lfm2)",
    "mlp": "LLaVA 1.5 (llama) with CLIP, whose vocabulary has `<image>`; not the tiles of 1.6",
}
"""`clip.projector_type` → models."""


def files_table() -> str:
    """What is read of the files of models."""
    decoders = [name for name in ARCHITECTURES if name not in TO_EMBED]
    embedders = _named([*ENCODERS, *TO_EMBED])
    scalings = ", ".join(filter(None, map(SCALINGS.__getitem__, ROTARY_KINDS)))
    kinds = ", ".join(f"{name} ({WORDS[name]})" for name in TOKENIZERS)
    rows = [
        ("architectures", f"{_named(decoders)}; for embeddings {embedders}; bert for rankings", "others"),
        ("weights", ", ".join(kind.name for kind in TENSOR_TYPES.values()), ", ".join(OTHER_TYPES.values())),
        (
            "positions",
            f"rotary, of a whole head or of its first part; scaled {scalings}, or by factors (Llama 3)",
            "other kinds; yarn with an attention factor of its own",
        ),
        ("tokenizers", kinds, "other kinds"),
        ("`tokenizer.ggml.pre`", ", ".join(PRE_TOKENIZERS), "other ways to split"),
    ]
    return table(HEAD, rows)


def projectors_table() -> str:
    """What is read of mmproj files."""
    rows = [(f"`{name}`", PROJECTED[name]) for name in PROJECTORS]
    return table(("`clip.projector_type`", "models"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "what is read of GGUF files": files_table,
    "projectors": projectors_table,
}
"""What stands in the comments around a table → what writes it."""


def with_tables(text: str) -> str:
    """The page with each of these tables made again, between its two comments."""
    for name, write in TABLES.items():
        begin, end = f"<!-- {name}: `make docs` writes this table -->", f"<!-- end of {name} -->"
        place = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        text = place.sub(partial(_whole, f"{begin}\n\n{write()}\n\n{end}"), text)
    return text


def _whole(text: str, place: re.Match[str]) -> str:
    """`text` in a place, whatever stands there."""
    return text


def _named(architectures: Iterable[str]) -> str:
    return ", ".join(f"{name} ({MODELS[name]})" if name in MODELS else name for name in architectures)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        page = Path(argument)
        page.write_text(with_tables(page.read_text()))
