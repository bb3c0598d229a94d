"""Hugging Face folders with random decoders of a few layers, to be exported."""

from __future__ import annotations

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


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={text: number for number, text in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=TEMPLATE).save_pretrained(folder)
