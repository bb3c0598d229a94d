"""The benchmark's model: the shape of Qwen3-0.6B with random weights, exported once to int8.

Knows shapes and files; knows nothing of servers or of what is measured.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

SHAPE = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": 151_935,
}
MODEL_NAME = "qwen3-0.6b"
END = "<|end|>"
PEER_TOKENIZER = "openvino_tokenizer.xml"


def bench_model(folder: Path, stage: Callable[[str], None]) -> Path:
    """The model repository under `folder`, its one model exported when it is not there yet.

    That takes a few minutes, 6 GB of memory and 2 GB of disk, of which 0.6 GB stay.
    """
    models = folder / "models"
    exported = models / MODEL_NAME / "model"
    if (exported / PEER_TOKENIZER).exists():
        return models
    from tools.export.decoder import export_decoder

    stage("making random weights")
    source = folder / "weights"
    _write_weights(source)
    _write_tokenizer(source)
    export_decoder(str(source), exported, "int8", stage)
    stage("converting the tokenizer for openvino_genai")
    _write_peer_tokenizer(exported)
    shutil.rmtree(source)
    return models


def _write_weights(folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, Qwen3Config

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(Qwen3Config(**SHAPE), dtype=torch.bfloat16)
    model.save_pretrained(folder)


def _write_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer in which every id of the vocabulary has a text, as a trained one's has.

    The 256 bytes stand first, the one merge and the one special token are what openvino_tokenizers wants at
    least; so text becomes nearly its bytes, and any id becomes text.
    """
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["th", *(f"w{number}" for number in range(len(symbols) + 1, SHAPE["vocab_size"] - 1))]
    vocabulary = {text: number for number, text in enumerate(symbols + words)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[("t", "h")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END).save_pretrained(folder)


def _write_peer_tokenizer(folder: Path) -> None:
    import openvino as ov
    from openvino_tokenizers import convert_tokenizer
    from transformers import AutoTokenizer

    encode, decode = convert_tokenizer(AutoTokenizer.from_pretrained(folder), with_detokenizer=True)
    ov.save_model(decode, folder / "openvino_detokenizer.xml")
    ov.save_model(encode, folder / PEER_TOKENIZER)
