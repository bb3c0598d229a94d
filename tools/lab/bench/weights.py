"""Writes Hugging Face folders in bfloat16 for the benchmark: bigram models, and the demo model."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

END = "<|end|>"
BESIDE = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
"""Files of a folder besides weights and config."""
ZERO = 128
"""The code of 0 in the demo's 8-bit weights."""
LIKELIHOOD = 0.9
"""Probability of the successor; the rest is spread over the whole vocabulary."""
EMBEDDING_RMS = 32.0
"""Scale of embeddings: so large that random layers hardly change the final hidden state."""


def write_bigram_model(config: dict[str, Any], after: NDArray[Any], folder: Path) -> None:
    """Write a Qwen3 of `config` whose most probable token after t is always `after[t]`, and a tokenizer of
    its vocabulary.

    after: int64[vocab_size], a permutation. The layers' weights are random.
    """
    import torch
    from transformers import AutoModelForCausalLM, Qwen3Config

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(Qwen3Config(**config), dtype=torch.bfloat16)
    vocab_size, width = config["vocab_size"], config["hidden_size"]
    rows = torch.randn(vocab_size, width)
    rows *= math.sqrt(width) / rows.norm(dim=1, keepdim=True)
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(rows * EMBEDDING_RMS)
        rows *= _top_logit(vocab_size, width) / width
        model.get_output_embeddings().weight[torch.from_numpy(after)] = rows.to(torch.bfloat16)
    model.save_pretrained(folder)
    _write_tokenizer(vocab_size, folder)


def _top_logit(vocab_size: int, width: int) -> float:
    """The logit s at which the successor has LIKELIHOOD.

    Those of the others are normal with a deviation of s / sqrt(width), and the mean of their exponentials is
    exp(s² / 2 width).
    """
    odds = math.log(vocab_size * LIKELIHOOD / (1 - LIKELIHOOD))
    return width * (1 - math.sqrt(1 - 2 * odds / width))


def write_from_onnx(model: Path, folder: Path) -> None:
    """The model of `braid export --format onnx --weights int8` in `model`, as transformers would save it."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    values = {
        name: torch.from_numpy(array).to(torch.bfloat16) for name, array in _weights(model / "model.onnx")
    }
    save_file(values, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((model / "config.json").read_text()) | {"dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    for name in BESIDE:
        shutil.copy(model / name, folder)


def _weights(path: Path) -> Iterator[tuple[str, Any]]:
    """Names as in transformers' state, and float32 values."""
    import numpy as np
    import onnx
    from onnx.numpy_helper import to_array

    stored = {tensor.name: tensor for tensor in onnx.load(path).graph.initializer}
    for name, tensor in stored.items():
        own = name.removeprefix("model.")
        if name.endswith(".int8"):
            scales = to_array(stored[name.removesuffix("int8") + "scales8"])
            rows = (to_array(tensor).astype(np.float32) - ZERO) * scales[..., None]
            own = own.removesuffix(".int8").removesuffix(".T")
            yield own.replace("lm_head", "model.embed_tokens"), rows.reshape(rows.shape[0], -1).copy()
        elif name.endswith("norm.weight"):
            yield own, to_array(tensor).copy()


def _write_tokenizer(vocab_size: int, folder: Path) -> None:
    """Write a byte-level tokenizer in which every id of the vocabulary has a text.

    The 256 bytes come first; the one merge and the one special token are the minimum that openvino_tokenizers
    requires.
    """
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["th", *(f"w{number}" for number in range(len(symbols) + 1, vocab_size - 1))]
    vocabulary = {text: number for number, text in enumerate(symbols + words)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[("t", "h")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END).save_pretrained(folder)
