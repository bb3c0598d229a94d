"""Hugging Face folders with random models of a few layers, to be exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
SIZES: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
}


def write_decoder(folder: Path, family: str, **config: Any) -> Path:
    """A decoder of `family` with a byte-level tokenizer and a chat template; `config` is added to `SIZES`."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    settings = AutoConfig.for_model(family, **SIZES | config)
    AutoModelForCausalLM.from_config(settings).save_pretrained(folder)
    _write_tokenizer(folder)
    return folder


def write_whole(folder: Path, family: str, kind: str = "AutoModel", **config: Any) -> Path:
    """A model of `family` that reads whole texts; `kind` is transformers' class for it."""
    import torch
    import transformers

    torch.manual_seed(3)
    settings = transformers.AutoConfig.for_model(family, **SIZES | {"initializer_range": 0.2} | config)
    getattr(transformers, kind).from_config(settings).eval().save_pretrained(folder)
    _write_tokenizer(folder)
    return folder


def add_sentence_modules(folder: Path, *modules: str, how: str = "mean", longest: int = 100) -> Path:
    """The files of sentence-transformers: a Transformer, and `modules` behind it, a Dense one of 64 to 16."""
    import torch

    listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, kind in enumerate(modules, 1):
        path = f"{number}_{kind}"
        listed.append({"idx": number, "path": path, "type": f"sentence_transformers.models.{kind}"})
        (folder / path).mkdir(exist_ok=True)
        settings = {"Pooling": {"word_embedding_dimension": 64, f"pooling_mode_{how}_tokens": True}}
        if kind == "Dense":
            settings["Dense"] = {"in_features": 64, "out_features": 16, "bias": True}
            settings["Dense"]["activation_function"] = "torch.nn.modules.activation.Tanh"
            layer = torch.nn.Linear(64, 16)
            weights = {f"linear.{name}": value.detach() for name, value in layer.named_parameters()}
            torch.save(weights, folder / path / "pytorch_model.bin")
        if kind in settings:
            (folder / path / "config.json").write_text(json.dumps(settings[kind]))
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest}))
    return folder


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={text: number for number, text in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=TEMPLATE).save_pretrained(folder)
